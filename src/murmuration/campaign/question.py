"""What one attribute of a campaign asks: how a person's answer becomes a number or an item.

`encode` runs on the device: it brings an answer into the domain of a mechanism, by the rule that
the campaign published ("clamp", "spread", "no answer" or "refuse"), before anything is sent. Where
answers may be missing, no answer is one more input of the law: nan for a number, the last item for
a category.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.errors import InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.randomness import Rng, uniform
from murmuration.mechanisms.domain import Items, Number, NumberOrNone
from murmuration.results.distribution import checked_bins

KINDS = ("number", "category", "distribution", "graded")
CLAMP, SPREAD, REFUSE = "clamp", "spread", "refuse"
NO_ANSWER, ANSWERED = "no answer", "answered"
"""A rule for what does not fit, where answers may be missing; the figure of who did answer."""
MOST_LABELS = 1 << 15
NO_NUMBERS = (type(np.ma.masked), np.datetime64, np.timedelta64)
"""What numpy takes for a number, and is none."""


@dataclass(frozen=True)
class Question:
    """One attribute.

    name: what it is called in the campaign and in results
    kind: "number", "category", "distribution" or "graded"
    low, high: the range of a number
    unit: what a number is counted in, for people to read
    labels: the labels of a category
    outside: what becomes of other answers. For numbers "clamp" or "refuse"; for a category the
        label for the rest, "spread" (a label drawn at random) or "refuse". Left out, it is "clamp"
        or "spread". Who is refused is silent, and silence can be seen: it tells that the answer is
        outside, and no epsilon covers it.
    bins: how many bins a distribution is shown in
    missing: whether a person may have no answer. Then that is one more input of the law, as well
        protected as any value: nobody needs to be silent. `outside` may be "no answer", which for
        labels is the default, and "refuse" may not.

    >>> from murmuration import system_rng
    >>> age = Question("age", low=18, high=98, unit="years")
    >>> age.encode([18, 58, 120], system_rng()).tolist()
    [-1.0, 0.0, 1.0]
    >>> labels = ("android", "ios", "other")
    >>> phone = Question("phone", kind="category", labels=labels, outside="refuse")
    >>> phone.encode(["ios", "other"], system_rng()).tolist()
    [1, 2]
    >>> age = Question("age", low=18, high=98, missing=True)
    >>> age.encode([58, None, "old"], system_rng()).tolist()
    [0.0, nan, nan]
    """

    name: str
    kind: str = "number"
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: tuple[str, ...] = ()
    outside: str = ""
    bins: int = 64
    missing: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"kind is one of {', '.join(KINDS)}; got {self.kind!r}")
        if not isinstance(self.missing, bool):
            raise ParameterError(f"{self.name}: missing is true or false")
        if not self.outside:
            usual = NO_ANSWER if self.missing else SPREAD
            object.__setattr__(self, "outside", usual if self.kind == "category" else CLAMP)
        if self.missing and self.outside == REFUSE:
            raise ParameterError(
                f"{self.name}: with missing = true nobody is silent: outside is {NO_ANSWER!r}, not "
                f"{REFUSE!r}"
            )
        if self.kind == "category":
            self._check_labels()
        else:
            self._check_range()
        checked_bins(self.bins)

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if isinstance(low, bool) or isinstance(high, bool):
            raise ParameterError(f"{self.name}: low and high are numbers")
        if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
            raise ParameterError(f"{self.name}: a {self.kind} needs a range, low and high")
        if not low < high or not math.isfinite(high - low):
            raise ParameterError(f"{self.name}: low is below high; got {low!r} and {high!r}")
        if self.labels:
            raise ParameterError(f"{self.name}: a {self.kind} has a range, not labels")
        if self.outside not in (CLAMP, self._left_out):
            raise ParameterError(f"{self.name}: outside is {CLAMP!r} or {self._left_out!r}")

    def _check_labels(self) -> None:
        if not all(isinstance(label, str) for label in self.labels):
            raise ParameterError(f"{self.name}: a category has labels that are text")
        different = len(set(self.labels)) == len(self.labels)
        if not 2 <= len(self.labels) <= MOST_LABELS or not different or "" in self.labels:
            raise ParameterError(f"{self.name}: a category has 2 or more labels, all different")
        if self.low is not None or self.high is not None:
            raise ParameterError(f"{self.name}: a category has labels, not a range")
        if self.missing and (taken := {NO_ANSWER, ANSWERED} & set(self.labels)):
            raise ParameterError(
                f"{self.name}: with missing = true {min(taken)!r} is counted by itself: it is no "
                "label"
            )
        if self.outside not in (SPREAD, self._left_out, *self.labels):
            raise ParameterError(
                f"{self.name}: outside is {SPREAD!r}, {self._left_out!r}, or the label that stands "
                "for all others"
            )

    @property
    def _left_out(self) -> str:
        """The rule by which an answer that does not fit is none."""
        return NO_ANSWER if self.missing else REFUSE

    @property
    def k(self) -> int | None:
        """How many items, no answer included where it is one; None for a number."""
        return len(self.labels) + self.missing if self.labels else None

    @property
    def domain(self) -> Number | NumberOrNone | Items:
        """What a mechanism for it takes."""
        if self.k is not None:
            return Items(self.k)
        return NumberOrNone() if self.missing else Number()

    @property
    def scale(self) -> float:
        """What 1 in a mechanism's domain is in the attribute's own units; a share is a share."""
        return 1.0 if self.labels else (self.range[1] - self.range[0]) / 2

    @property
    def range(self) -> tuple[float, float]:
        """The ends of a number's range."""
        if self.low is None or self.high is None:
            raise ParameterError(f"{self.name} has labels, not a range")
        return self.low, self.high

    # --- device ---

    def never_silent(self) -> Question:
        """Return the same question with an answer for every value, whatever the rule was.

        >>> Question("age", low=18, high=98, outside="refuse").never_silent().outside
        'clamp'
        """
        if self.outside != REFUSE:
            return self
        return replace(self, outside=SPREAD if self.kind == "category" else CLAMP)

    def encode(self, values: Any, rng: Rng) -> NDArray[np.generic]:
        """Return items, or numbers in [-1, 1]; what has no answer is nan or the last item.

        Where answers may not be missing it is refused, without being repeated. `rng` draws the
        label of an answer that is none, where the rule is "spread".
        """
        return self._items(values, rng) if self.kind == "category" else self._numbers(values)

    def no_answers(self, people: int) -> NDArray[np.generic]:
        """Return the encoded column of people without an answer.

        >>> Question("phone", "category", labels=("a", "b"), missing=True).no_answers(2).tolist()
        [2, 2]
        """
        if not self.missing:
            raise InputError(self._no_answer(people, people))
        if self.kind == "category":
            return np.full(people, len(self.labels), dtype=np.int64)
        return np.full(people, math.nan)

    def answered(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Tell for each value of a column whether `encode` has an answer for it.

        >>> Question("age", low=18, high=98).answered(["30", "", "old", None, 120]).tolist()
        [True, False, False, False, True]
        """
        if self.kind == "category":
            known = set(self.labels) if self.outside == self._left_out else None
            return np.array(
                [not _is_missing(v) and (known is None or str(v) in known) for v in values],
                dtype=bool,
            )
        return ~np.isnan(self._fitting(np.array([_number(value) for value in values])))

    def _numbers(self, values: Any) -> Floats:
        low, high = self.range
        given = _floats(values)
        if given.ndim != 1:
            raise InputError(f"{self.name} is one number per person. Nothing was sent.")
        fitting = self._fitting(given)
        silent = np.isnan(fitting)
        if silent.any() and not self.missing:
            if (silent & ~np.isnan(given)).any():
                raise InputError(f"{self.name} is {low:g} to {high:g}. Nothing was sent.")
            raise InputError(self._no_answer(int(silent.sum()), len(silent)))
        inside = np.clip(fitting, low, high)
        return np.clip(2 * ((inside - low) / (high - low)) - 1, -1.0, 1.0)

    def _fitting(self, numbers: Floats) -> Floats:
        """Return numbers with nan for those that the rule makes no answer."""
        if self.outside == CLAMP:
            return numbers
        low, high = self.range
        return np.where((numbers < low) | (numbers > high), math.nan, numbers)

    def _no_answer(self, silent: int, people: int) -> str:
        return (
            f"{self.name}: {silent} of {people} have no answer that counts, and silence can be "
            "seen. Declare missing = true, so that no answer is one too. Nothing was sent."
        )

    def _items(self, values: Any, rng: Rng) -> Ints:
        given = [values] if isinstance(values, str) else _listed(values)
        places = {label: place for place, label in enumerate(self.labels)}
        rest = places.get(self.outside, len(self.labels) if self.missing else -1)
        spread = self.outside == SPREAD
        found = np.array([places.get(str(value), -1 if spread else rest) for value in given])
        found = found.astype(np.int64)
        none = np.array([_is_missing(value) for value in given], dtype=bool)
        if none.any() and not self.missing:
            raise InputError(self._no_answer(int(none.sum()), len(none)))
        found[none] = len(self.labels)
        if spread and len(unfit := np.flatnonzero(found < 0)):
            found[unfit] = uniform(rng.only(unfit), len(unfit), len(self.labels))
        if (found < 0).any():
            raise InputError(
                f"{self.name} is one of {len(self.labels)} labels; "
                f"{int((found < 0).sum())} of {len(found)} answers are not. Nothing was sent."
            )
        return found


def _is_missing(value: Any) -> bool:
    """Whether an answer is none: nothing, an empty text, nan, masked, or pandas' NA or NaT."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, str):
        return not value
    try:
        return bool(value != value)  # nan is not itself
    except ValueError:  # several values
        return False
    except (TypeError, ArithmeticError):  # NA is neither true nor false
        return True


def _number(value: Any) -> float:
    """Return an answer as a number, infinite where it is too large for one; nan if it is none."""
    if value is None or isinstance(value, NO_NUMBERS):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


def _floats(values: Any) -> Floats:
    """Return answers as floats; nan for what is no number."""
    if not _treacherous(values):
        try:
            return np.atleast_1d(np.asarray(values, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            pass
    return np.array([_number(value) for value in _listed(values)], dtype=np.float64)


def _treacherous(values: Any) -> bool:
    """Whether numpy would make numbers of what is none: what a mask hides, and times."""
    if isinstance(values, list | tuple):
        return any(isinstance(value, NO_NUMBERS) for value in values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    return isinstance(values, np.ma.MaskedArray) or kind in ("m", "M")


def _listed(values: Any) -> list[Any]:
    """Return a column's answers; a single one is a column of one."""
    single = isinstance(values, str | bytes) or not hasattr(values, "__iter__")
    return [values] if single else list(values)
