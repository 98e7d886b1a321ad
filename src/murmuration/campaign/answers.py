"""The one rule that turns a raw value into an answer: on the device, and in every command.

    tidy      Unicode NFC, then the outer blanks off (`BLANKS`: what `trim` of JavaScript removes)
    number    `NUMBER`: ASCII digits, a point, an exponent; its value is the nearest double
    label     the text as it is; else tidied; else, if it is a number, by its value; what is no
              text is written as one first: 2.0 as "2", true as "True"
    nothing   None, nan, a text that is empty when tidied, and the markers that a campaign declares

With `case = "ignore"` letters are folded by `FOLDS`, a list of code points: other programs need no
table of Unicode, which differs from version to version. docs/wire.md, section 2, has it in words.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np

from murmuration.exact.arrays import Bits, Floats, Ints

BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""No blanks, no 1_000, no 1,5 and no inf or nan: such texts are words."""
CODE = re.compile(r"[+-]?0[0-9]")
"""How a label begins that is a code, as 01: with one of these no label matches by value."""
WHOLE = float(1 << 53)
"""From here on, doubles do not tell whole numbers apart: labels match as texts only."""
MOST_TEXT = 500
"""Code points of a name, a unit, a label or a marker: NFC of longer ones could take the square of
their length, on every device."""
EXACT, IGNORE = "exact", "ignore"
CASES = (EXACT, IGNORE)
FOLDS = (
    (0x0041, 0x005A, 1, 32),  # A-Z
    (0x00C0, 0x00D6, 1, 32),  # Latin-1
    (0x00D8, 0x00DE, 1, 32),
    (0x0100, 0x012E, 2, 1),  # Latin Extended-A, without dotted and dotless i
    (0x0132, 0x0136, 2, 1),
    (0x0139, 0x0147, 2, 1),
    (0x014A, 0x0176, 2, 1),
    (0x0178, 0x0178, 1, -121),
    (0x0179, 0x017D, 2, 1),
    (0x0386, 0x0386, 1, 38),  # Greek, with the sigma at the end of words
    (0x0388, 0x038A, 1, 37),
    (0x038C, 0x038C, 1, 64),
    (0x038E, 0x038F, 1, 63),
    (0x0391, 0x03A1, 1, 32),
    (0x03A3, 0x03AB, 1, 32),
    (0x03C2, 0x03C2, 1, 1),
    (0x0400, 0x040F, 1, 80),  # Cyrillic
    (0x0410, 0x042F, 1, 32),
)
"""First and last code point, the step between them, and what is added to each."""
NOTHING, UNKNOWN = -1, -2
"""In place of a label's place: no answer, and an answer that is no label."""
NO_NUMBERS = (type(np.ma.masked), np.datetime64, np.timedelta64)
"""What numpy takes for a number, and is none."""

_SMALL = {
    point: point + more
    for first, last, step, more in FOLDS
    for point in range(first, last + 1, step)
}


def tidy(text: str) -> str:
    r"""Return a text in Unicode NFC without the blanks around it.

    >>> tidy(" Cafe\u0301\u00a0")
    'Café'
    """
    return unicodedata.normalize("NFC", text).strip(BLANKS)


def folded(text: str) -> str:
    """Return a text in small letters, as far as `FOLDS` knows them.

    >>> folded("ROME, Ångström, ΟΔΟΣ")
    'rome, ångström, οδοσ'
    """
    return text.translate(_SMALL)


def number_of(text: str) -> float:
    """Return the number that a text is, infinite where it is too large for one; nan if it is none.

    >>> [number_of(text) for text in (" 1.50 ", "+2e3", "1,5", "1_000", "inf")]
    [1.5, 2000.0, nan, nan, nan]
    """
    number = tidy(text)
    return float(number) if NUMBER.fullmatch(number) else math.nan


