"""Are figures by period, several together, and changes as good as they say? By simulated crowds.

    python -m experiments.evidence periods

People keep their permanent answers for as long as they keep a value; they report in some periods
and not in others, and which is not independent of what they answer. Each scenario is a crowd that
stays the same; what is drawn again is the noise (and, about the population, the crowd). A figure is
covered if its 95% interval has what is really so:

    period    the share among those who reported in that period
    together  the shares of the periods, each weighed by its people
    change    the difference between two periods: each pair of neighbours, and first and last

`test` is how often something is said to have changed (level 5%), `chi-square` how often a
chi-square of all periods as if they were independent would say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from experiments.piece import Figures, Piece, Row, markdown, require_share
from murmuration import seeded_rng
from murmuration.analysis.periods import Periods
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load as campaign_file
from murmuration.exact.arrays import Floats, Ints
from murmuration.mechanisms.item.memoised import Memoised

CAMPAIGN = """
name = "mood"
purpose = "How people are, week by week."
epsilon = {epsilon}
cohort = 100
[repeat]
permanent = {permanent}
rounds = 52
every = "week"
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""
FIRST = 2960
"""The number of the first week."""
Bits = NDArray[np.bool_]
Draw = np.random.Generator


@dataclass(frozen=True)
class Crowd:
    """What people answer in each period, and who reports: a row a period, a column a person."""

    values: Ints
    present: Bits

    def shares(self) -> Floats:
        """Return the share of each answer among those who report, a row a period."""
        rows = [
            np.bincount(own[here], minlength=3) / here.sum()
            for own, here in zip(self.values, self.present, strict=True)
        ]
        return np.array(rows)


def eager(draw: Draw, people: int, periods: int) -> Crowd:
    """People who are well report often, others hardly ever; some change their mind."""
    values = np.empty((periods, people), dtype=np.int64)
    values[0] = draw.choice(3, people, p=[0.385, 0.365, 0.25])
    for t in range(1, periods):
        again = draw.random(people) < 0.1
        values[t] = np.where(again, draw.choice(3, people, p=[0.5, 0.3, 0.2]), values[t - 1])
    often = np.array([0.9, 0.3, 0.15])
    return Crowd(values, draw.random((periods, people)) < often[values])


def constant(draw: Draw, people: int, periods: int) -> Crowd:
    """Everybody reports always, and nothing ever changes."""
    values = np.tile(draw.choice(3, people, p=[0.5, 0.3, 0.2]), (periods, 1))
    return Crowd(values, np.ones((periods, people), dtype=bool))


