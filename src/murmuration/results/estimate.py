"""What an analyst gets: a value, its standard error, and an interval that keeps its word."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np

from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats
from murmuration.results.figure import Figure, Figures, Result
from murmuration.results.plot import AT_ONCE, MOST_BARS
from murmuration.statistics.liars import Piece
from murmuration.statistics.quotient import LastOnly, quotient
from murmuration.statistics.score import Shape, normal_quantile


class About(StrEnum):
    """Whose mean an interval is about."""

    PARTICIPANTS = "participants"
    """The people who sent the reports: only the mechanism's noise is uncertain."""
    POPULATION = "population"
    """The larger crowd they were drawn from at random: sampling is uncertain too."""

    @classmethod
    def parse(cls, text: str) -> About:
        """Return the member of that name, or say which names there are."""
        try:
            return cls(text)
        except ValueError:
            names = " or ".join(f"'{member}'" for member in cls)
            raise ParameterError(f"an estimate is about {names}; got {text!r}") from None

    def unseen(self, n: int, everybody: int | None) -> float:
        """How much of the people's own spread the error of an estimate from n of them includes.

        None about those who answered, all about the population. Where n were drawn at random from
        `everybody`, those asked stand for all: the part 1 - n/everybody.

        >>> About.PARTICIPANTS.unseen(25, 100), About.POPULATION.unseen(25, 100)
        (0.75, 1.0)
        """
        if self is About.POPULATION:
            return 1.0
        return 0.0 if everybody is None else 1 - n / everybody


def _reach(shape: Shape | None, confidence: float) -> tuple[Any, Any]:
    """Return how many standard errors an interval reaches to either side."""
    if shape is not None:
        return shape.reach(confidence)
    z = normal_quantile(confidence)
    return z, z


def _figures(
    attribute: str,
    names: Sequence[str],
    columns: Sequence[Floats],
    end: tuple[int, float, str, str],
) -> Iterator[Figure]:
    """Yield a figure per item, from value, standard error, low and high of each."""
    for name, *found in zip(names, *(column.tolist() for column in columns), strict=True):
        value, stderr, low, high = found
        yield Figure(attribute, name, value, stderr, low, high, *end)


def middle_and_half(low: float, high: float) -> tuple[float, float]:
    """Return what 0 is and how far 1 is from it, where [-1, 1] stands for [low, high].

    >>> middle_and_half(18, 98)
    (58.0, 40.0)
    """
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ParameterError(f"a range needs two finite ends, low < high; got [{low}, {high}]")
    return low + (high - low) / 2, (high - low) / 2


@dataclass(frozen=True)
class Estimate(Result):
    """An unbiased mean with its standard error; nothing clipped, nothing hidden.

    >>> mean = Estimate(value=0.25, stderr=0.01, n=40_000, epsilon=1.0, about=About.PARTICIPANTS)
    >>> mean
    Estimate(0.25 [0.2304, 0.2696] (95%, participants, n=40,000))
    >>> [round(end, 3) for end in mean.interval(0.95)]
    [0.23, 0.27]
    >>> mean.scaled(18, 98).value
    68.0
    """

    value: float
    stderr: float
    n: int
    epsilon: float
    about: About
    note: str = ""
    """What the reader should know about how this was made; empty when there is nothing to say."""
    shape: Shape | None = field(default=None, repr=False, compare=False)
    """How far the interval reaches, in standard errors; as a normal one does where it is None."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return the interval that covers the true mean with probability `confidence`.

        It need not be symmetric: see `statistics.score`.
        """
        below, above = _reach(self.shape, confidence)
        ends = self.value - below * self.stderr, self.value + above * self.stderr
        return float(ends[0]), float(ends[1])

    def scaled(self, low: float, high: float) -> Estimate:
        """Return the estimate in the attribute's own units: [-1, 1] stands for [low, high]."""
        _, half = middle_and_half(low, high)
        return dataclasses.replace(
            self, value=low + (self.value + 1) * half, stderr=self.stderr * half
        )

    def figures(self, confidence: float = 0.95, attribute: str = "") -> Figures:
        """Return the mean as the only row."""
        low, high = self.interval(confidence)
        found = (self.value, self.stderr, low, high, self.n, self.epsilon, "", self.note)
        return Figures([Figure(attribute, "mean", *found)])

    def __repr__(self) -> str:
        return f"Estimate({self})"

    def __str__(self) -> str:
        low, high = self.interval()
        said = f"; {self.note}" if self.note else ""
        return f"{self.value:.6g} [{low:.6g}, {high:.6g}] (95%, {self.about}, n={self.n:,}{said})"


