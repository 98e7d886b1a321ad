"""The exact losses that every device must find, too: `docs/vectors/losses.json`.

A device audits laws by itself. The file has laws, and what this library says of each:
the ratio, its logarithm, what `accept_loss` must say, what a report is charged, and how likely
reports are, which people are shown (of the number 0.3, or that the own and another item are
supported).
`web/client/test/loss.test.ts` and the device in Java are held to it.

`python -m tests.contract.test_losses` writes the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from murmuration import Mechanism, mechanism
from murmuration.audit.admission import in_words
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.number.base import NumericMechanism
from murmuration.mechanisms.number.or_none import OrNone
from tests.support.vectors import VECTORS

FILE = VECTORS / "losses.json"
X = 0.3
BUDGETS = (0.1, 1.0, 3.3)
NUMBERS = ("duchi", "three-output", "memoised-bit")
ITEMS = ("grr", "sue", "oue", "subset", "olh", "hadamard", "hadamard-response")
MORE_ITEMS = ("bassily-smith", "projective", "memoised")
VECTORS = ("block", "duchi-multi", "duchi-multi-published", "hybrid-composition", "harmony")
RANGES = (
    ((1.0, 0.4, 3.0), (-0.9, 0.123), "max"),
    ((0.5, 2.0), (0.25,), "min"),
    ((0.7,), (), "max"),
)


def laws() -> Iterator[Mechanism]:
    """Every kind of law, at some budgets: most keep their promise by a hair, some break it."""
    for epsilon in BUDGETS:
        yield from (mechanism(name, epsilon=epsilon) for name in NUMBERS)
        yield from (mechanism(name, epsilon=epsilon, k=7) for name in (*ITEMS, *MORE_ITEMS))
        yield from (mechanism(name, epsilon=epsilon, d=4) for name in VECTORS)
        yield mechanism("harmony", epsilon=epsilon, domains=(0, 3, 5))
        yield mechanism("hybrid-composition", epsilon=epsilon, domains=(0, 3, 5))
        yield mechanism("sampled", epsilon=epsilon, domains=(0, 3, 5), sample=2, numeric="duchi")
        yield mechanism("or-none", epsilon=epsilon, inner="duchi")
    yield mechanism("dct", epsilon=0.05)
    for epsilons, edges, semantics in RANGES:
        for name in ("graded-bit", "hiera"):
            yield mechanism(name, epsilon=epsilons, edges=edges, semantics=semantics)
    settings = (("edges", (0.2,)), ("semantics", "min"))
    yield mechanism("or-none", epsilon=(1.0, 0.4), inner="graded-bit", settings=settings)


def found(law: Mechanism) -> dict[str, Any]:
    """What the file says of a law; fractions as text, an infinite loss as null."""
    loss = law.loss()
    whole = loss.ratio is not None
    return {
        **law.document(),
        "ratio": [str(loss.ratio.numerator), str(loss.ratio.denominator)] if loss.ratio else None,
        "loss": loss.epsilon if whole else None,
        "kept": loss.holds,
        "words": "" if loss.holds else in_words(loss),
        "budget": law.budget,
        "charge": law.charge if whole else None,
        "chances": chances(law),
    }


def chances(law: Mechanism) -> list[float] | None:
    """How likely reports are; None where they are about several attributes."""
    if isinstance(law, FrequencyMechanism):
        return [round(float(part), 12) for part in (law.p, law.q)]
    if isinstance(law, OrNone):
        grid, rows = law.inside.design.grid, law.probabilities[:-1]
    elif isinstance(law, NumericMechanism):
        grid, rows = law.design.grid, law.design.table.probabilities
    else:
        return None
    return [round(float(grid.interpolate(column, np.array([X]))[0]), 12) for column in rows.T]


def written() -> str:
    """The file, a law to a line."""
    return "[\n" + ",\n".join(json.dumps(found(law)) for law in laws()) + "\n]\n"


def comparable(text: str) -> list[dict[str, Any]]:
    """Without what symbols are read as: a solver's last digits differ between processors."""
    rows: list[dict[str, Any]] = json.loads(text)
    return [{**row, "law": {**row["law"], "values": None}} for row in rows]


def test_every_device_is_held_to_these_losses() -> None:
    assert comparable(written()) == comparable(FILE.read_text())


def test_a_loss_is_between_two_different_values() -> None:
    for law in laws():
        first, second = law.loss().inputs
        assert first != second, law
        if law.memoised and isinstance(law, FrequencyMechanism):
            first, second = law.loss_of(9).inputs
            assert first != second, law


if __name__ == "__main__":
    FILE.write_text(written())
