"""How often intervals hold where few reports differ, and how wide they are.

    python -m experiments.evidence intervals

Real columns (Adult, and households of the Current Population Survey) from which people are drawn,
and one made-up list. A cell is one column, law, number of people and subject; a look is one
collection of it:

    lists     all labels of a long list at once (the simultaneous intervals)
    answered  the share that answered, and the share of each label, or the mean, among those
    block     means of several numbers by `block`, each coordinate
    change    a mean in two weeks, of people of whom some go on and some have moved
    test      whether anything is said to have changed over six weeks in which nothing has: of whom
              report all, half, or one half in the first weeks and the other in the last

Each cell is held to 95% by an exact binomial test at 1e-4. `width` is in that of 1.96 root mean
square errors to either side.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.stats import binom

from experiments import adult_data, census_data
from experiments.piece import Figures, Piece, Row, markdown, totals
from murmuration import mechanism, seeded_rng
from murmuration.analysis import answered
from murmuration.analysis.periods import Periods
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load
from murmuration.exact.arrays import Floats, Ints
from murmuration.mechanisms.item.memoised import Memoised
from murmuration.mechanisms.number.memoised_bit import MemoisedBit
from murmuration.mechanisms.number.or_none import OrNone

CONFIDENCE, UNLIKELY = 0.95, 1e-4
LOOKS, TESTS = 10, 2
"""Of each cell in a part."""
ABOUT = ("participants", "population")
WEEK, WEEKS = 2960, 6
POINTS = ("lists", "answered", "block", "change", "test")


# --- columns -------------------------------------------------------------------------------------


@cache
def numbers() -> dict[str, Floats]:
    """Return columns of numbers in [-1, 1], nan for no answer."""
    households, adults = census_data.read(), adult_data.read()

    def scaled(values: Any, low: float, high: float) -> Floats:
        return np.asarray(2 * (np.clip(values, low, high) - low) / (high - low) - 1)

    wages, pensions = households["e00200"], households["e01500"]
    hours = scaled(adults["hours-per-week"].astype(float), 1, 99)
    return {
        "wages 70%": np.where(wages > 0, scaled(wages, 0, 150_000), math.nan),
        "pensions 9%": np.where(pensions > 0, scaled(pensions, 0, 50_000), math.nan),
        "hours 94%": np.where(adults["workclass"] != "?", hours, math.nan),
    }


@cache
def labels() -> dict[str, Ints]:
    """Return columns of labels as numbers."""
    adults = adult_data.read()

    def coded(*names: str) -> Ints:
        joined = np.array(
            [" ".join(words) for words in zip(*(adults[n] for n in names), strict=True)]
        )
        return np.asarray(np.unique(joined, return_inverse=True)[1])

    zipf = np.arange(1, 114) ** -1.2
    made = np.random.default_rng(0).choice(113, 32_561, p=zipf / zipf.sum())
    return {"jobs and schooling": coded("occupation", "education"), "made up": made}


@cache
def silences() -> dict[str, Ints]:
    """Return columns of labels, the last of which is no answer."""
    adults = adult_data.read()
    jobs = [job for job in adult_data.OCCUPATIONS if job != "?"]
    codes = {job: place for place, job in enumerate(jobs)}
    job = np.array([codes.get(job, len(jobs)) for job in adults["occupation"]])
    relations = np.unique(adults["relationship"], return_inverse=True)[1]
    few = np.where(np.random.default_rng(0).random(len(relations)) < 0.92, 6, relations)
    return {"jobs 94%": job, "relations 8%": few}


@cache
def tuples() -> Floats:
    """Return five numbers of each person, in [-1, 1]."""
    names = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")
    adults, columns = adult_data.read(), adult_data.ATTRIBUTES
    rows = []
    for name in names:
        values, column = adults[name].astype(float), columns[name]
        low, high = column.low, column.high  # type: ignore[union-attr]
        rows.append(2 * (np.clip(values, low, high) - low) / (high - low) - 1)
    return np.array(rows).T


# --- looks ---------------------------------------------------------------------------------------


@dataclass
class Counted:
    """What one part counts, by cell."""

    row: defaultdict[str, float]

    def look(self, cell: str, held: bool, width: float = math.nan, error: float = 0.0) -> None:
        """Count one interval."""
        self.row[f"{cell}/looks"] += 1
        self.row[f"{cell}/held"] += held
        if math.isfinite(width):
            self.row[f"{cell}/bounded"] += 1
            self.row[f"{cell}/width"] += width
            self.row[f"{cell}/square"] += error**2


def people(column: Any, n: int, about: str, number: int) -> tuple[Callable[[], Any], Any]:
    """Return a way to draw people, and whom figures are about: the same ones, or the column."""
    if about == "population":
        draw = np.random.default_rng([number, n, 1])
        return lambda: column[draw.integers(0, len(column), n)], column
    fixed = column[np.random.default_rng([number, n]).integers(0, len(column), n)]
    return lambda: fixed, fixed


def lists(number: int, counted: Counted) -> None:
    """Look at all labels of long lists at once."""
    for name, column in labels().items():
        k, rng = int(column.max()) + 1, seeded_rng(number)
        for epsilon, n, about in settings((1.0, 4.0, 6.0, 8.0), (300, 3000)):
            law: Any = mechanism("subset", epsilon=epsilon, k=k)
            drawn, true = people(column, n, about, number)
            truth = np.bincount(true, minlength=k) / len(true)
            for _ in range(LOOKS):
                found = law.estimate(law.tally(law.privatize(drawn(), rng)), about)
                low, high = found.simultaneous(CONFIDENCE)
                held = bool(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).all())
                cell = f"lists/{name}, {about}, epsilon {epsilon:g}, n {n}"
                error = math.sqrt(float(np.mean((found.value - truth) ** 2)))
                counted.look(cell, held, float(np.mean(high - low)), error)


def settings(epsilons: Sequence[float], sizes: Sequence[int]) -> Iterator[tuple[float, int, str]]:
    """Yield epsilon, people and subject of each cell."""
    for epsilon in epsilons:
        for n in sizes:
            for about in ABOUT:
                yield epsilon, n, about


def among_labels(number: int, counted: Counted) -> None:
    """Look at the share that answered, and at each label among those."""
    for name, column in silences().items():
        k, rng = int(column.max()) + 1, seeded_rng(number)
        for epsilon, n, about in settings((4.0, 8.0), (300, 3000)):
            law: Any = mechanism("subset", epsilon=epsilon, k=k)
            drawn, true = people(column, n, about, number)
            shares = np.bincount(true, minlength=k) / len(true)
            truth, cell = shares[:-1] / (1 - shares[-1]), f"{about}, epsilon {epsilon:g}, n {n}"
            for _ in range(LOOKS):
                part = answered.estimated([law.tally(law.privatize(drawn(), rng))], about, n)
                share_of(counted, f"answered/{name}, share, {cell}", part, 1 - shares[-1])
                low, high = part.among_interval(CONFIDENCE)
                error = part.among - truth
                for item in range(k - 1):
                    held = bool(
                        low[item] <= truth[item] + 1e-12 and truth[item] <= high[item] + 1e-12
                    )
                    at = f"answered/{name}, label {item}, {cell}"
                    counted.look(at, held, float(high[item] - low[item]), float(error[item]))


def share_of(counted: Counted, cell: str, part: Any, truth: float) -> None:
    """Look at the share that answered."""
    low, high = part.answered.interval(CONFIDENCE)
    held = low <= truth + 1e-12 and truth <= high + 1e-12
    counted.look(cell, bool(held), float(high - low), part.share - truth)


def among_numbers(number: int, counted: Counted) -> None:
    """Look at the share that answered, and at the mean among those."""
    for name, column in numbers().items():
        rng = seeded_rng(number)
        for epsilon, n, about in settings((1.0, 4.0, 8.0), (300, 900)):
            law = OrNone(epsilon, "optimal")
            drawn, true = people(column, n, about, number)
            cell = f"{about}, epsilon {epsilon:g}, n {n}"
            for _ in range(LOOKS):
                part = answered.estimated([law.tally(law.privatize(drawn(), rng))], about, n)
                share_of(counted, f"answered/{name}, share, {cell}", part, np.mean(~np.isnan(true)))
                (low,), (high,) = part.among_interval(CONFIDENCE)
                truth = float(np.nanmean(true))
                at, error = f"answered/{name}, mean, {cell}", float(part.among[0]) - truth
                counted.look(at, bool(low <= truth <= high), float(high - low), error)


def blocks(number: int, counted: Counted) -> None:
    """Look at five means by `block`."""
    column, rng = tuples(), seeded_rng(number)
    for epsilon, n, about in settings((4.0, 8.0), (300, 3000)):
        law: Any = mechanism("block", epsilon=epsilon, d=column.shape[1])
        drawn, true = people(column, n, about, number)
        truth = true.mean(axis=0)
        for _ in range(LOOKS):
            found = law.estimate(law.tally(law.privatize(drawn(), rng)), about)
            for place, (low, high) in enumerate(found.interval(CONFIDENCE)):
                cell = f"block/number {place}, {about}, epsilon {epsilon:g}, n {n}"
                error = found[place].value - truth[place]
                held = bool(low <= truth[place] + 1e-12 and truth[place] <= high + 1e-12)
                counted.look(cell, held, high - low, error)


# --- weeks ---------------------------------------------------------------------------------------

TEXT = """
name = "weekly"
purpose = "The same question every week."
epsilon = {epsilon}
cohort = 100
[repeat]
permanent = {permanent}
rounds = 52
every = "week"
[[attributes]]
name = "answer"
"""
KINDS = {
    "number": "low = -1\nhigh = 1\n",
    "category": 'kind = "category"\nlabels = ["0", "1", "2", "3", "4", "5", "6"]\n',
}


@cache
def campaign(kind: str, epsilon: float) -> SurveyCampaign:
    """Return a question that comes back."""
    text = TEXT.format(epsilon=epsilon, permanent=2 * epsilon) + KINDS[kind]
    found = load.parse(text)
    assert isinstance(found, SurveyCampaign)
    return found


def values_of(kind: str) -> Any:
    """Return a real column that fits."""
    if kind == "number":
        return np.nan_to_num(numbers()["hours 94%"], nan=-0.2)
    return np.unique(adult_data.read()["marital-status"], return_inverse=True)[1]


def weekly(kind: str, epsilon: float) -> Memoised | MemoisedBit:
    """Return the law of a campaign."""
    law = campaign(kind, epsilon).frame.cells[0]
    assert isinstance(law, Memoised | MemoisedBit)
    return law


def changes(number: int, counted: Counted) -> None:
    """Look at a mean in two weeks: 10% of the people have moved up by half the range."""
    for epsilon in (1.0, 4.0):
        for who in ("all", "half"):
            draw, rng, law = (
                np.random.default_rng(number),
                seeded_rng(number),
                weekly("number", epsilon),
            )
            before = values_of("number")[draw.integers(0, 30_000, 2000)]
            moved = np.where(draw.random(2000) < 0.1, np.minimum(before + 1, 1), before)
            here = [draw.random(2000) < (1 if who == "all" else 0.5) for _ in range(2)]
            truth = float(moved[here[1]].mean() - before[here[0]].mean())
            for _ in range(LOOKS):
                seed = int(draw.integers(1 << 30))  # the same threshold and lie in both weeks
                kept = [law.remember(own, seeded_rng(seed)) for own in (before, moved)]
                tallies = {
                    WEEK + week: (law.tally(law.repeat(kept[week][here[week]], rng)),)
                    for week in range(2)
                }
                (found,) = Periods(campaign("number", epsilon), tallies).changes(WEEK + 1)
                held, error = found.low <= truth <= found.high, found.value - truth
                counted.look(
                    f"change/{who} report, epsilon {epsilon:g}", held, found.high - found.low, error
                )


def tests(number: int, counted: Counted) -> None:
    """Ask whether anything has changed where nothing has; held: that nothing is said."""
    for kind in KINDS:
        for epsilon in (1.0, 4.0, 8.0):
            for who in ("all", "half", "halves"):
                for run in range(TESTS):
                    found = _tested(kind, epsilon, who, [number, run])
                    counted.look(f"test/{kind}, {who} report, epsilon {epsilon:g}", not found)


def _tested(kind: str, epsilon: float, who: str, seed: list[int]) -> bool:
    draw, rng, law = np.random.default_rng(seed), seeded_rng(sum(seed)), weekly(kind, epsilon)
    values = values_of(kind)[draw.integers(0, 30_000, 1000)]
    kept = law.remember(values, rng).astype(int)
    half = draw.permutation(len(values)) < len(values) // 2
    tallies = {}
    for week in range(WEEKS):
        here = {"all": half | ~half, "halves": half if week < WEEKS // 2 else ~half}
        reporting = here.get(who, draw.random(len(values)) < 0.5)
        tallies[WEEK + week] = (law.tally(law.repeat(kept[reporting], rng)),)
    found = Periods(campaign(kind, epsilon), tallies).changed()
    return found is not None and found.changed


# --- the piece -----------------------------------------------------------------------------------


def part(number: int) -> Row:
    """Look at every cell some times."""
    counted = Counted(defaultdict(float))
    for looks in (lists, among_labels, among_numbers, blocks, changes, tests):
        looks(number, counted)
    return dict(counted.row)


def figures(rows: Sequence[Row]) -> Figures:
    """Return, for each point, how many looks held, the lowest cell, and the width."""
    found = measured(rows)
    for point in POINTS:
        assert found[f"{point}: rejected"] == 0, f"{point}: a cell holds less often than 95%"
    return found


def measured(rows: Sequence[Row]) -> Figures:
    """Return the same, whatever it is."""
    counts, found = totals(rows), Figures()
    cells = sorted(name[: -len("/looks")] for name in counts if name.endswith("/looks"))
    for point in POINTS:
        own = [cell for cell in cells if cell.startswith(f"{point}/")]
        looks, held = (sum(counts[f"{cell}/{what}"] for cell in own) for what in ("looks", "held"))
        shares = {cell: counts[f"{cell}/held"] / counts[f"{cell}/looks"] for cell in own}
        widths = [width for cell in own if (width := _width(counts, cell)) is not None]
        lowest = min(own, key=lambda cell: shares[cell])
        rejected = [cell for cell in own if _unlikely(counts, cell)]
        found |= {
            f"{point}: looks": looks,
            f"{point}: held": held / looks,
            f"{point}: cells": len(own),
            f"{point}: lowest cell": shares[lowest],
            f"{point}: rejected": len(rejected),
        }
        if widths:
            found |= {f"{point}: width": float(np.median(widths)), f"{point}: widest": max(widths)}
        if point in ("lists", "test", "change"):
            found |= {f"{cell}: held": shares[cell] for cell in own}
        if point in ("lists", "change"):
            found |= {f"{cell}: width": _width(counts, cell) or 0.0 for cell in own}
    return found


def _width(counts: Figures, cell: str) -> float | None:
    """Return the mean width, in that of 1.96 root mean square errors to either side."""
    bounded, square = counts.get(f"{cell}/bounded", 0), counts.get(f"{cell}/square", 0.0)
    if not bounded or not square:
        return None
    return counts[f"{cell}/width"] / bounded / (2 * 1.96 * math.sqrt(square / bounded))


def _unlikely(counts: Figures, cell: str) -> bool:
    looks, held = counts[f"{cell}/looks"], counts[f"{cell}/held"]
    return float(binom.cdf(round(held), round(looks), CONFIDENCE)) < UNLIKELY


def table(found: Figures) -> str:
    """Return a line for each point."""
    lines = [
        [
            point,
            f"{found[f'{point}: looks']:,.0f}",
            *(f"{found[f'{point}: {what}']:.3f}" for what in ("held", "lowest cell")),
            *(f"{found.get(f'{point}: {what}', math.nan):.2f}" for what in ("width", "widest")),
        ]
        for point in POINTS
    ]
    return markdown(["", "looks", "held", "lowest cell", "width, median", "widest"], lines)


PIECE = Piece(
    "intervals where few reports differ: long lists, missing answers, blocks, changes, the test",
    part,
    parts=60,
    sample=(0,),
    figures=figures,
    table=table,
)
