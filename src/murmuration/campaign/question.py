"""What one attribute of a campaign asks: how a person's answer becomes a number or an item.

`encode` runs on the device: it brings an answer into the domain of a mechanism, by the rule that
the campaign published ("clamp", "spread" or "refuse"), before anything is sent.
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
from murmuration.mechanisms.domain import Items, Number
from murmuration.results.distribution import checked_bins

KINDS = ("number", "category", "distribution", "graded")
CLAMP, SPREAD, REFUSE = "clamp", "spread", "refuse"
MOST_LABELS = 1 << 15


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

    >>> from murmuration import system_rng
    >>> age = Question("age", low=18, high=98, unit="years")
    >>> age.encode([18, 58, 120], system_rng()).tolist()
    [-1.0, 0.0, 1.0]
    >>> labels = ("android", "ios", "other")
    >>> phone = Question("phone", kind="category", labels=labels, outside="refuse")
    >>> phone.encode(["ios", "other"], system_rng()).tolist()
    [1, 2]
    """

    name: str
    kind: str = "number"
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: tuple[str, ...] = ()
    outside: str = ""
    bins: int = 64

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError(f"kind is one of {', '.join(KINDS)}; got {self.kind!r}")
        if not self.outside:
            object.__setattr__(self, "outside", SPREAD if self.kind == "category" else CLAMP)
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
        if self.outside not in (CLAMP, REFUSE):
            raise ParameterError(f"{self.name}: outside is {CLAMP!r} or {REFUSE!r}")

    def _check_labels(self) -> None:
        if not all(isinstance(label, str) for label in self.labels):
            raise ParameterError(f"{self.name}: a category has labels that are text")
        different = len(set(self.labels)) == len(self.labels)
        if not 2 <= len(self.labels) <= MOST_LABELS or not different or "" in self.labels:
            raise ParameterError(f"{self.name}: a category has 2 or more labels, all different")
        if self.low is not None or self.high is not None:
            raise ParameterError(f"{self.name}: a category has labels, not a range")
        if self.outside not in (SPREAD, REFUSE, *self.labels):
            raise ParameterError(
                f"{self.name}: outside is {SPREAD!r}, {REFUSE!r}, or the label that stands for all "
                "others"
            )

    @property
    def k(self) -> int | None:
        """How many items; None for a number."""
        return len(self.labels) or None

    @property
    def domain(self) -> Number | Items:
        """What a mechanism for it takes."""
        return Items(len(self.labels)) if self.labels else Number()

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
        """Return items, or numbers in [-1, 1]; refuse what has no answer, without repeating it.

        `rng` draws the label of an answer that is none, where the rule is "spread".
        """
        return self._items(values, rng) if self.kind == "category" else self._numbers(values)

    def _numbers(self, values: Any) -> Floats:
        low, high = self.range
        try:
            given = np.atleast_1d(np.asarray(values, dtype=np.float64))
        except (TypeError, ValueError):
            raise InputError(f"{self.name} is a number. Nothing was sent.") from None
        if given.ndim != 1 or np.isnan(given).any():
            raise InputError(f"{self.name} is one number per person; some are missing.")
        if self.outside == REFUSE and ((given < low) | (given > high)).any():
            raise InputError(f"{self.name} is {low:g} to {high:g}. Nothing was sent.")
        inside = np.clip(given, low, high)
        return np.clip(2 * ((inside - low) / (high - low)) - 1, -1.0, 1.0)

    def answered(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Tell for each value of a column whether `encode` has an answer for it.

        >>> Question("age", low=18, high=98).answered(["30", "", "old", None, 120]).tolist()
        [True, False, False, False, True]
        """
        if self.kind == "category":
            known = set(self.labels) if self.outside == REFUSE else None
            return np.array(
                [not _is_missing(v) and (known is None or str(v) in known) for v in values],
                dtype=bool,
            )
        numbers = np.array([_number(value) for value in values], dtype=np.float64)
        fine = ~np.isnan(numbers)
        if self.outside == REFUSE:
            low, high = self.range
            fine &= (numbers >= low) & (numbers <= high)
        return fine

    def _items(self, values: Any, rng: Rng) -> Ints:
        given = [values] if isinstance(values, str) else list(values)
        places = {label: place for place, label in enumerate(self.labels)}
        rest = places.get(self.outside, -1)
        found = np.array([places.get(str(value), rest) for value in given], dtype=np.int64)
        if self.outside == SPREAD and len(unfit := np.flatnonzero(found < 0)):
            found[unfit] = uniform(rng.only(unfit), len(unfit), len(self.labels))
        if (found < 0).any():
            raise InputError(
                f"{self.name} is one of {len(self.labels)} labels; "
                f"{int((found < 0).sum())} of {len(found)} answers are not. Nothing was sent."
            )
        return found


def _is_missing(value: Any) -> bool:
    """Whether a field of a table is empty: nothing, an empty text, or nan."""
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> float:
    """Return a field of a table as a number; nan if it is none."""
    try:
        return math.nan if value is None else float(value)
    except (TypeError, ValueError):
        return math.nan