@dataclass(frozen=True, eq=False)
class FrequencyEstimate(Result):
    """The shares of k items, each unbiased with its own standard error.

    `value` may hold numbers below 0 and need not add up to 1: that is what unbiased looks like.
    `steps` names every post-processing that was applied since, in order. A processed estimate
    keeps the unbiased one as `raw`: only `value` is new, and intervals are still made from `raw`.

    >>> raw = FrequencyEstimate(
    ...     np.array([0.9, -0.1]), np.array([0.1, 0.1]), 100, 1.0, About.PARTICIPANTS
    ... )
    >>> tidy = dataclasses.replace(raw, value=np.array([1.0, 0.0]), steps=("tidy",), raw=raw)
    >>> [[round(end, 2) for end in ends.tolist()] for ends in raw.interval()]
    [[0.7, -0.3], [1.1, 0.1]]
    >>> [[round(end, 2) for end in ends.tolist()] for ends in tidy.interval()]
    [[0.7, 0.0], [1.0, 0.1]]
    >>> raw.labelled(["yes", "no"])
    FrequencyEstimate([yes 0.9000, no -0.1000] (participants, n=100))
    """

    value: Floats
    stderr: Floats
    n: int
    epsilon: float
    about: About
    steps: tuple[str, ...] = ()
    raw: FrequencyEstimate | None = None
    """The unbiased estimate behind a processed one; None when this one is unbiased itself."""
    noise: float | None = None
    """The standard error of an item that nobody has."""
    note: str = ""
    """What the reader should know about how this was made; empty when there is nothing to say."""
    shape: Shape | None = field(default=None, repr=False, compare=False)
    """How far the intervals reach, in standard errors; as normal ones do where it is None."""
    labels: tuple[str, ...] = ()
    """What the items are called; they are numbers where there are none."""
    pieces: tuple[Piece, ...] = field(default=(), repr=False, compare=False)
    """The means whose weighted sum this is, if it is not that of one tally."""

    def labelled(self, labels: Sequence[str]) -> FrequencyEstimate:
        """Return the same shares with a label for each item."""
        if isinstance(labels, str) or len(labels) != len(self.value):
            raise ParameterError(f"{len(self.value)} items need {len(self.value)} labels")
        return dataclasses.replace(self, labels=tuple(map(str, labels)))

    def figures(self, confidence: float = 0.95, attribute: str = "") -> Figures:
        """Return a row for each item."""
        columns = (self.value, self.stderr, *self.interval(confidence))
        end = (self.n, self.epsilon, "share", self.note)
        return Figures(_figures(attribute, self._names(), columns, end))

    def drawn(self, confidence: float, attribute: str = "") -> Figures:
        """Return all of few shares; of many, with simultaneous intervals: the largest are shown."""
        if (k := len(self.value)) <= MOST_BARS:
            return self.figures(confidence, attribute)
        said = dataclasses.replace(self, note="; ".join(filter(None, [self.note, AT_ONCE])))
        return said.figures(1 - (1 - confidence) / k, attribute)

    def _names(self) -> tuple[str, ...]:
        return self.labels or tuple(map(str, range(len(self.value))))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of an interval for each item, each right with probability `confidence`.

        After processing it is the raw interval, cut to [0, 1]. A share is in [0, 1], so the cut
        loses no coverage; it is never empty, because one that lies wholly outside becomes the
        nearer end. It speaks of the true share and need not hold the processed value.
        """
        if self.raw is not None:
            low, high = self.raw.interval(confidence)
            return np.clip(low, 0, 1), np.clip(high, 0, 1)
        below, above = _reach(self.shape, confidence)
        return self.value - below * self.stderr, self.value + above * self.stderr

    def simultaneous(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return the ends of intervals that are all right at once with probability `confidence`.

        Bonferroni: each at 1 - (1-confidence)/k.
        """
        normal_quantile(confidence)  # refuses what is no level
        return self.interval(1 - (1 - confidence) / len(self.value))

    def __repr__(self) -> str:
        return f"FrequencyEstimate({self})"

    def __str__(self) -> str:
        named = zip(self.labels or [""] * 8, self.value[:8].tolist(), strict=False)
        shown = ", ".join(f"{label} {share:.4f}".lstrip() for label, share in named)
        more = f", ... ({len(self.value)} items)" if len(self.value) > 8 else ""
        done = f", {' then '.join(self.steps)}" if self.steps else ""
        said = f"; {self.note}" if self.note else ""
        return f"[{shown}{more}] ({self.about}, n={self.n:,}{done}{said})"


