"""Privacy levels that people choose: high, medium, low (or any other set).

A level is a factor: whoever picks it answers with that part of epsilon. The device uses the level
that the person picked, and nothing else. The level travels in the open, in the first byte of the
report: it is NOT protected, so it must not depend on the value. Offer it before the question,
or let it be a setting of the device. (If it depends on the value strongly, `combine` sees it.)

`Leveled` is one attribute, `Survey` several of them that share one epsilon.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, partial
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from murmuration.analysis import combine
from murmuration.analysis.combine import Combination
from murmuration.errors import EmptyError, InputError, MismatchError, ParameterError, ReportError
from murmuration.exact.arrays import Ints, Rows
from murmuration.exact.exponential import log_above
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng, require_rng, uniform
from murmuration.mechanisms.base import Mechanism, checked_epsilon, checked_rows
from murmuration.mechanisms.graded.base import GradedMechanism
from murmuration.mechanisms.item.base import FrequencyMechanism, checked_items
from murmuration.mechanisms.number.base import NumericMechanism, checked_values
from murmuration.mechanisms.number.optimal import MAX_EPSILON
from murmuration.mechanisms.packing import unpack_rows
from murmuration.mechanisms.registry import list_mechanisms, mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.mechanisms.vector.base import checked_domains
from murmuration.planning import allocate
from murmuration.results.estimate import About, Estimate

MOST_LEVELS = 256
"""The level is one byte of a report."""
LARGEST_SUBSET = 1 << 15
"""Above that many items a report of a bit for each item is too long."""
INDEX_BYTES = 2
"""Which attribute a sampled report is about."""
METHODS = {
    "total": combine.total,
    "optimal": combine.optimal,
    "generalised": combine.generalised,
}
SPLITS = {
    "equal": allocate.equal,
    "cube_root": allocate.cube_root,
    "optimal": allocate.optimal,
}

LevelTallies = tuple[Tally, ...]


@dataclass(frozen=True)
class Levels:
    """The levels on offer, and the part of epsilon that each may spend.

    A high level of privacy is a small part of epsilon.

    >>> Levels().factors[2]
    1.0
    """

    names: tuple[str, ...] = ("high", "medium", "low")
    factors: tuple[float, ...] = (1 / 3, 1 / 2, 1.0)

    def __post_init__(self) -> None:
        try:
            names, factors = tuple(self.names), tuple(self.factors)
        except TypeError:
            raise ParameterError("levels have names and factors, a list of each") from None
        words = all(isinstance(name, str) and name.strip() for name in names)
        if not words or len(set(names)) != len(names) or not 1 <= len(names) <= MOST_LEVELS:
            raise ParameterError(f"levels are 1 to {MOST_LEVELS} different words; got {names!r}")
        if len(factors) != len(names) or not all(map(_is_factor, factors)):
            raise ParameterError(
                f"each of {len(names)} levels has a factor above 0 and at most 1; got {factors!r}"
            )
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "factors", tuple(map(float, factors)))

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def checked(cls, levels: object) -> Levels:
        """Return levels given as such, as text or as names with factors; refuse anything else."""
        if isinstance(levels, cls):
            return levels
        if isinstance(levels, str):
            return cls.parse(levels)
        if isinstance(levels, Mapping):
            return cls(tuple(levels.keys()), tuple(levels.values()))
        raise ParameterError(f"levels are a Levels, or high=1/3,medium=1/2,low=1; got {levels!r}")

    @classmethod
    def parse(cls, text: str) -> Levels:
        """Read levels as they are written on the command line.

        >>> Levels.parse("shy=1/4, open=1")
        Levels(names=('shy', 'open'), factors=(0.25, 1.0))
        """
        pairs = [part.partition("=") for part in text.split(",")]
        try:
            factors = tuple(_quotient(factor) for _, _, factor in pairs)
        except (ValueError, ZeroDivisionError, OverflowError):
            raise ParameterError(
                f"levels are written as high=1/3,medium=1/2,low=1; got {text!r}"
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
                "choices are one level a person, or a row of levels a person"
            ) from None
        if given.dtype.kind in "UO" and given.size:
            found = np.full(given.shape, -1, dtype=np.int64)
            for number, name in enumerate(self.names):
                found[given == name] = number
            given = found
        whole = given.dtype.kind in "iu" or not given.size
        if not whole or (given.size and not 0 <= given.min() <= given.max() < len(self)):
            names, first = ", ".join(self.names), self._first_bad(np.asarray(choices), given)
            raise InputError(
                f"a choice is one of {names}, or its number from 0 on{first}. Nothing was sent."
            )
        return given.astype(np.int64)

    def _first_bad(self, choices: NDArray[np.generic], given: NDArray[Any]) -> str:
        """Name the first choice that is none; a choice is public, so it may be repeated."""
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


# --- one attribute -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Leveled:
    """One attribute, asked at several levels: k items, or a number in [-1, 1] when k is None.

    A report is a row of bytes: the level, the level's own report, and zeros up to the length of
    the longest, so that all reports are alike.

    >>> from murmuration import seeded_rng
    >>> phones = Leveled(epsilon=2.0, k=3)
    >>> [round(loss.epsilon, 3) for loss in phones.losses()], phones.loss().holds
    ([0.667, 1.0, 2.0], True)
    >>> rows = phones.privatize([0, 1, 1, 2], ["low", "low", "high", "medium"], seeded_rng(1))
    >>> [tally.n for tally in phones.tally(rows)]
    [1, 1, 2]
    """

    epsilon: float
    k: int | None = None
    levels: Levels = field(default_factory=Levels)
    mechanism: str = "auto"
    """"auto": subset (projective for very many items), or optimal for a number (piecewise above
    epsilon 10)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "levels", Levels.checked(self.levels))
        if self.k is not None and (isinstance(self.k, bool) or not isinstance(self.k, Integral)):
            raise ParameterError(f"k is the number of items, or None for a number; got {self.k!r}")
        if self.mechanism == "auto":
            many = self.k is not None and self.k > LARGEST_SUBSET
            number = "optimal" if self.epsilon <= MAX_EPSILON else "piecewise"
            chosen = number if self.k is None else "projective" if many else "subset"
            object.__setattr__(self, "mechanism", chosen)
        _require_for_levels(self.mechanism, self.k)
        _ = self.at_levels  # an epsilon that is too small for a level is refused here

    @cached_property
    def at_levels(self) -> tuple[Mechanism, ...]:
        """Each level's own mechanism."""
        size = {} if self.k is None else {"k": self.k}
        made = []
        for name, budget in zip(self.levels.names, self.levels.budgets(self.epsilon), strict=True):
            try:
                made.append(mechanism(self.mechanism, epsilon=budget, **size))
            except ParameterError as problem:
                raise ParameterError(f"level {name}: {problem}") from None
        return tuple(made)

    @property
    def report_bytes(self) -> int:
        """The level's byte and the longest level's report."""
        return 1 + max(inner.report_bytes for inner in self.at_levels)

    def checked(self, values: ArrayLike) -> NDArray[np.generic]:
        """Return the values if all can be asked; else nothing is sent."""
        return checked_values(values) if self.k is None else checked_items(values, self.k)

    def privatize(self, values: ArrayLike, choices: ArrayLike, rng: Rng) -> Rows:
        """DEVICE. Answer with the epsilon of the level that each person picked."""
        rng, known, picked = require_rng(rng), self.checked(values), self.levels.indices(choices)
        if picked.shape != known.shape:
            raise InputError(f"{len(known)} people make as many choices; got {picked.size}")
        rows = np.zeros((len(known), self.report_bytes), dtype=np.uint8)
        rows[:, 0] = picked
        for level, inner in enumerate(self.at_levels):
            who = np.flatnonzero(picked == level)
            sent = inner.pack(inner.privatize(known[who], rng))
            rows[who, 1 : 1 + inner.report_bytes] = unpack_rows(sent, inner.report_bytes)
        return rows

    def tally(self, reports: ArrayLike) -> LevelTallies:
        """COLLECTOR. Check the reports, then count each level's by its own mechanism."""
        rows = checked_rows(reports, self.report_bytes, "levels")
        picked = rows[:, 0]
        if len(bad := np.flatnonzero(picked >= len(self.levels))):
            raise ReportError(f"report {int(bad[0])} names level {int(picked[bad[0]])}: none such")
        pairs = enumerate(self.at_levels)
        return tuple(self._level_tally(inner, rows[picked == level]) for level, inner in pairs)

    def _level_tally(self, inner: Mechanism, rows: Rows) -> Tally:
        if rows[:, 1 + inner.report_bytes :].any():
            raise ReportError("a report is longer than its level's can be")
        data = np.ascontiguousarray(rows[:, 1 : 1 + inner.report_bytes]).tobytes()
        return inner.tally(inner.unpack(data))

    @staticmethod
    def merge(one: Sequence[Tally], other: Sequence[Tally]) -> LevelTallies:
        """COLLECTOR. Add up the tallies of two collectors, level by level."""
        if len(one) != len(other):
            raise MismatchError("both have a tally for each level, or they do not add up")
        return tuple(mine + theirs for mine, theirs in zip(one, other, strict=True))

    def estimate(
        self, tallies: Sequence[Tally], method: str = "generalised", about: str = "participants"
    ) -> Combination:
        """ANALYST. Combine the levels: "generalised", "optimal" or "total", see `combine`."""
        if method not in METHODS:
            raise ParameterError(f"levels combine by {', '.join(METHODS)}; got {method!r}")
        if isinstance(tallies, Tally) or not isinstance(tallies, Sequence):
            raise MismatchError("an attribute's tallies are a list, one for each level")
        theirs = [t.mechanism.fingerprint if isinstance(t, Tally) else "" for t in tallies]
        if theirs != [inner.fingerprint for inner in self.at_levels]:
            raise MismatchError(
                "these tallies are not this attribute's, one for each level in the order "
                + ", ".join(self.levels.names)
            )
        return METHODS[method](tallies, about)

    def losses(self) -> tuple[Loss, ...]:
        """AUDITOR. The exact loss of each level, against its part of epsilon."""
        return tuple(inner.loss() for inner in self.at_levels)

    def loss(self) -> Loss:
        """AUDITOR. The exact loss of whoever picks the most open level (or of a broken one)."""
        return _worst(self.losses(), self.epsilon)


