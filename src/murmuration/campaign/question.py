"""What one attribute of a campaign asks: how a person's answer becomes a number or an item.

`encode` runs on the device: it brings an answer into the domain of a mechanism, by the rule that
the campaign published ("clamp", "spread", "no answer" or "refuse"), before anything is sent. Where
answers may be missing, no answer is one more input of the law: nan for a number, the last item for
a category.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.answers import CASES, EXACT, MOST_TEXT, NOTHING, UNKNOWN, Reading
from murmuration.errors import AnswerError, InputError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.randomness import Rng, uniform
from murmuration.mechanisms.domain import Items, Number, NumberOrNone
from murmuration.results.distribution import checked_bins

KINDS = ("number", "category", "distribution", "graded")
TABLE = "table"
"""The kind of a question about two attributes together: see `campaign.table`."""
CLAMP, SPREAD, REFUSE = "clamp", "spread", "refuse"
NO_ANSWER, ANSWERED = "no answer", "answered"
"""A rule for what does not fit, where answers may be missing; the figure of who did answer."""
OUTSIDE, UNKNOWN_ANSWER, MISSING = "outside", "unknown", "missing"
"""Why an answer does not fit: out of range; no label, no number; none at all."""
MOST_LABELS = 1 << 15
FIT_LABELS = ("fitted", "did not fit")
"""The labels of an attribute that asks whether the answer to another one fitted."""
FITS = ("fitted", "clamped", "unknown", "missing")
"""How a raw value fits: it does; it is beyond the range; it is no number or label; it is none."""


@dataclass(frozen=True)
class Question:
    """One attribute.

    name: what it is called in the campaign and in results
    kind: "number", "category", "distribution" or "graded"
    low, high: the range of a number
    unit: what a number is counted in, for people to read
    labels: the labels of a category
    outside: what becomes of other answers. For numbers "clamp" or "refuse"; for a category the
        label for the rest, "spread" (a label drawn at random) or "refuse": these two are the rule,
        also where a label has that name. Left out, it is "clamp" or "spread". Who is refused is
        silent, and silence can be seen: it tells that the answer is outside, and no epsilon covers
        it.
    bins: how many bins a distribution is shown in
    missing: whether a person may have no answer. Then that is one more input of the law, as well
        protected as any value: nobody needs to be silent. `outside` may be "no answer", which is
        then the default, and "refuse" may not.
    case: "ignore" if capital and small letters are the same in labels; else "exact"
    markers: texts that stand for no answer, as "?", where answers may be missing
    checks: the name of another attribute: then this one asks whether the answer to that one fitted,
        with the labels `FIT_LABELS`, and the device answers it by itself
    of: the names of two other attributes: then this one is the table of both, its labels are the
        cells, and the device answers it by itself (`campaign.table`)
    cuts: of a table, where each of its numbers is cut; nothing for a category

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
    >>> town = Question("town", "category", labels=("Rome", "Oslo"), case="ignore")
    >>> town.encode([" rome", "OSLO"], system_rng()).tolist()
    [0, 1]
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
    case: str = EXACT
    markers: tuple[str, ...] = ()
    checks: str = ""
    of: tuple[str, ...] = ()
    cuts: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        self._check_texts()
        if (self.kind == TABLE) != bool(self.of) or len(self.cuts) != len(self.of):
            raise ParameterError(f"{self.name}: `of` and `cuts` are for a table, two of each")
        if self.kind not in (*KINDS, TABLE):
            raise ParameterError(f"kind is one of {', '.join(KINDS)}; got {self.kind!r}")
        if not isinstance(self.missing, bool):
            raise ParameterError(f"{self.name}: missing is true or false")
        if not self.outside:
            usual = CLAMP if self.has_range else SPREAD
            object.__setattr__(self, "outside", NO_ANSWER if self.missing else usual)
        if self.missing and self.outside == REFUSE:
            raise ParameterError(
                f"{self.name}: with missing = true every device reports: outside is {NO_ANSWER!r}, "
                f"not {REFUSE!r}"
            )
        if self.has_range:
            self._check_range()
        else:
            self._check_labels()
        checked_bins(self.bins)
        self._check_reading()
        self._check_check()

    def _check_texts(self) -> None:
        """Before any text is brought into a normal form."""
        own = (self.name, self.unit, self.outside, self.case, self.checks, *self.of, *self.markers)
        if not all(isinstance(text, str) for text in own):
            raise ParameterError(
                "an attribute's name, unit, outside, case, checks and markers are texts"
            )
        texts = own if self.of else (*own, *self.labels)  # a table's labels are made of others
        if any(isinstance(text, str) and len(text) > MOST_TEXT for text in texts):
            raise ParameterError(
                f"an attribute's name, unit, labels and markers have {MOST_TEXT} characters at most"
            )

    def _check_check(self) -> None:
        """Refuse a check whose answers could be anything but those that a device makes."""
        plain = self.outside == SPREAD and self.case == EXACT and not self.markers
        if self.checks and not (self.kind == "category" and self.labels == FIT_LABELS and plain):
            raise ParameterError(
                f"{self.name}: whether an answer fitted is a category of the labels "
                f"{' and '.join(FIT_LABELS)}, with outside = {SPREAD!r}"
            )

    @classmethod
    def checking(cls, other: Question) -> Question:
        """Return the question whether the answer to another one fitted.

        >>> Question.checking(Question("age", low=18, high=98)).name
        'age: fit'
        """
        name, missing = f"{other.name}: fit", other.missing
        return cls(
            name, "category", labels=FIT_LABELS, outside=SPREAD, missing=missing, checks=other.name
        )

    def _check_reading(self) -> None:
        if self.case not in CASES or (self.case != EXACT and self.kind != "category"):
            raise ParameterError(
                f"{self.name}: case is {' or '.join(CASES)}, and for a category only"
            )
        keys = [self.reading.key(marker) for marker in self.markers]
        if "" in keys or len(set(keys)) != len(keys):
            raise ParameterError(f"{self.name}: markers are texts, all different and not empty")
        if keys and not self.missing:
            raise ParameterError(
                f"{self.name}: markers stand for no answer, so they need missing = true"
            )
        if {self.reading.key(label) for label in self.labels} & set(keys):
            raise ParameterError(
                f"{self.name}: a text cannot be both a label and a marker of no answer"
            )

    def _check_range(self) -> None:
        low, high = self.low, self.high
        if isinstance(low, bool) or isinstance(high, bool):
            raise ParameterError(f"{self.name}: low and high are numbers")
        if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
            raise ParameterError(f"{self.name}: a {self.kind} needs a range, low and high")
        if not low < high or not math.isfinite(high - low):
            raise ParameterError(f"{self.name}: low must be below high; got {low!r} and {high!r}")
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
                f"{self.name}: with missing = true, {min(taken)!r} is reserved for missing "
                "answers: rename the label"
            )
        if self.outside not in (SPREAD, self._left_out, *self.labels):
            raise ParameterError(
                f"{self.name}: outside is {SPREAD!r}, {self._left_out!r}, or the label that stands "
                "for all others"
            )

    @property
    def has_range(self) -> bool:
        """Whether answers are numbers."""
        return self.kind not in ("category", TABLE)

    @property
    def derived(self) -> bool:
        """Whether the device answers it by itself, from the answers to other questions."""
        return bool(self.checks or self.of)

    @property
    def sources(self) -> tuple[str, ...]:
        """The attributes that a question which the device answers by itself is about."""
        return self.of or ((self.checks,) if self.checks else ())

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

    @property
    def clamps(self) -> str:
        """Say what becomes of numbers outside the declared range; "" where they are not clamped.

        >>> Question("age", low=18, high=98, unit="years").clamps
        'the mean is of answers clamped to 18 to 98 years'
        """
        if self.labels or self.outside != CLAMP:
            return ""
        return f"the mean is of answers clamped to {self._span}"

    @property
    def _span(self) -> str:
        """The range in words, with its unit."""
        low, high = self.range
        return f"{low:g} to {high:g} {self.unit}".rstrip()

    @property
    def rule(self) -> str:
        """Say what becomes of an answer that does not fit, on a device.

        >>> Question("age", low=18, high=98, missing=True).rule
        'a number outside 18 to 98, and what is no number, counts as no answer'
        >>> Question("phone", "category", labels=("ios", "android")).rule
        'a text that is not one of the labels counts as a label drawn at random'
        """
        end = {
            CLAMP: "counts as the nearer end",
            SPREAD: "counts as a label drawn at random",
            NO_ANSWER: "counts as no answer",
            REFUSE: "is not sent by a device that may be silent",
        }
        if self.kind == "category":
            kept = end if self.outside == self._left_out else {SPREAD: end[SPREAD]}
            label = f"counts as the label {self.outside!r}"
            return f"a text that is not one of the labels {kept.get(self.outside, label)}"
        if self.outside == NO_ANSWER:
            return f"a number outside {self._span}, and what is no number, {end[NO_ANSWER]}"
        other = end[NO_ANSWER] if self.missing else "is refused, and nothing is sent"
        return f"a number outside {self._span} {end[self.outside]}; what is no number {other}"

    def problem(self, reason: str) -> str:
        """Say what is wrong with an answer that does not fit, without the answer.

        >>> Question("age", low=18, high=98, unit="years").problem(OUTSIDE)
        'the answer is outside the range 18 to 98 years'
        """
        if reason == OUTSIDE:
            return f"the answer is outside the range {self._span}"
        labels = self.kind == "category"
        return f"the answer is not {'one of the labels' if labels else 'a number'}"

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
        label of an invalid answer, where the rule is "spread". What a raw value is, is said
        by `answers`.
        """
        return self._items(values, rng) if self.kind == "category" else self._numbers(values)

    def no_answers(self, people: int) -> NDArray[np.generic]:
        """Return the encoded column of people without an answer.

        >>> Question("phone", "category", labels=("a", "b"), missing=True).no_answers(2).tolist()
        [2, 2]
        """
        if not self.missing:
            raise self._missing(people, people)
        if self.kind == "category":
            return np.full(people, len(self.labels), dtype=np.int64)
        return np.full(people, math.nan)

    def answered(self, values: Any) -> NDArray[np.bool_]:
        """Tell for each value of a column whether `encode` has an answer for it.

        >>> Question("age", low=18, high=98).answered(["30", "", "old", None, 120]).tolist()
        [True, False, False, False, True]
        """
        if self.kind == "category":
            places = self.reading.places(values)
            return places >= 0 if self.outside == self._left_out else places != NOTHING
        return ~np.isnan(self._fitting(self.reading.numbers(values)[0]))

    @property
    def hides_misfits(self) -> bool:
        """Whether an answer that does not fit counts as one that does: clamped, or spread."""
        return self.outside == (SPREAD if self.kind == "category" else CLAMP)

    @property
    def has_rest(self) -> bool:
        """Whether one of the labels stands for all others, so that every text fits."""
        return self.outside in self.labels and self.outside not in (SPREAD, self._left_out)

    def fitted(self, values: Any) -> Ints:
        """Return the answers of the attribute that checks this one, by the raw values of this one.

        >>> Question("age", low=18, high=98, missing=True).fitted([30, 120, "old", None]).tolist()
        [0, 1, 1, 2]
        """
        fits = self.fits(values)
        unknown = (fits == FITS.index("unknown")) & (not self.has_rest)
        wrong = (fits == FITS.index("clamped")) | unknown
        codes: Ints = np.select([fits == FITS.index("missing"), wrong], [2, 1], 0)
        return codes

    def fits(self, values: Any) -> Ints:
        """Say of each value of a column how it fits: a place in `FITS`.

        >>> age = Question("age", low=18, high=98)
        >>> [FITS[fit] for fit in age.fits([" 30", 120, "old", None])]
        ['fitted', 'clamped', 'unknown', 'missing']
        """
        if self.kind == "category":
            places = self.reading.places(values)
            return np.select([places >= 0, places == UNKNOWN], [0, 2], 3)
        (low, high), (numbers, nothing) = self.range, self.reading.numbers(values)
        inside = (numbers >= low) & (numbers <= high)
        return np.select([inside, nothing, np.isnan(numbers)], [0, 3, 2], 1)

    @cached_property
    def reading(self) -> Reading:
        """How raw values are read."""
        return Reading(self.labels, self.markers, self.case)

    def _numbers(self, values: Any) -> Floats:
        low, high = self.range
        given, nothing = self.reading.numbers(values)
        if given.ndim != 1:
            raise InputError(f"{self.name} is one number per person. Nothing was sent.")
        fitting = self._fitting(given)
        silent = np.isnan(fitting)
        if silent.any() and not self.missing:
            if (silent & ~np.isnan(given)).any():
                text = f"{self.name}: {self.problem(OUTSIDE)}. Nothing was sent."
                raise AnswerError(text, self.name, OUTSIDE)
            reason = MISSING if nothing.any() else UNKNOWN_ANSWER
            raise self._missing(int(silent.sum()), len(silent), reason)
        inside = np.clip(fitting, low, high)
        return np.clip(2 * ((inside - low) / (high - low)) - 1, -1.0, 1.0)

    def _fitting(self, numbers: Floats) -> Floats:
        """Return numbers with nan for those that the rule makes no answer."""
        if self.outside == CLAMP:
            return numbers
        low, high = self.range
        return np.where((numbers < low) | (numbers > high), math.nan, numbers)

    def _missing(self, silent: int, people: int, reason: str = MISSING) -> AnswerError:
        return AnswerError(
            f"{self.name}: {silent} of {people} have no answer that counts, and silence can be "
            "seen. Declare missing = true, so that no answer is one too. Nothing was sent.",
            self.name,
            reason,
        )

    def _items(self, values: Any, rng: Rng) -> Ints:
        items = self.reading.places(values)
        none, unfit = items == NOTHING, np.flatnonzero(items == UNKNOWN)
        if none.any() and not self.missing:
            raise self._missing(int(none.sum()), len(none))
        items[none] = len(self.labels)
        if self.outside == SPREAD:
            items[unfit] = uniform(rng.only(unfit), len(unfit), len(self.labels))
        elif self.outside != REFUSE and self.outside in self.labels:
            items[unfit] = self.labels.index(self.outside)
        elif self.missing:
            items[unfit] = len(self.labels)
        elif len(unfit):
            raise AnswerError(
                f"{self.name} is one of {len(self.labels)} labels; "
                f"{len(unfit)} of {len(items)} answers are not. Nothing was sent.",
                self.name,
                UNKNOWN_ANSWER,
            )
        return items