@dataclass(frozen=True, eq=False)
class TupleEstimate(Result):
    """One object for a tuple: a mean for each numeric attribute, shares for each categorical one.

    `estimate[j]` is attribute j's own estimate, with its own interval; by its name, too, if the
    attributes have names.

    >>> age = Estimate(0.25, 0.01, 40_000, 1.0, About.PARTICIPANTS)
    >>> found = TupleEstimate((age,), 40_000, 1.0, About.PARTICIPANTS).named(["age"])
    >>> found
    TupleEstimate(age, n=40,000)
    >>> found["age"] is age
    True
    """

    parts: tuple[Estimate | FrequencyEstimate, ...]
    n: int
    epsilon: float
    about: About
    names: tuple[str, ...] = ()
    """What the attributes are called; they are numbers where there are none."""

    def named(self, names: Any) -> TupleEstimate:
        """Return the same with names: a list of them, or a DataFrame whose columns have them."""
        columns = getattr(names, "column_names", getattr(names, "columns", names))
        words = tuple(map(str, columns))
        if isinstance(names, str) or not len(words) == len(self.parts) == len(set(words)):
            raise ParameterError(f"{len(self.parts)} attributes need as many different names")
        return dataclasses.replace(self, names=words)

    def __getitem__(self, attribute: int | str) -> Estimate | FrequencyEstimate:
        if not isinstance(attribute, str):
            return self.parts[attribute]
        if attribute not in self.names:
            there = ", ".join(self.names) or "none; see `named`"
            raise KeyError(f"no attribute is called {attribute!r}; names are {there}")
        return self.parts[self.names.index(attribute)]

    def __iter__(self) -> Iterator[Estimate | FrequencyEstimate]:
        return iter(self.parts)

    def __len__(self) -> int:
        return len(self.parts)

    def figures(self, confidence: float = 0.95, attribute: str = "") -> Figures:
        """Return the rows of all attributes, each under its name."""
        del attribute
        named = zip(self._names(), self.parts, strict=True)
        return Figures(row for name, part in named for row in part.figures(confidence, name))

    def drawn(self, confidence: float, attribute: str = "") -> Figures:
        """Return what a plot shows of each attribute."""
        del attribute
        named = zip(self._names(), self.parts, strict=True)
        return Figures(row for name, part in named for row in part.drawn(confidence, name))

    def _names(self) -> tuple[str, ...]:
        return self.names or tuple(map(str, range(len(self.parts))))

    @property
    def value(self) -> Any:
        """The means as one array; a list of means and arrays when attributes are mixed."""
        values = [part.value for part in self.parts]
        numeric = all(isinstance(part, Estimate) for part in self.parts)
        return np.array(values) if numeric else values

    @property
    def stderr(self) -> Any:
        """The standard errors, in the shape of `value`."""
        errors = [part.stderr for part in self.parts]
        numeric = all(isinstance(part, Estimate) for part in self.parts)
        return np.array(errors) if numeric else errors

    def __repr__(self) -> str:
        names = self._names()
        shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        return f"TupleEstimate({shown}, n={self.n:,})"

    def __str__(self) -> str:
        named = zip(self._names(), self.parts, strict=True)
        return "\n".join(f"{name}: {part}" for name, part in named)

    def interval(self, confidence: float = 0.95) -> list[Any]:
        """Return each attribute's interval (or intervals)."""
        return [part.interval(confidence) for part in self.parts]


