"""Ways to combine privacy levels side by side, in the setting of the MPLDP paper.

n people, five attributes of 5 to 25 items, one epsilon, and three levels that as many people each
pick. The unit is the paper's NSE: the squared error of all estimated counts of all attributes,
divided by n. In shares that is n sum (f^ - f)^2, f the histogram of those who took part. `shares`
says how many pick each level; the paper does not.

`shift` makes the choice of a level depend on the value: people who have one of the head items (the
first fifth) pick the most open level that many percentage points more often, and the most
careful one as much less often.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from murmuration.analysis import combine
from murmuration.analysis.combine import Combination
from murmuration.analysis.postprocess import project_simplex
from murmuration.campaign.levels import Levels, Survey
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints
from murmuration.exact.randomness import Rng
from murmuration.lab import oracle
from murmuration.lab.engine import Name, measured
from murmuration.mechanisms.tally import Tally

SIZES = (5, 10, 15, 20, 25)
"""The numbers of items of the paper's five attributes."""
ZIPF = 1.2

Reader = Callable[[Sequence[Tally], Floats], Floats]
"""From one attribute's tallies and its true histogram (for the oracle) to shares."""


def flat(k: int, n: int, draw: np.random.Generator) -> Ints:
    """Return the paper's data (Algorithm 4): as many people for each item, to rounding.

    >>> flat(4, 8, np.random.default_rng(1)).tolist()
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    del draw
    return np.arange(n, dtype=np.int64) * k // n


def zipf(k: int, n: int, draw: np.random.Generator) -> Ints:
    """Return items drawn with shares that fall as 1/rank^1.2."""
    weights = np.arange(1, k + 1, dtype=np.float64) ** -ZIPF
    return draw.choice(k, n, p=weights / weights.sum())


CROWDS: dict[str, Callable[[int, int, np.random.Generator], Ints]] = {"flat": flat, "zipf": zipf}


def _read(method: Callable[[Sequence[Tally]], Combination], tidy: bool = False) -> Reader:
    """Return a reader that combines, and projects on the histograms if asked to."""

    def reader(tallies: Sequence[Tally], truth: Floats) -> Floats:
        del truth
        estimate = method(tallies).estimate
        return project_simplex(estimate).value if tidy else np.asarray(estimate.value)  # type: ignore[arg-type]

    return reader


def _oracle(tallies: Sequence[Tally], truth: Floats) -> Floats:
    """Read by OP, which looks at the truth."""
    return np.asarray(oracle.perturbed(tallies, truth).estimate.value)


@dataclass(frozen=True)
class Collection:
    """One way to ask, and the ways to read what comes back: they all read the same reports."""

    mechanism: str
    how: str
    readers: dict[str, Reader]


COLLECTIONS = (
    Collection(
        "sue",
        "optimal",
        {
            "BRR": _read(combine.total),
            "OC": _read(combine.optimal),
            "GLS": _read(combine.generalised),
            "GLS + simplex": _read(combine.generalised, tidy=True),
        },
    ),
    Collection(
        "subset",
        "optimal",
        {
            "subset + GLS": _read(combine.generalised),
            "subset + GLS + simplex": _read(combine.generalised, tidy=True),
        },
    ),
    Collection(
        "subset",
        "sample",
        {"sample 1 + subset + GLS + simplex": _read(combine.generalised, tidy=True)},
    ),
)
ORACLE = Collection("sue", "optimal", {"OP (oracle)": _oracle})


@dataclass(frozen=True)
class LevelComparison:
    """One method at one epsilon and one shift: the mean NSE of all runs."""

    method: str
    epsilon: float
    shift: float
    nse: float
    stderr: float


@dataclass(frozen=True)
class Setting:
    """Who is asked: how many, what they have, and which levels they may pick."""

    people: int = 10_000
    data: str = "flat"
    sizes: tuple[int, ...] = SIZES
    levels: Levels = field(default_factory=Levels)
    seed: int = 1
    shares: tuple[float, ...] = ()
    """How many pick each level, in the order of the levels; as many each if left out."""

    def __post_init__(self) -> None:
        if self.shares and (
            len(self.shares) != len(self.levels)
            or not all(share >= 0 for share in self.shares)
            or not math.isclose(sum(self.shares), 1)
        ):
            raise ParameterError(
                f"shares are {len(self.levels)} numbers that add up to 1; got {self.shares!r}"
            )
        if self.data not in CROWDS:
            raise ParameterError(f"no crowd is called {self.data!r}; there are {', '.join(CROWDS)}")
        if isinstance(self.people, bool) or not isinstance(self.people, int) or self.people < 1:
            raise ParameterError(f"people must be a whole number above 0; got {self.people!r}")

    def columns(self) -> list[Ints]:
        """Return each attribute's values, the same in every run."""
        draw = np.random.default_rng(self.seed)
        return [CROWDS[self.data](k, self.people, draw) for k in self.sizes]

    def choices(self, columns: list[Ints], shift: float, draw: np.random.Generator) -> Ints:
        """Draw a level for each person and attribute.

        >>> setting = Setting(people=6, sizes=(2,))
        >>> setting.choices(setting.columns(), 0.0, np.random.default_rng(1)).shape
        (6, 1)
        """
        order = np.argsort(self.levels.factors, kind="stable")
        shares = (
            np.array(self.shares)[order] if self.shares else np.full(len(order), 1 / len(order))
        )
        points = checked_shift(shift, float(shares[0])) / 100
        picked = [
            order[_places(column < max(1, k // 5), shares, points, draw)]
            for column, k in zip(columns, self.sizes, strict=True)
        ]
        return np.stack(picked, axis=1)


def checked_shift(shift: float, share: float) -> float:
    """Return the shift in percentage points, or say that nobody is left to move."""
    if not 0 <= shift <= 100 * share:
        raise ParameterError(f"a shift is 0 to {100 * share:.3g} percentage points; got {shift!r}")
    return shift


def _places(head: Bits, shares: Floats, points: float, draw: np.random.Generator) -> Ints:
    """Return everybody's level, careful to open, by shares; but for the head moved up."""
    uniform = draw.random(len(head))
    places = np.searchsorted(np.cumsum(shares)[:-1], uniform, side="right")
    return np.where(head & (uniform < points), len(shares) - 1, places)


@dataclass(frozen=True)
class Asked:
    """A contest: everybody picks a level, and answers by it."""

    setting: Setting
    collection: Collection
    epsilon: float
    shift: float

    @cached_property
    def survey(self) -> Survey:
        """What is asked."""
        setting, how = self.setting, self.collection.how
        return Survey(
            self.epsilon, setting.sizes, setting.levels, self.collection.mechanism, how=how
        )

    @cached_property
    def columns(self) -> list[Ints]:
        """Each attribute's values."""
        return self.setting.columns()

    def collect(self, rng: Rng, repetition: int) -> list[float]:
        """Return each reader's NSE."""
        # Levels from a stream of their own: with the values' one they would depend on the values.
        draw = np.random.default_rng([self.setting.seed, 1, repetition])
        choices = self.setting.choices(self.columns, self.shift, draw)
        tallies = self.survey.tally(self.survey.privatize(self.columns, choices, rng))
        sizes = zip(self.columns, self.survey.domains, strict=True)
        truths = [np.bincount(column, minlength=k) / len(column) for column, k in sizes]
        pairs = list(zip(tallies, truths, strict=True))
        return [
            self.setting.people
            * sum(float(((reader(own, truth) - truth) ** 2).sum()) for own, truth in pairs)
            for reader in self.collection.readers.values()
        ]


def compare_levels(
    setting: Setting,
    epsilons: Sequence[float],
    runs: int,
    shifts: Sequence[float] = (0.0,),
    with_oracle: bool = False,
) -> Iterator[LevelComparison]:
    """Yield a row for each epsilon, shift and method, from `runs` collections.

    >>> rows = list(compare_levels(Setting(people=600), [3.0], 3))
    >>> [row.method for row in rows[:2]], rows[1].nse < rows[0].nse
    (['BRR', 'OC'], True)
    """
    for epsilon in epsilons:
        for shift in shifts:
            for collection in (*COLLECTIONS, *([ORACLE] if with_oracle else [])):
                yield from measure(setting, collection, epsilon, shift, runs)


def measure(
    setting: Setting, collection: Collection, epsilon: float, shift: float, runs: int
) -> list[LevelComparison]:
    """Collect `runs` times and return the mean error of each reader."""
    name: Name = (*collection.readers, epsilon, shift)
    ((_, errors),) = measured(
        {name: Asked(setting, collection, epsilon, shift)}, runs, setting.seed
    )
    return [
        LevelComparison(reader, epsilon, shift, error.mean, error.stderr)
        for reader, error in zip(collection.readers, errors, strict=True)
    ]