def halves(draw: Draw, people: int, periods: int) -> Crowd:
    """Some report in the first half of the periods, others in the second; shares are the same."""
    half = np.repeat([0, 1, 2], [people // 4, 3 * people // 20, people // 10])
    values = np.tile(np.concatenate([half, half]), (periods, 1))
    first = np.arange(periods)[:, None] < periods / 2
    present = first == (np.arange(values.shape[1]) < len(half))
    del draw
    return Crowd(values, present)


def swinging(draw: Draw, people: int, periods: int) -> Crowd:
    """Everybody says one thing in one period and another in the next; shares hardly change."""
    start = draw.integers(0, 2, people)
    values = (start + np.arange(periods)[:, None]) % 2
    return Crowd(values, np.ones((periods, people), dtype=bool))


SCENARIOS: dict[str, Callable[[Draw, int, int], Crowd]] = {
    "eager": eager,
    "constant": constant,
    "halves": halves,
    "swinging": swinging,
}


def campaign(epsilon: float = 1.0, permanent: float = 2.0) -> SurveyCampaign:
    """Return the campaign that is played."""
    return campaign_file.parse(
        CAMPAIGN.format(epsilon=epsilon, permanent=permanent), SurveyCampaign
    )


def counted(asked: SurveyCampaign, crowd: Crowd, seed: int) -> ByPeriod:
    """Return the tallies of what a crowd's devices send, each by its permanent answers."""
    (law,) = asked.frame.cells
    assert isinstance(law, Memoised)
    rng, people = seeded_rng(seed), crowd.values.shape[1]
    kept = np.array([law.remember(np.full(people, value), rng) for value in range(3)])
    found = {}
    for t, (own, here) in enumerate(zip(crowd.values, crowd.present, strict=True)):
        who = np.flatnonzero(here)
        found[FIRST + t] = (law.tally(law.repeat(kept[own[who], who], rng)),)
    return found


def study(
    name: str,
    runs: int,
    people: int = 4000,
    periods: int = 6,
    about: str = "participants",
    permanent: float = 2.0,
    first: int = 1,
) -> dict[str, tuple[int, int]]:
    """Return how many figures were covered, of how many; and how often a change was said."""
    asked, hits, tries = campaign(permanent=permanent), Counter[str](), Counter[str]()
    fixed = SCENARIOS[name](np.random.default_rng(first), people, periods)
    for run in range(runs):
        drawn = np.random.default_rng([first, run])
        population = about == "population"
        crowd = SCENARIOS[name](drawn, people, periods) if population else fixed
        truth = crowd.shares() if not population else _expected(name, crowd)
        found = Periods(asked, counted(asked, crowd, 1_000_003 * first + run), about)
        _cover(found, truth, crowd.present.sum(axis=1), hits, tries)
        said = found.changed()
        hits["test"] += said is not None and said.changed
        hits["chi-square"] += _chi_square(found) < 0.05
        tries["test"] += 1
        tries["chi-square"] += 1
    return {what: (int(hits[what]), tries[what]) for what in tries}


def _expected(name: str, crowd: Crowd) -> Floats:
    """Return the population's shares, where crowds are drawn."""
    periods = len(crowd.values)
    if name == "swinging":
        return np.tile([0.5, 0.5, 0.0], (periods, 1))
    if name == "constant":
        return np.tile([0.5, 0.3, 0.2], (periods, 1))
    raise ValueError(f"the population of {name} is not known here")


def _cover(
    found: Periods, truth: Floats, people: Ints, hits: Counter[str], tries: Counter[str]
) -> None:
    """Count what each interval covers."""

    def note(what: str, low: float | None, high: float | None, real: float) -> None:
        tries[what] += 1
        hits[what] += low is not None and high is not None and low <= real <= high

    periods = len(truth)
    for t in range(periods):
        for item, figure in enumerate(found.reading(FIRST + t).figures):
            note("period", figure.low, figure.high, truth[t, item])
    together = people @ truth / people.sum()
    for item, figure in enumerate(found.pooled().figures):
        note("together", figure.low, figure.high, together[item])
    for before, after in [*((t, t + 1) for t in range(periods - 1)), (0, periods - 1)]:
        for item, change in enumerate(found.changes(FIRST + after, FIRST + before)):
            note("change", change.low, change.high, truth[after, item] - truth[before, item])


def _chi_square(found: Periods) -> float:
    """Return the least p of a chi-square over all periods, of three (Bonferroni)."""
    by_item: dict[str, list[tuple[float, float]]] = {}
    for figure in found.trend():
        by_item.setdefault(figure.item, []).append((figure.value, figure.stderr or np.inf))
    least = 1.0
    for rows in by_item.values():
        values, errors = np.array(rows).T
        middle = np.average(values, weights=errors**-2)
        square = (((values - middle) / errors) ** 2).sum()
        least = min(least, len(by_item) * float(chi2.sf(square, len(values) - 1)))
    return least


def five_points(
    runs: int, people: int = 50_000, seed: int = 1, stay: float = 0.6
) -> dict[str, tuple[int, int]]:
    """Play two periods of so many people each, in the second of which 5 points more are well.

    A part of the people (`stay`) report in both. Returns how often, of all runs, the interval has
    the five points, leaves out 0, and the test says that something has changed.
    """
    asked, everybody = campaign(), 2 * people - round(stay * people)
    values = np.zeros((2, everybody), dtype=np.int64)
    present = np.zeros((2, everybody), dtype=bool)
    present[0, :people] = present[1, everybody - people :] = True
    for t, well in enumerate((0.40, 0.45)):
        here = np.flatnonzero(present[t])
        values[t, here] = np.where(np.arange(people) % 100 < 100 * well, 0, 1 + here % 2)
    crowd = Crowd(values, present)
    certain = covered = said = 0
    for run in range(runs):
        found = Periods(asked, counted(asked, crowd, seed + run))
        change = found.changes(FIRST + 1)[0]
        certain += change.certain and change.value > 0
        covered += change.low <= 0.05 <= change.high
        test = found.changed()
        said += test is not None and test.changed
    counts = {"covered": covered, "certain": certain, "test": said}
    return {what: (int(count), runs) for what, count in counts.items()}


RUNS = 100
"""Of one part."""
SIZE, WEEKS = 4000, 6
CASES: dict[str, tuple[str, int, int, str, float]] = {
    **{name: (name, SIZE, WEEKS, "participants", 2.0) for name in SCENARIOS},
    "eager, permanent 1.2": ("eager", SIZE, WEEKS, "participants", 1.2),
    "halves, permanent 1.2": ("halves", SIZE, WEEKS, "participants", 1.2),
    "constant, about the population": ("constant", SIZE, WEEKS, "population", 2.0),
    "swinging, about the population": ("swinging", SIZE, WEEKS, "population", 2.0),
    "halves, 20 weeks of 2,000 people, permanent 1.1": ("halves", 2000, 20, "participants", 1.1),
}
"""By their names: the crowd, how many people and weeks, about whom, and the permanent budget."""
NAMES = (*CASES, "five points")
HEADS = {
    "period": "each week",
    "together": "together",
    "change": "change",
    "test": "test",
    "chi-square": "chi-square",
}


def part(number: int) -> Row:
    """Play one crowd a hundred times."""
    turn, place = divmod(number, len(NAMES))
    if NAMES[place] == "five points":
        return {"case": NAMES[place], "found": five_points(RUNS, seed=1 + turn * RUNS)}
    name, people, weeks, about, permanent = CASES[NAMES[place]]
    found = study(name, RUNS, people, weeks, about, permanent, first=1 + turn)
    return {"case": NAMES[place], "found": found}


def figures(rows: Sequence[Row]) -> Figures:
    """Return the share of what was covered, and of what was said, in each case."""
    hits, tries = Counter[str](), Counter[str]()
    for row in rows:
        for what, (covered, of) in row["found"].items():
            hits[f"{row['case']}, {what}"] += covered
            tries[f"{row['case']}, {what}"] += of
    for name, of in tries.items():
        if name.endswith(("period", "together", "change", "covered")):
            # Figures of one crowd are not independent: runs count, not figures.
            require_share(hits[name] / of, 0.95, RUNS, name)
    return {name: hits[name] / of for name, of in tries.items()}


def table(found: Figures) -> str:
    """Return a table with a line for each crowd."""
    lines = [[name, *(f"{found[f'{name}, {what}']:.1%}" for what in HEADS)] for name in CASES]
    return markdown(["crowd", *HEADS.values()], lines)


PIECE = Piece(
    "figures by period, several together, and changes: how often intervals have what is so",
    part,
    parts=6 * len(NAMES),
    sample=(1, 2, 5),
    figures=figures,
    table=table,
)