@dataclass(frozen=True)
class Reading:
    """How the answers of one attribute are read.

    labels: those of a category; none for a number
    markers: texts that stand for no answer, as "?" and "NA"
    case: "exact", or "ignore"

    >>> yes_no = Reading(("Yes", "no", "1"), markers=("?",), case="ignore")
    >>> yes_no.places([" yes", "NO", 1.0, "?", None, "perhaps"]).tolist()
    [0, 1, 2, -1, -1, -2]
    """

    labels: tuple[str, ...] = ()
    markers: tuple[str, ...] = ()
    case: str = EXACT

    # --- labels ----------------------------------------------------------------------------------

    def places(self, values: Any) -> Ints:
        """Return the place of each value's label; NOTHING if it is no answer, or UNKNOWN."""
        texts: Iterable[str | None] = listed(values)
        if not set(map(type, texts)) <= {str}:
            texts = [text_of(value) for value in texts]
        return np.fromiter(map(_Memo(self.place).__getitem__, texts), dtype=np.int64)

    def place(self, text: str | None) -> int:
        """Return the place of a text's label; NOTHING if it is no answer, or UNKNOWN."""
        if text is None:
            return NOTHING
        if text in self._plain:
            return self._plain[text]
        key = self.key(text)
        if not key:
            return NOTHING
        place = self._tidied.get(key, UNKNOWN)
        return self._by_value(key) if place == UNKNOWN else place

    def key(self, text: str) -> str:
        """Return the form in which texts are compared.

        >>> Reading(case="ignore").key(" Rome ")
        'rome'
        """
        return folded(tidy(text)) if self.case == IGNORE else tidy(text)

    def _by_value(self, key: str) -> int:
        return self._values.get(float(key), UNKNOWN) if NUMBER.fullmatch(key) else UNKNOWN

    @cached_property
    def _plain(self) -> dict[str, int]:
        return {label: place for place, label in enumerate(self.labels)}

    @cached_property
    def _tidied(self) -> dict[str, int]:
        """The places by key; of two labels with the same key neither is found by it."""
        return _places((self.key(label) for label in self.labels), map(self.key, self.markers))

    @cached_property
    def _values(self) -> dict[float, int]:
        """The places of labels that are numbers, by value; nothing where labels are codes."""
        if any(CODE.match(self.key(label)) for label in self.labels):
            return {}
        values = _places(map(number_of, self.labels), map(number_of, self.markers))
        return {value: place for value, place in values.items() if abs(value) < WHOLE}

    # --- numbers ---------------------------------------------------------------------------------

    def numbers(self, values: Any) -> tuple[Floats, Bits]:
        """Return values as floats, nan for what is no number, and which of them are no answer.

        >>> numbers, nothing = Reading(markers=("?",)).numbers(["1.5", " ", "?", "old"])
        >>> numbers.tolist(), nothing.tolist()
        ([1.5, nan, nan, nan], [False, True, True, False])
        """
        plain = _numeric(values)
        if plain is not None:
            numbers, nothing = plain, np.isnan(plain)
        else:
            given, memo = listed(values), _Memo(number_of)
            numbers = np.array(
                [memo[v] if isinstance(v, str) else _number(v) for v in given], dtype=np.float64
            )
            nothing = np.zeros(len(given), dtype=bool)
            for place in np.flatnonzero(np.isnan(numbers)).tolist():
                nothing[place] = self.place(text_of(given[place])) == NOTHING
        marked = np.isin(numbers, [m for m in map(number_of, self.markers) if not math.isnan(m)])
        return np.where(marked, math.nan, numbers), nothing | marked


class _Memo(dict[Any, Any]):
    """What a function says of each text, asked once."""

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, text: str | None) -> Any:
        place = self[text] = self._ask(text)
        return place


def _places(labels: Iterable[Any], markers: Iterable[Any]) -> dict[Any, int]:
    """Return the place of each label by its key, NOTHING for markers; UNKNOWN if two meet."""
    places: dict[Any, int] = dict.fromkeys(markers, NOTHING)
    for place, key in enumerate(labels):
        places[key] = UNKNOWN if key in places else place
    return places


def listed(values: Any) -> list[Any]:
    """Return a column's values; a single one is a column of one."""
    single = isinstance(values, str | bytes) or not hasattr(values, "__iter__")
    return [values] if single else list(values)


def text_of(value: Any) -> str | None:
    """Return a value as a text; None if it is nothing: None, nan, masked, or pandas' NA or NaT.

    A whole number below 2^53 has no point, whatever its type: JSON knows one kind of number.

    >>> [text_of(value) for value in (2, 2.0, -0.0, 2.5, True, 1e16, 10**16, None)]
    ['2', '2', '0', '2.5', 'True', '1e+16', '1e+16', None]
    """
    if value is None or value is np.ma.masked:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, int | float | np.integer | np.floating | Decimal):
        return _digits(value)
    try:
        return None if value != value else str(value)  # nan is not itself
    except ValueError:  # several values
        return str(value)
    except (TypeError, ArithmeticError):  # NA is neither true nor false
        return None


def _digits(value: Any) -> str | None:
    """Return a number as a text; None if it is nan."""
    if isinstance(value, bool):
        return str(value)
    number = _number(value)
    if math.isnan(number):
        return None
    if abs(number) < WHOLE:
        return str(int(number)) if number.is_integer() else str(value)
    return str(number)


def _number(value: Any) -> float:
    """Return a value that is no text as a number, infinite where it is too large; nan if none."""
    if value is None or isinstance(value, NO_NUMBERS):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, ArithmeticError):
        return math.nan


def _numeric(values: Any) -> Floats | None:
    """Return a column of numbers as floats; None if something in it is none."""
    if _treacherous(values):
        return None
    try:
        numbers = np.atleast_1d(np.asarray(values))
    except (TypeError, ValueError, OverflowError):
        return None
    return numbers.astype(np.float64) if numbers.dtype.kind in "fiub" else None


def _treacherous(values: Any) -> bool:
    """Whether numpy would make numbers of what is none: what a mask hides, and times."""
    if isinstance(values, list | tuple):
        return any(isinstance(value, NO_NUMBERS) for value in values)
    kind = getattr(getattr(values, "dtype", None), "kind", "")
    return isinstance(values, np.ma.MaskedArray) or kind in ("m", "M")
