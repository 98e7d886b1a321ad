"""What the planner chooses from: an explicit list, so that a new mechanism changes no campaign.

A mechanism can be used by its name as soon as its file is there. The planner takes it only when
it is listed here. Each name that is listed is described in docs/wire.md, is known to the browser's
client and has test vectors, so that every device can draw what a campaign publishes
(`tests/contract/test_specification.py`). Of candidates that are equal, the first one is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from murmuration.mechanisms.domain import Domain, Items, Number


@dataclass(frozen=True)
class Candidate:
    """A mechanism that may be chosen, with parameters that are not the usual ones."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    sampled: bool = False
    """Whether it is for people of whom each is asked some attributes."""

    @property
    def label(self) -> str:
        """What it is called beside others.

        >>> Candidate("piecewise", {"t": "sub"}).label
        'piecewise-sub'
        """
        return "-".join([self.name, *map(str, self.settings.values())])


ASKED_ONCE: Mapping[type[Domain], tuple[Candidate, ...]] = MappingProxyType(
    {
        Number: (
            Candidate("dithered"),
            Candidate("duchi"),
            Candidate("hybrid"),
            Candidate("laplace"),
            Candidate("optimal"),
            Candidate("optimal-sampled", sampled=True),
            Candidate("piecewise"),
            Candidate("piecewise", {"t": "sub"}),
            Candidate("piecewise", {"t": "optimal"}),
            Candidate("three-output"),
        ),
        Items: (
            Candidate("bassily-smith"),
            Candidate("grr"),
            Candidate("hadamard"),
            Candidate("hadamard-response"),
            Candidate("olh"),
            Candidate("oue"),
            Candidate("projective"),
            Candidate("subset"),
            Candidate("sue"),
        ),
    }
)
"""For a mean, or for shares of items."""

ASKED_AGAIN: Mapping[type[Domain], str] = MappingProxyType(
    {Number: "memoised-bit", Items: "memoised"}
)
"""For a question that is repeated."""

DISTRIBUTION = "square-wave"
"""For the whole distribution of a number."""

GRADED = "graded-optimal"
"""For a number whose ranges have budgets of their own."""

GRADED_ITEMS = "graded-items"
"""For items that have budgets of their own."""

VECTOR = "privunit"
"""For a vector of length at most 1: the gradients of a training."""

LISTED = frozenset(
    [
        *(candidate.name for candidates in ASKED_ONCE.values() for candidate in candidates),
        *ASKED_AGAIN.values(),
        DISTRIBUTION,
        GRADED,
    ]
)
"""All names that a campaign can get without naming them."""