@dataclass(frozen=True, eq=False)
class AnsweredEstimate(Result):
    """N, the share that answered, and sums S over all people; `among` is S/N, of those who did.

    S is a number's mean over all people with 0 for no answer, or the share of each label among all;
    S and N are unbiased. The intervals of shares among those who answered are all t for which
    S - tN can be 0 (`statistics.quotient`): they need no division and hold for any N. The mean of
    a number has an interval of its own. Where N cannot be told from 0, neither has ends.

    >>> found = AnsweredEstimate(
    ...     np.array([0.2]), np.array([1e-4]), 0.8, 1e-4, np.zeros(1), 40_000, 1.0,
    ...     About.PARTICIPANTS,
    ... )
    >>> found.among.tolist(), [round(end.item(), 3) for end in found.among_interval()]
    ([0.25], [0.225, 0.275])
    """

    sums: Floats
    """S: one for a number; for a category the share of each label among all people."""
    variances: Floats
    share: float
    """N, the share that answered."""
    share_variance: float
    covariances: Floats
    """Of each S with N."""
    n: int
    epsilon: float
    about: About
    note: str = ""
    shape: Shape | None = field(default=None, repr=False, compare=False)
    """How far the intervals of S and N reach; as normal ones do where it is None."""
    mean: Estimate | None = None
    """Of a number: S/N with an interval of its own."""
    pieces: tuple[Piece, ...] = field(default=(), repr=False, compare=False)
    """The means whose weighted sum this is, if it is not that of one tally."""

    @property
    def value(self) -> Floats:
        """S and N, one after the other."""
        return np.append(self.sums, self.share)

    @property
    def stderr(self) -> Floats:
        """The standard errors of S and N."""
        return np.asarray(np.sqrt(np.append(self.variances, self.share_variance)))

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return the intervals of S and N."""
        below, above = _reach(self.shape, confidence)
        return self.value - below * self.stderr, self.value + above * self.stderr

    @property
    def answered(self) -> Estimate:
        """The share that answered."""
        head = (self.share, math.sqrt(self.share_variance), self.n, self.epsilon, self.about)
        shape = None if self.shape is None else LastOnly(self.shape)
        return Estimate(*head, self.note, shape)

    # --- among those who answered ---

    @property
    def among(self) -> Floats:
        """S/N; 0 where N is not above 0."""
        return np.asarray(self.sums / self.share if self.share > 0 else np.zeros(len(self.sums)))

    @property
    def among_stderr(self) -> Floats:
        """The standard error of S/N where N is well above 0; infinite where it is not."""
        if self.mean is not None:
            return np.array([self.mean.stderr])
        if self.share <= 0:
            return np.full(len(self.sums), math.inf)
        t = self.among
        square = self.variances - 2 * t * self.covariances + t**2 * self.share_variance
        return np.asarray(np.sqrt(np.maximum(square, 0.0)) / self.share)

    def bounded(self, confidence: float = 0.95) -> bool:
        """Whether the intervals of S/N have ends: that of N leaves out 0."""
        return self.answered.interval(confidence)[0] > 0

    def among_interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return the intervals of S/N; they are infinite where N cannot be told from 0."""
        if self.mean is not None and self.bounded(confidence):
            least, most = self.mean.interval(confidence)
            return np.array([least]), np.array([most])
        low, high = self.interval(confidence)
        below, above = self.value - low, high - self.value
        of_share = float(below[-1]), float(above[-1])
        sides = below[:-1], above[:-1]
        return quotient(self.sums, self.share, sides, of_share, self._correlations)

    @property
    def _correlations(self) -> Floats:
        """Of the errors of each S and of N."""
        most = np.sqrt(self.variances * self.share_variance)
        return np.clip(self.covariances / np.where(most > 0, most, 1.0), -1.0, 1.0)

    def scaled(self, low: float, high: float) -> AnsweredEstimate:
        """Return a number's estimate in its own units: [-1, 1] stands for [low, high].

        A person who answered adds middle + half x to S instead of x: S becomes half S + middle N.
        """
        middle, half = middle_and_half(low, high)
        square = middle**2 * self.share_variance + 2 * half * middle * self.covariances
        return dataclasses.replace(
            self,
            sums=half * self.sums + middle * self.share,
            variances=np.maximum(half**2 * self.variances + square, 0.0),
            covariances=half * self.covariances + middle * self.share_variance,
            mean=None if self.mean is None else self.mean.scaled(low, high),
        )

    def figures(self, confidence: float = 0.95, attribute: str = "") -> Figures:
        """Return the share that answered, and the mean or the shares among those."""
        mean = len(self.sums) == 1
        names = ["mean"] if mean else [str(item) for item in range(len(self.sums))]
        columns = (self.among, self.among_stderr, *self.among_interval(confidence))
        end = (self.n, self.epsilon, "" if mean else "share", self.note)
        share = self.answered.figures(confidence, attribute)[0]
        first = dataclasses.replace(share, item="answered", unit="share")
        return Figures([first, *_figures(attribute, names, columns, end)])

    def widened(self, factor: float) -> AnsweredEstimate:
        """Return the same with so many times the variance."""
        mean = self.mean
        if mean is not None:
            mean = dataclasses.replace(mean, stderr=mean.stderr * math.sqrt(factor))
        return dataclasses.replace(
            self,
            mean=mean,
            variances=self.variances * factor,
            share_variance=self.share_variance * factor,
            covariances=self.covariances * factor,
        )

    def __repr__(self) -> str:
        return f"AnsweredEstimate({self})"

    def __str__(self) -> str:
        among = ", ".join(f"{value:.6g}" for value in self.among[:8].tolist())
        more = f", ... ({len(self.sums)} items)" if len(self.sums) > 8 else ""
        return f"answered {self.answered}; among them [{among}{more}]"


AnyEstimate = Estimate | FrequencyEstimate | TupleEstimate | AnsweredEstimate
