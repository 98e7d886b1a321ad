"""Privacy levels that people choose: high, medium, low (or any other set).

A level is a factor: anyone who picks it answers with that part of epsilon. The device uses the
level that the person picked, and nothing else. The level travels in the open, in the number of the
cell that a report names: it is NOT protected, so it must not depend on the value. Offer it before
the question, or let it be a setting of the device. (If it depends on the value strongly,
`analysis.combine` sees it.) Where a lot decides, and nobody picks, `chosen` says so: then levels
can be read together more sharply.

A `Survey` is a frame whose groups have one law per level.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.campaign.answers import MOST_TEXT
from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Ints, Rows
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, require_rng
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.chain import CHAIN
from murmuration.mechanisms.domain import Box, Domain, Graded
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.number.optimal import MAX_EPSILON
from murmuration.mechanisms.registry import list_mechanisms, mechanism
from murmuration.mechanisms.strategy import Sample, Split
from murmuration.mechanisms.tally import Tally
from murmuration.planning import allocate

MOST_LEVELS = 256
MOST_STEPS = 16
"""Of a ladder of epsilons that people set."""
LARGEST_SUBSET = 1 << 15
"""Above that many items a report of a bit for each item is too long."""
SPLITS = {
    "equal": allocate.equal,
    "cube_root": allocate.cube_root,
    "optimal": allocate.optimal,
}


FREELY, BY_LOT = "freely", "by lot"


@dataclass(frozen=True)
class Levels:
    """The levels on offer, and the part of epsilon that each may spend.

    A high level of privacy is a small part of epsilon. `chosen` is "freely", by the people, or
    "by lot": then nobody's level can depend on the answer.

    >>> Levels().factors[2]
    1.0
    """

    names: tuple[str, ...] = ("high", "medium", "low")
    factors: tuple[float, ...] = (1 / 3, 1 / 2, 1.0)
    chosen: str = FREELY

    def __post_init__(self) -> None:
        try:
            names, factors = tuple(self.names), tuple(self.factors)
        except TypeError:
            raise ParameterError("levels need a list of names and a list of factors") from None
        words = all(isinstance(name, str) and name.strip() for name in names)
        if words and max(map(len, names), default=0) > MOST_TEXT:
            raise ParameterError(f"a level's name has {MOST_TEXT} characters at most")
        if not words or len(set(names)) != len(names) or not 1 <= len(names) <= MOST_LEVELS:
            raise ParameterError(f"levels are 1 to {MOST_LEVELS} different words; got {names!r}")
        if len(factors) != len(names) or not all(map(_is_factor, factors)):
            raise ParameterError(
                f"each of {len(names)} levels has a factor above 0 and at most 1; got {factors!r}"
            )
        if self.chosen not in (FREELY, BY_LOT):
            raise ParameterError(f"levels are chosen {FREELY!r} or {BY_LOT!r}; got {self.chosen!r}")
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "factors", tuple(map(float, factors)))

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def ladder(cls, least: float, epsilon: float) -> Levels:
        """Return levels for people who set an epsilon of their own, from `least` to `epsilon`.

        Each step of the chain (`mechanisms.chain`) between the two is a level, and epsilon itself.

        >>> Levels.ladder(0.5, 2.0).names
        ('epsilon 0.5', 'epsilon 0.75', 'epsilon 1', 'epsilon 1.5', 'epsilon 2')
        """
        least, epsilon = checked_epsilon(least), checked_epsilon(epsilon)
        steps = [step for step in reversed(CHAIN) if least <= step < epsilon]
        if not steps or len(steps) >= MOST_STEPS:
            raise ParameterError(
                f"a ladder has 2 to {MOST_STEPS} steps (16, 12, 8, 6, 4, 3, 2, 1.5, 1, ... and the "
                f"largest epsilon); from {least:g} to {epsilon:g} there are {len(steps) + 1}"
            )
        names = tuple(f"epsilon {step:g}" for step in (*steps, epsilon))
        return cls(names, (*(_part_of(step, epsilon) for step in steps), 1.0))

    def within(self, at_most: float, epsilon: float) -> str:
        """Return the most open level that spends no more than `at_most`.

        >>> Levels.ladder(0.5, 2.0).within(1.2, 2.0)
        'epsilon 1'
        """
        budgets = self.budgets(epsilon)
        fits = [number for number, budget in enumerate(budgets) if budget <= at_most]
        if not fits:
            raise InputError(
                f"the level that spends least spends {min(budgets):g}, more than {at_most!r}. "
                "Nothing was sent."
            )
        return self.names[max(fits, key=budgets.__getitem__)]

    @property
    def by_lot(self) -> bool:
        """Whether a lot decides who has which level."""
        return self.chosen == BY_LOT

    @classmethod
    def checked(cls, levels: object) -> Levels:
        """Return levels given as such, as text or as names with factors; refuse anything else."""
        if isinstance(levels, cls):
            return levels
        if isinstance(levels, str):
            return cls.parse(levels)
        if isinstance(levels, Mapping):
            return cls(tuple(levels.keys()), tuple(levels.values()))
        raise ParameterError(
            f"levels must be a `Levels`, or text like high=1/3,medium=1/2,low=1; got {levels!r}"
        )

    @classmethod
    def parse(cls, text: str) -> Levels:
        """Read levels as they are written on the command line.

        >>> Levels.parse("shy=1/4, open=1")
        Levels(names=('shy', 'open'), factors=(0.25, 1.0), chosen='freely')
        """
        pairs = [part.partition("=") for part in text.split(",")]
        try:
            factors = tuple(_quotient(factor) for _, _, factor in pairs)
        except (ValueError, ZeroDivisionError, OverflowError):
            raise ParameterError(
                f"write levels as high=1/3,medium=1/2,low=1; got {text!r}"
            ) from None
        return cls(tuple(name.strip() for name, _, _ in pairs), factors)

    def budgets(self, epsilon: float) -> tuple[float, ...]:
        """Return each level's epsilon: epsilon times the factor, never rounded up.

        >>> Levels().budgets(6.0)
        (1.9999999999999998, 3.0, 6.0)
        """
        return tuple(_times(epsilon, factor) for factor in self.factors)

    def indices(self, choices: ArrayLike) -> Ints:
        """Return choices, given as numbers or as names, as numbers of levels.

        >>> Levels().indices(["low", "high"]).tolist()
        [2, 0]
        """
        try:
            given = np.asarray(choices)
        except ValueError:
            raise InputError(
                "choices are one level per person, or a row of levels per person"
            ) from None
        if given.dtype.kind in "UO" and given.size:
            numbers = np.full(given.shape, -1, dtype=np.int64)
            for number, name in enumerate(self.names):
                numbers[given == name] = number
            given = numbers
        whole = given.dtype.kind in "iu" or not given.size
        if not whole or (given.size and not 0 <= given.min() <= given.max() < len(self)):
            names, first = ", ".join(self.names), self._first_bad(np.asarray(choices), given)
            raise InputError(
                f"a choice is one of {names}, or its number from 0 on{first}. Nothing was sent."
            )
        return given.astype(np.int64)

    def picked(self, choices: ArrayLike, people: int, attributes: int) -> Ints:
        """Return a level for each person and attribute, from one per person or one for each."""
        given = self.indices(choices)
        if given.shape == (people,):
            given = np.repeat(given[:, None], attributes, axis=1)
        if given.shape != (people, attributes):
            raise InputError(
                f"choices are one level per person, or rows of {attributes}, for {people} people; "
                f"got shape {given.shape}"
            )
        return given

    def _first_bad(self, choices: NDArray[np.generic], given: NDArray[Any]) -> str:
        """Name the first invalid choice; a choice is public, so it may be repeated."""
        if given.dtype.kind not in "iu":
            return ""
        bad = np.flatnonzero((given < 0) | (given >= len(self)))
        return f"; {choices.ravel().tolist()[bad[0]]!r} at position {int(bad[0])} is not"


def _quotient(text: str) -> float:
    """Read a number or a quotient of two."""
    above, _, below = text.partition("/")
    return float(above) / float(below or 1)


def _is_factor(factor: object) -> bool:
    number = isinstance(factor, Real) and not isinstance(factor, bool)
    return number and 0 < float(factor) <= 1  # type: ignore[arg-type]


def _times(epsilon: float, factor: float) -> float:
    """Multiply, rounded down: a level must not spend more than its part."""
    product = epsilon * factor
    if Fraction(product) > Fraction(epsilon) * Fraction(factor):
        return math.nextafter(product, 0.0)
    return product


def _part_of(step: float, epsilon: float) -> float:
    """Return the factor of a step, rounded down: the level spends no more than the step."""
    factor = step / epsilon
    while _times(epsilon, factor) > step:
        factor = math.nextafter(factor, 0.0)
    return factor


# --- a survey ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """Attributes that share one epsilon, each asked at the level that a person picks.

    epsilon: what a report may cost at a factor of 1
    domains: 0 for a number in [-1, 1], k for one of k items, one for each attribute
    levels: the levels on offer
    mechanism: for items; "auto" is subset (projective for very many items)
    numeric: for numbers; "auto" is optimal (piecewise above epsilon 10)
    how: who answers what

        sample                      everybody answers one attribute, drawn at random, independently
                                    of the answers, with all that the level may spend
        optimal, cube_root, equal   everybody answers everything; epsilon is split by `allocate`
                                    (the first two weigh numbers of items, so they take no numbers)

    A person chooses a level for each attribute (rows of choices) or one for all.

    >>> from murmuration import seeded_rng
    >>> survey = Survey(epsilon=3.0, domains=(2, 4))
    >>> columns = [np.array([0, 1] * 50), np.array([0, 1, 2, 3] * 25)]
    >>> rows = survey.privatize(columns, ["low", "high"] * 50, seeded_rng(1))
    >>> tallies = survey.tally(rows)
    >>> sum(tally.n for attribute in tallies for tally in attribute), survey.loss().holds
    (100, True)
    """

    epsilon: float
    domains: tuple[int, ...]
    levels: Levels = field(default_factory=Levels)
    mechanism: str = "auto"
    numeric: str = "auto"
    how: str = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "levels", Levels.checked(self.levels))
        object.__setattr__(self, "domains", Box.of(None, self.domains).sizes)
        if self.how not in (*SPLITS, "sample"):
            ways = ", ".join((*SPLITS, "sample"))
            raise ParameterError(f"a survey is shared out by {ways}; got {self.how!r}")
        if self.how in ("optimal", "cube_root") and 0 in self.domains:
            raise ParameterError(f"{self.how} weighs items only: use equal or sample with numbers")
        _ = self.frame  # an epsilon that is too small for a level is refused here

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        """What each attribute may spend at a factor of 1; in a split they add up to epsilon."""
        if self.how == "sample":
            return (self.epsilon,) * len(self.domains)
        sizes = [k or 2 for k in self.domains]  # numbers come here only to be split equally
        return tuple(SPLITS[self.how](sizes, self.epsilon).tolist())

    @cached_property
    def frame(self) -> Frame:
        """One group per attribute, one law per level."""
        pairs = zip(Box(self.domains).parts, self.budgets, strict=True)
        strategy = Sample() if self.how == "sample" else Split()
        return Frame(tuple(self._at_levels(*pair) for pair in pairs), strategy)

    def _at_levels(self, domain: Domain, budget: float) -> tuple[Mechanism, ...]:
        name = level_mechanism(self.mechanism, self.numeric, domain, budget)
        made = []
        for level, epsilon in zip(self.levels.names, self.levels.budgets(budget), strict=True):
            try:
                made.append(mechanism(name, epsilon=epsilon, **domain.parameters()))
            except ParameterError as problem:
                raise ParameterError(f"level {level}: {problem}") from None
        return tuple(made)

    def privatize(self, columns: Sequence[ArrayLike], choices: ArrayLike, rng: Rng) -> Rows:
        """DEVICE. Answer with the epsilon of the level that each person picked.

        All attributes are checked, asked about or not: an error must not tell which one was.
        """
        rng = require_rng(rng)
        if not isinstance(columns, Sequence | np.ndarray) or len(columns) != len(self.domains):
            raise InputError(f"values are {len(self.domains)} columns, one per attribute")
        pairs = zip(Box(self.domains).parts, columns, strict=True)
        known: list[NDArray[np.generic]] = [domain.checked(column) for domain, column in pairs]
        if len({len(column) for column in known}) != 1:
            raise InputError("all columns must have the same length, one row per person")
        picked = self.levels.picked(choices, len(known[0]), len(known))
        return self.frame.privatize(known, rng, picked)

    def tally(self, rows: Rows) -> list[list[Tally]]:
        """COLLECTOR. Return tallies[attribute][level]; `analysis.combine` reads them."""
        return self.frame.by_group(self.frame.tally(rows, "a survey"))

    def everybody(self, tallies: Sequence[Sequence[Tally]]) -> int:
        """Return how many people these tallies count, of whom each attribute may have a part."""
        return self.frame.reports([tally for own in tallies for tally in own])

    def losses(self, attribute: int = 0) -> tuple[Loss, ...]:
        """AUDITOR. The exact loss of each level of an attribute, against its part of epsilon."""
        return tuple(law.loss() for law in self.frame.groups[attribute])

    def loss(self) -> Loss:
        """AUDITOR. The exact loss of a report at the most open level everywhere.

        Or that of a law that breaks its own promise.
        """
        broken = [law.loss() for law in self.frame.cells if not law.promise_kept]
        return broken[0] if broken else self.frame.loss(self.epsilon)


def level_mechanism(items: str, numbers: str, domain: Domain, epsilon: float) -> str:
    """Return the name of the mechanism for an attribute with levels, "auto" decided."""
    name = items if domain.items else numbers
    if name == "auto":
        if domain.items:
            return "projective" if domain.items > LARGEST_SUBSET else "subset"
        return "optimal" if epsilon <= MAX_EPSILON else "piecewise"
    kind = list_mechanisms().get(name)
    if kind is None:
        names = ", ".join(list_mechanisms())
        raise ParameterError(f"no mechanism is called {name!r}; there are {names}")
    if kind.takes is Graded:
        raise ParameterError(f"{name} has a budget for each range: it takes no levels")
    if kind.takes is not type(domain):
        raise ParameterError(f"{name} is not a mechanism for {domain.noun}")
    return name
