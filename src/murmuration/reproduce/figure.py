"""What a figure of a paper is here: what is run, what is drawn, and which claims it decides.

work      one collection (or training, or exact computation); it yields points
point     a value of a series at an x, from one run
finding   a part of the claim, decided by numbers with standard errors
verdict   what all findings come to: holds, in part, false, cannot be told
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from murmuration.exact.randomness import Rng
from murmuration.reproduce.curves import Curves, Mean, Point

HOLDS, IN_PART, FALSE, UNTOLD = "holds", "in part", "false", "cannot be told"
PAPERS = ("harmony", "hiera", "dct", "mpldp")
CERTAIN = 3.0
"""Standard errors that a number must be away from a bound for a finding to be sure."""
UNSEEN = 4.0
"""Standard errors within which a number cannot be told from the one that is claimed."""
Name = tuple[str | float, ...]
Chosen = TypeVar("Chosen")


@dataclass(frozen=True)
class Scale:
    """How much is run: a sample (seconds, for tests), quick (minutes), full (the papers' sizes)."""

    name: str = "quick"

    def pick(self, sample: Chosen, quick: Chosen, full: Chosen) -> Chosen:
        """Return what belongs to this scale.

        >>> Scale("full").pick(1, 10, 100)
        100
        """
        return {"sample": sample, "quick": quick, "full": full}[self.name]


class Work(Protocol):
    """What is run once for each repetition."""

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Run once and return the points that come of it."""


@dataclass(frozen=True)
class Job:
    """A piece of work and how often it is run."""

    work: Work
    runs: int = 1


@dataclass(frozen=True)
class Exact:
    """Work without randomness: the points are computed, once."""

    compute: Callable[[], Sequence[Point]]

    def collect(self, rng: Rng, repetition: int) -> Sequence[Point]:
        """Compute."""
        del rng, repetition
        return self.compute()


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    name: str
    """That of the points that are drawn here."""
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False


# --- findings ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Finding:
    """A part of a claim, what was measured about it, and whether it holds; None: undecided."""

    says: str
    measured: str
    holds: bool | None
    value: float = math.nan
    stderr: float = 0.0
    runs: int = 0
    counts: bool = True
    """Whether it is a part of the claim, or stands beside it and decides nothing."""


def _shown(number: Mean) -> str:
    noise = f" ± {number.stderr:.1g}" if number.stderr else ""
    return f"{number.value:.4g}{noise}"


def below(says: str, number: Mean, bound: float, what: str = "ratio") -> Finding:
    """Decide whether a number is below a bound, by `CERTAIN` standard errors.

    >>> below("smaller", Mean(0.5, 0.1, 20), 1.0).holds, below("", Mean(0.9, 0.1, 20), 1.0).holds
    (True, None)
    """
    away = bound - number.value
    holds = None if abs(away) < CERTAIN * number.stderr else away > 0
    return Finding(says, f"{what} {_shown(number)}", holds, *number)


def above(says: str, number: Mean, bound: float, what: str = "ratio") -> Finding:
    """Decide whether a number is above a bound.

    >>> above("larger", Mean(0.5, 0.1, 20), 1.0).holds
    False
    """
    away = number.value - bound
    holds = None if abs(away) < CERTAIN * number.stderr else away > 0
    return Finding(says, f"{what} {_shown(number)}", holds, *number)


def between(says: str, number: Mean, low: float, high: float, what: str = "ratio") -> Finding:
    """Decide whether a number is in a range.

    >>> between("about 1/4", Mean(0.25, 0.01, 9), 0.2, 0.3).holds
    True
    """
    room = min(number.value - low, high - number.value)
    holds = None if abs(room) < CERTAIN * number.stderr else room > 0
    return Finding(says, f"{what} {_shown(number)}", holds, *number)


def agrees(says: str, number: Mean, claimed: float, what: str = "value") -> Finding:
    """Decide whether a number is the claimed one: within `UNSEEN` standard errors of it.

    >>> agrees("unbiased", Mean(0.03, 0.01, 9), 0.0).holds
    True
    """
    room = UNSEEN * number.stderr + 1e-9 * max(1.0, abs(claimed))
    holds = abs(number.value - claimed) <= room
    return Finding(says, f"{what} {_shown(number)}, claimed {claimed:.4g}", holds, *number)


def fact(says: str, holds: bool, measured: str, value: float = math.nan) -> Finding:
    """State what was computed exactly."""
    return Finding(says, measured, holds, value)


def beside(says: str, measured: str) -> Finding:
    """Note what the claim does not say, and what whoever reads it wants to know.

    >>> verdict([fact("a", True, ""), beside("b", "2")])
    'holds'
    """
    return Finding(says, measured, None, counts=False)


def noted(says: str, number: Mean, what: str = "ratio") -> Finding:
    """Note a number beside the claim."""
    return Finding(says, f"{what} {_shown(number)}", None, *number, counts=False)


def verdict(findings: Sequence[Finding]) -> str:
    """Return what findings come to; those that are undecided count only if all are.

    >>> verdict([fact("a", True, ""), fact("b", False, "")])
    'in part'
    """
    decided = [one.holds for one in findings if one.counts and one.holds is not None]
    if not decided:
        return UNTOLD
    return HOLDS if all(decided) else IN_PART if any(decided) else FALSE


# --- a figure ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Audited:
    """A law that the figure uses: what the paper promises, and its exact loss."""

    law: str
    promised: float
    loss: float
    kept: bool


@dataclass(frozen=True)
class Figure:
    """A table, figure or theorem of a paper, run again."""

    id: str
    where: str
    """Its place in the paper."""
    claim: str
    jobs: Callable[[Scale], Mapping[Name, Job]]
    judge: Callable[[Curves], list[Finding]]
    verdict: str
    """What the numbers have come to; `make evidence` fails when they come to another."""
    panels: tuple[Panel, ...]
    instead: str
    """What to use, in words."""
    choices: tuple[str, ...] = ()
    """What the paper leaves open, and what is done here."""
    audits: Callable[[], Sequence[Audited]] = tuple
    family: str = ""
    """Figures of one family are drawn from the same runs: these are made once."""
    hours: float = 0.0
    """Of one core, at full scale, about; counted once for a family."""


def audited(name: str, law: object, promised: float | None = None) -> Audited:
    """Return the exact audit of a mechanism, beside what was promised."""
    loss = law.loss()  # type: ignore[attr-defined]
    claimed = loss.claimed if promised is None else promised
    kept = loss.holds if promised is None else loss.epsilon <= claimed
    return Audited(name, float(claimed), float(loss.epsilon), bool(kept))
