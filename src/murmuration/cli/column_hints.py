"""What `murmur init` says about a column that is nearly one of numbers, and about odd numbers.

Only texts and numbers that many rows have are named: a rare one could be a single person's.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from murmuration.campaign.answers import number_of

COMMON = 10
"""Rows that have a value before it is named."""
MOST_NAMED = 4
MOSTLY = 0.5
"""The share of rows that are numbers, from which on a column is meant to have numbers."""
NEARLY = 0.95
"""The share of rows that are dates, or numbers with marks between thousands."""
FEW = 5
"""Different numbers, at least, that say how far apart they usually are."""
GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:[,'\u2019\u00a0\u202f ][0-9]{3})+(?:\.[0-9]+)?")
DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ].*)?|[0-9]{1,2}([./])[0-9]{1,2}\1[0-9]{2,4}")
CODES = frozenset(-float(digit * times) for digit in "789" for times in range(1, 5)) | {-1.0}
"""Negative numbers that often stand for no answer."""


@dataclass(frozen=True)
class Hint:
    """What is said about a column, and which of its values may stand for no answer."""

    said: str = ""
    missing: tuple[str, ...] = ()


def texts_among_numbers(counts: Mapping[str, int]) -> Hint | None:
    """Say which texts stand among numbers; None where most rows are texts.

    >>> texts_among_numbers({"18": 60, "25": 80, "67": 20, "refused": 30, "forty": 1}).said
    "83% of the rows are numbers; others: 'refused' 30, and rarer texts in 1 row. If they are no \
answers: --missing refused"
    """
    others = {text: n for text, n in counts.items() if not math.isfinite(number_of(text))}
    rows, numbers = sum(counts.values()), sum(counts.values()) - sum(others.values())
    if not others or numbers < MOSTLY * rows or len(counts) - len(others) < 3:
        return None
    named = [(text, n) for text, n in Counter(others).most_common(MOST_NAMED) if n >= COMMON]
    rest = sum(others.values()) - sum(n for _, n in named)
    parts = [f"{text!r} {n:,}" for text, n in named]
    rarer = "rarer texts" if named else "texts too rare to be named"
    parts += [f"and {rarer} in {rest:,} row{'s' * (rest != 1)}"] * bool(rest)
    missing = tuple(text for text, _ in named)
    share = math.floor(100 * numbers / rows)
    advice = f". If they are no answers: {options(missing)}" if missing else ""
    return Hint(f"{share}% of the rows are numbers; others: {', '.join(parts)}{advice}", missing)


def unread_numbers(counts: Mapping[str, int]) -> str:
    """Say why a column of dates or of grouped digits is left out; empty for any other column.

    >>> unread_numbers({"1,234.56": 3, "12.00": 1})
    'numbers with marks between thousands, as 1,234.56: write them as 1234.56'
    >>> unread_numbers({"2026-11-19": 3, "2026-11-20": 1})
    'dates: ask for a number instead, as a year or an age, or for few labels, as months'
    """
    rows = sum(counts.values())
    grouped = sum(n for text, n in counts.items() if GROUPED.fullmatch(text))
    plain = sum(n for text, n in counts.items() if math.isfinite(number_of(text)))
    if grouped and grouped + plain >= NEARLY * rows:
        return "numbers with marks between thousands, as 1,234.56: write them as 1234.56"
    if sum(n for text, n in counts.items() if DATE.fullmatch(text)) >= NEARLY * rows:
        return "dates: ask for a number instead, as a year or an age, or for few labels, as months"
    return ""


def lone_extremes(counts: Mapping[str, int]) -> Hint:
    """Say which numbers are far from all others, or look as if they stood for no answer.

    >>> lone_extremes({str(age): 5 for age in range(18, 90)} | {"-99": 40}).said
    '-99 in 40 rows is far from the other numbers. If it stands for no answer: --missing=-99'
    """
    values = sorted({number_of(text) for text in counts})
    odd = _odd(values)
    if not odd:
        return Hint()
    rows = dict.fromkeys(odd, 0)
    for text, n in counts.items():
        if (value := number_of(text)) in rows:
            rows[value] += n
    common = [value for value in odd if rows[value] >= COMMON]
    if not common:
        return Hint("a number that few rows have is far from the others: see that it is right")
    named = [next(text for text in counts if number_of(text) == value) for value in common]
    said = ", ".join(f"{t} in {rows[v]:,} rows" for t, v in zip(named, common, strict=True))
    one = len(common) == 1
    verb, stands = ("is", "it stands") if one else ("are", "they stand")
    where = f"{verb} far from the other numbers. If {stands} for no answer"
    return Hint(f"{said} {where}: {options(named)}", tuple(named))


def _odd(values: Sequence[float]) -> list[float]:
    """Return codes below 0 where all others are not, and an end that is further than all else."""
    codes = [value for value in values if value in CODES]
    others = [value for value in values if value not in CODES]
    if len(others) < FEW:
        return []
    odd = codes if others[0] >= 0 else []
    left = others if odd else list(values)
    if left[1] - left[0] > left[-1] - left[1]:
        odd = [*odd, left[0]]
    if left[-1] - left[-2] > left[-2] - left[0]:
        odd = [*odd, left[-1]]
    return odd


def options(texts: Collection[str]) -> str:
    """Return texts as options of the command.

    >>> options(["?", "-99"])
    "--missing '?' --missing=-99"
    """
    return " ".join(
        f"--missing{'=' if text.startswith('-') else ' '}{shlex.quote(text)}" for text in texts
    )