def _require_for_levels(name: str, k: int | None) -> None:
    """Refuse a mechanism that does not exist, does not fit, or is graded."""
    kind = list_mechanisms().get(name)
    if kind is None:
        raise ParameterError(
            f"no mechanism is called {name!r}; there are {', '.join(list_mechanisms())}"
        )
    if issubclass(kind, GradedMechanism):
        raise ParameterError(f"{name} has a budget for each range: it takes no levels")
    if k is None and issubclass(kind, FrequencyMechanism):
        raise ParameterError(f"{name} is for items: say how many, k")
    if not issubclass(kind, NumericMechanism if k is None else FrequencyMechanism):
        asked = "a number" if k is None else "one of k items"
        raise ParameterError(f"{name} is not a mechanism for {asked}")


def _worst(losses: Sequence[Loss], claimed: float) -> Loss:
    """Return the loss that breaks its own promise; else the largest, against the whole claim."""
    for loss in losses:
        if not loss.holds:
            return loss
    worst = max(losses, key=lambda loss: (loss.ratio is None, loss.ratio or Fraction(0)))
    return dataclasses.replace(worst, claimed=claimed)


# --- several attributes ------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """Several attributes that share one epsilon, each asked at the level that a person picks.

    `domains` has 0 for a number and k for one of k items. `how` says who answers what:

        optimal, cube_root, equal   everybody answers everything; epsilon is split by `allocate`
                                    (the first two weigh numbers of items, so they take no numbers)
        sample                      everybody answers one attribute, drawn by a public coin that
                                    looks at nothing, with all that the level may spend

    A person chooses a level for each attribute (rows of choices) or one for all.

    >>> from murmuration import seeded_rng
    >>> survey = Survey(epsilon=3.0, domains=(2, 4), how="sample")
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
    """For items; "auto" as in `Leveled`."""
    numeric: str = "auto"
    """For numbers; "auto" as in `Leveled`."""
    how: str = "sample"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", checked_epsilon(self.epsilon))
        object.__setattr__(self, "levels", Levels.checked(self.levels))
        object.__setattr__(self, "domains", checked_domains(None, self.domains))
        if self.how not in (*SPLITS, "sample"):
            ways = ", ".join((*SPLITS, "sample"))
            raise ParameterError(f"a survey is shared out by {ways}; got {self.how!r}")
        if self.how in ("optimal", "cube_root") and 0 in self.domains:
            raise ParameterError(f"{self.how} weighs items only: use equal or sample with numbers")
        _ = self.attributes

    @property
    def sampled(self) -> bool:
        """Whether each person answers one attribute only."""
        return self.how == "sample"

    @cached_property
    def budgets(self) -> tuple[float, ...]:
        """What each attribute may spend at a factor of 1; in a split they add up to epsilon."""
        if self.sampled:
            return (self.epsilon,) * len(self.domains)
        sizes = [k or 2 for k in self.domains]  # numbers come here only to be split equally
        return tuple(SPLITS[self.how](sizes, self.epsilon).tolist())

    @cached_property
    def attributes(self) -> tuple[Leveled, ...]:
        """Each attribute with its budget."""
        return tuple(
            Leveled(budget, k or None, self.levels, self.mechanism if k else self.numeric)
            for k, budget in zip(self.domains, self.budgets, strict=True)
        )

    @property
    def report_bytes(self) -> int:
        """All attributes' reports, or the attribute's number and the longest of them."""
        sizes = [attribute.report_bytes for attribute in self.attributes]
        return INDEX_BYTES + max(sizes) if self.sampled else sum(sizes)

    # --- device ---

    def privatize(self, columns: Sequence[ArrayLike], choices: ArrayLike, rng: Rng) -> Rows:
        """DEVICE. Turn columns of values into reports, one a person.

        All attributes are checked, asked about or not: an error must not tell which one was.
        """
        rng, known = require_rng(rng), self._checked(columns)
        picked = self._picked(choices, len(known[0]))
        if self.sampled:
            return self._one_of_each(known, picked, rng)
        parts = [
            attribute.privatize(values, picked[:, place], rng)
            for place, (attribute, values) in enumerate(zip(self.attributes, known, strict=True))
        ]
        return np.concatenate(parts, axis=1)

    def _one_of_each(self, known: list[NDArray[np.generic]], picked: Ints, rng: Rng) -> Rows:
        """Draw who answers what, then let each attribute answer."""
        asked = uniform(rng, len(picked), len(self.attributes))
        rows = np.zeros((len(picked), self.report_bytes), dtype=np.uint8)
        rows[:, :INDEX_BYTES] = asked.astype("<u2")[:, None].view(np.uint8)
        for place, attribute in enumerate(self.attributes):
            who = np.flatnonzero(asked == place)
            sent = attribute.privatize(known[place][who], picked[who, place], rng)
            rows[who, INDEX_BYTES : INDEX_BYTES + attribute.report_bytes] = sent
        return rows

    def _checked(self, columns: Sequence[ArrayLike]) -> list[NDArray[np.generic]]:
        if not isinstance(columns, Sequence | np.ndarray) or len(columns) != len(self.attributes):
            raise InputError(f"values are {len(self.attributes)} columns, one an attribute")
        pairs = zip(self.attributes, columns, strict=True)
        known = [attribute.checked(column) for attribute, column in pairs]
        if len({len(column) for column in known}) != 1:
            raise InputError("all columns must be of one length, a row a person")
        return known

    def _picked(self, choices: ArrayLike, people: int) -> Ints:
        """Return a level for each person and attribute."""
        picked, d = self.levels.indices(choices), len(self.attributes)
        if picked.shape == (people,):
            picked = np.repeat(picked[:, None], d, axis=1)
        if picked.shape != (people, d):
            raise InputError(
                f"choices are one level a person, or rows of {d}, for {people} people; "
                f"got shape {picked.shape}"
            )
        return picked

    # --- collector ---

    def tally(self, reports: ArrayLike) -> tuple[LevelTallies, ...]:
        """COLLECTOR. Return tallies[attribute][level]."""
        rows = checked_rows(reports, self.report_bytes, "a survey")
        parts = self._asked(rows) if self.sampled else self._cut(rows)
        tallies = []
        for place, (attribute, part) in enumerate(zip(self.attributes, parts, strict=True)):
            try:
                tallies.append(attribute.tally(part))
            except ReportError as problem:
                raise ReportError(f"of those on attribute {place}, {problem}") from None
        return tuple(tallies)

    def _cut(self, rows: Rows) -> list[Rows]:
        """Cut reports on everything into reports on each attribute."""
        ends = np.cumsum([attribute.report_bytes for attribute in self.attributes])
        return np.split(rows, ends[:-1], axis=1)

    def _asked(self, rows: Rows) -> list[Rows]:
        """Sort reports by the attribute that they are about."""
        asked = np.ascontiguousarray(rows[:, :INDEX_BYTES]).view("<u2")[:, 0]
        if len(bad := np.flatnonzero(asked >= len(self.attributes))):
            raise ReportError(f"report {int(bad[0])} names attribute {int(asked[bad[0]])}")
        found = []
        for place, attribute in enumerate(self.attributes):
            mine = rows[asked == place, INDEX_BYTES:]
            if mine[:, attribute.report_bytes :].any():
                raise ReportError(f"a report on attribute {place} is longer than it can be")
            found.append(mine[:, : attribute.report_bytes])
        return found

    # --- analyst ---

    def estimate(
        self,
        tallies: Sequence[Sequence[Tally]],
        method: str = "generalised",
        about: str = "participants",
    ) -> list[Combination]:
        """ANALYST. Combine each attribute's levels."""
        subject = About.parse(about)
        if len(tallies) != len(self.attributes):
            raise MismatchError(
                f"tallies are {len(self.attributes)} lists, one an attribute; got {len(tallies)}"
            )
        pairs = list(zip(self.attributes, tallies, strict=True))
        if not self.sampled or subject is About.POPULATION:
            return [attribute.estimate(own, method, about) for attribute, own in pairs]
        everybody = sum(tally.n for own in tallies for tally in own)
        return [
            of_all(partial(attribute.estimate, own, method), sum(t.n for t in own), everybody)
            for attribute, own in pairs
        ]

    # --- auditor ---

    def loss(self) -> Loss:
        """AUDITOR. The exact loss of whoever picks the most open level everywhere.

        Of all attributes together when everybody answers everything, of the worst one when each
        person answers one: the coin that picks it tells nothing.
        """
        losses = [attribute.loss() for attribute in self.attributes]
        worst = _worst(losses, self.epsilon)
        if self.sampled or not worst.holds:
            return worst
        ratio = math.prod((loss.ratio or Fraction(0) for loss in losses), start=Fraction(1))
        where = f"on every attribute; on the first: {losses[0].output}"
        return Loss(log_above(ratio), self.epsilon, ratio, losses[0].inputs, where)


def of_all(read: Callable[[About], Combination], asked: int, everybody: int) -> Combination:
    """Estimate about all participants from those n_j who were asked, a random part of them.

    To the error about those asked comes spread (1/n_j - 1/n); spread/n_j is the difference
    between the squared errors about the population and about those asked.
    """
    if not asked:
        raise EmptyError("nobody has answered about one of the attributes yet")
    mine, people = (read(about) for about in About)
    squares = np.square(mine.estimate.stderr)
    extra = np.square(people.estimate.stderr) - squares
    stderr: Any = np.sqrt(squares + extra * (1 - asked / everybody))
    if isinstance(mine.estimate, Estimate):
        stderr = float(stderr)
    return dataclasses.replace(mine, estimate=dataclasses.replace(mine.estimate, stderr=stderr))
