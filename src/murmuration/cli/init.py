"""`murmur init`: write a commented campaign file, by asking or from a data file's columns."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from murmuration.campaign.file import load as campaign_file
from murmuration.campaign.file.schema import NAME
from murmuration.campaign.model import MOST_ATTRIBUTES
from murmuration.cli.options import Force
from murmuration.cli.output import console, say
from murmuration.cli.tables import open_table, texts
from murmuration.errors import MurmurationError, ParameterError
from murmuration.mechanisms.base import MAX_EPSILON, MIN_EPSILON

MOST_LABELS = 50
"""Columns of more different texts than that are no categories."""
FEW_LABELS = 10
ROWS = 100_000
"""Rows of a data file that are looked at."""


@dataclass(frozen=True)
class Draft:
    """One attribute to be written; a skipped one is written as a comment."""

    name: str
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: tuple[str, ...] = ()
    note: str = ""
    skipped: str = ""


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("campaign.toml"),
    data: Annotated[
        Path | None, typer.Option(help="A CSV or Parquet file: its columns become attributes.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Take defaults; needs --data.")] = False,
    force: Force = False,
) -> None:
    """Write a campaign file with a comment on every key. It passes `murmur check` as it is."""
    if file.exists() and not force:
        raise ParameterError(f"{file} exists already; --force overwrites it")
    if yes and data is None:
        raise ParameterError("--yes asks nothing, so it needs --data with the columns to ask for")
    asked = drafts(data) if data is not None else []
    name = _slug(data.stem if data is not None else file.stem)
    purpose, epsilon, people = f"What {name} is like, for a report on it", 1.0, 100_000
    if not yes:
        name = _asked("name (small letters, digits, -)", name, _checked_name)
        purpose = _asked("purpose, in plain words for the people who are asked", purpose, _text)
        epsilon = _asked("epsilon, what one report may cost (1 is usual)", "1", _epsilon)
        people = _asked("how many people are expected", "100000", _people)
        asked = asked or list(_asked_attributes())
    if all(one.skipped for one in asked):
        raise ParameterError("there is nothing to ask: name at least one attribute")
    text = written(name, purpose, epsilon, people, asked)
    campaign = campaign_file.parse(text, str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    say(
        f"{file}: {len(campaign.questions)} attributes, a report costs {campaign.epsilon:g}. "
        f"Read it, then: murmur check {file}",
        markup=False,
    )


# --- asking --------------------------------------------------------------------------------------


def _asked(question: str, default: str | None, check: Any) -> Any:
    """Ask until the answer is one."""
    while True:
        try:
            answer = typer.prompt(question, default=default, show_default=bool(default))
        except typer.Abort:  # the end of the input, or Ctrl-C: nothing was written
            raise typer.Exit(130) from None
        try:
            return check(str(answer).strip())
        except (MurmurationError, ValueError) as problem:
            console.print(f"  {problem}", markup=False, highlight=False)


def _checked_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ParameterError("a name has small letters, digits and - only")
    return text


def _text(text: str) -> str:
    if not text:
        raise ParameterError("a few words")
    return _line(text)


def _epsilon(text: str) -> float:
    if not MIN_EPSILON <= (number := _number(text)) <= MAX_EPSILON:
        raise ParameterError(f"epsilon is {MIN_EPSILON:g} to {MAX_EPSILON:g}")
    return number


def _people(text: str) -> int:
    number = _number(text.replace(",", "").replace("_", ""))
    if not 1 <= number < 1 << 40:
        raise ParameterError("a whole number, 1 or more")
    return int(number)


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ParameterError("a number") from None
    if not math.isfinite(number):
        raise ParameterError("a finite number")
    return number


def _asked_attributes() -> Iterator[Draft]:
    """Ask for attributes until a name is empty."""
    names: set[str] = set()
    while len(names) < MOST_ATTRIBUTES:
        name = _asked("attribute (empty: no more)", "", _line)
        if not name:
            return
        if name in names:
            console.print("  it is asked already: another name", highlight=False)
            continue
        names.add(name)
        labels = _asked("  labels with commas between (empty: it is a number)", "", _labels)
        if labels:
            yield Draft(name, labels=labels)
            continue
        low = _asked("  lowest value", "0", _number)
        high = _asked("  highest value", "100", partial(_above, low))
        unit = _asked("  unit (may be empty)", "", _line)
        yield Draft(name, low, high, unit)


def _labels(text: str) -> tuple[str, ...]:
    labels = tuple(label.strip() for label in text.split(",")) if text else ()
    different = len(set(labels)) == len(labels) and "" not in labels
    if labels and (len(labels) < 2 or not different or not text.isprintable()):
        raise ParameterError("two labels or more, all different")
    return labels


def _above(low: float, text: str) -> float:
    if not (high := _number(text)) > low:
        raise ParameterError(f"above {low:g}")
    return high


def _line(text: str) -> str:
    if not text.isprintable():
        raise ParameterError("one line of text")
    return text


# --- a data file ---------------------------------------------------------------------------------


def drafts(path: Path) -> list[Draft]:
    """Return an attribute for each column of a CSV or Parquet file."""
    table = open_table(path)
    if len(table.names) > MOST_ATTRIBUTES:
        raise ParameterError(
            f"{path} has {len(table.names):,} columns; {MOST_ATTRIBUTES:,} at most"
        )
    columns = table.columns(most=ROWS)
    if not any(columns.values()):
        raise ParameterError(f"{path} has no rows")
    return [_draft(name, texts(values)) for name, values in columns.items()]


def _draft(name: str, values: Sequence[str]) -> Draft:
    """Return what a column looks like: a number, a category, or nothing that can be asked."""
    present = [value.strip() for value in values if value.strip()]
    if not name.strip() or not name.isprintable():
        return Draft(name, skipped="it has no usable name")
    if not present:
        return Draft(name, skipped="it is empty")
    different = sorted(set(present))
    numbers = _numbers(present)
    if numbers is not None and not _is_code(different):
        low, high = nice_range(min(numbers), max(numbers))
        return Draft(name, low, high, note="range")
    if len(different) < 2:
        return Draft(name, skipped="all rows are alike")
    if len(different) > max(FEW_LABELS, len(present) // 2):
        return Draft(name, skipped="nearly all rows differ, as names or numbers of people do")
    if len(different) > MOST_LABELS or not "".join(different).isprintable():
        return Draft(name, skipped=f"{len(different):,} different texts are no category")
    return Draft(name, labels=tuple(different), note="labels")


def _numbers(texts: Sequence[str]) -> list[float] | None:
    try:
        numbers = [float(text) for text in texts]
    except ValueError:
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def _is_code(different: Sequence[str]) -> bool:
    """Whether these are rather names than amounts, as 0 and 1 are, and 01234."""
    return set(different) <= {"0", "1"} or any(re.match(r"0\d", text) for text in different)


def nice_range(low: float, high: float) -> tuple[float, float]:
    """Return a range outside of the given one whose ends are round.

    >>> nice_range(18.3, 96), nice_range(0, 123_456), nice_range(5, 5)
    ((10.0, 100.0), (0.0, 150000.0), (4.0, 6.0))
    """
    if low == high:
        low, high = low - 1, high + 1
    exponent = math.floor(math.log10(high - low))
    step = 10.0**exponent
    step = step / 2 if (high - low) / step > 1 and exponent > 1 else step
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _slug(text: str) -> str:
    """Return a name that a campaign may have."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:63] or "campaign"


# --- writing -------------------------------------------------------------------------------------


def written(name: str, purpose: str, epsilon: float, people: int, asked: Sequence[Draft]) -> str:
    """Return the text of a campaign file."""
    head = _HEAD.format(
        name=_quoted(name), purpose=_quoted(purpose), epsilon=f"{epsilon:g}", people=people
    )
    first = next(one for one in asked if not one.skipped)
    parts = [head, *(_attribute(one, one is first) for one in asked), _TAIL]
    return "\n".join(parts)


def _quoted(text: str) -> str:
    """Return text as TOML has it; for one line that is as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def _plain(number: float | None) -> str:
    whole = number is not None and number.is_integer() and abs(number) < 1e15
    return str(int(number)) if whole and number is not None else repr(number)


def _attribute(one: Draft, explained: bool) -> str:
    if one.skipped:
        shown = one.name if one.name.isprintable() else "?"
        return f"# Column {shown} was left out: {one.skipped}.\n"
    lines = ["[[attributes]]", f"name = {_quoted(one.name)}"]
    if one.labels:
        if one.note:
            lines.append(
                "# Found in the data; the list must be public knowledge. Add what is missing."
            )
        labels = ", ".join(map(_quoted, one.labels))
        lines += ['kind = "category"', f"labels = [{labels}]"]
        lines.append('outside = "spread"  # other answers count as one by chance; or a label')
    else:
        if one.note:
            lines += [
                "# The range must come from public knowledge, NOT from the data: it could",
                "# show what one person's value is. This one was rounded outwards from the data:",
                "# replace it.",
            ]
        lines += [f"low = {_plain(one.low)}", f"high = {_plain(one.high)}"]
        lines.append(f"unit = {_quoted(one.unit)}")
        lines.append('outside = "clamp"  # values beyond count as the nearer end')
    return "\n".join([*lines, *(_MORE if explained else [])]) + "\n"


_HEAD = """\
# A campaign: what is asked, and what it may cost. `murmur check` says what it means.

name = {name}  # small letters, digits and -
purpose = {purpose}  # plain words: people read this before they agree

# What one report may reveal, at most. 1 is usual; less is more private and less exact.
# Left out, each attribute needs an epsilon of its own.
epsilon = {epsilon}

people = {people}  # how many are expected; only plans and predictions depend on it

# Nothing is shown about fewer people than that (100 is the least).
cohort = 1000

# When reports are accepted, with the time zone. Left out: always.
# opens = 2027-01-01T00:00:00Z
# closes = 2027-02-01T00:00:00Z

# Several attributes: "auto" asks each person one of them, with all of epsilon ("sample");
# "split" and "split-optimal" ask everyone everything and share epsilon out; "block" (numbers),
# "harmony" and others answer all in one report.
# strategy = "auto"
# sample = 1  # how many attributes each person is asked, for "sample"

# The most that this campaign may ever cost one device. Left out: one report.
# lifetime = 1.0

# Whether the collector keeps randomised reports after counting them.
# keep_reports = true

# Who may send reports: "open" is anyone, "token" anyone who holds a device's token.
# upload = "open"

# Only for a mechanism that breaks its promise: the audit's sentence on what it costs.
# accept_loss = "an infinite loss where 1.0 is promised"
"""
_MORE = [
    "# missing = true  # no answer is one, as well protected: else who has none is silent",
    '# mechanism = "auto"  # the planner\'s choice, or a name: murmur mechanisms',
    "# parameters = {}  # of a mechanism that is named",
    "# epsilon = 0.5  # of this attribute alone",
]
_TAIL = """\
# A number whose whole distribution is wanted, not only its mean:
# [[attributes]]
# name = "screen time"
# kind = "distribution"
# low = 0
# high = 24
# unit = "hours"
# bins = 64

# A number whose ranges need different protection: budgets, one for each range; edges, where they
# meet; semantics, what values in different ranges may cost ("max", "min" or a matrix).
# [[attributes]]
# name = "income"
# kind = "graded"
# low = 0
# high = 125000
# edges = [30000, 100000]
# budgets = [1.0, 0.5, 0.25]
# semantics = "max"

# Levels of privacy that people choose themselves, each a part of epsilon:
# [levels]
# high = "1/3"
# medium = "1/2"
# low = 1

# The same question again and again (categories only): one permanent noisy answer for each value,
# fresh noise on it each time. `permanent` is what all reports about one value cost together.
# [repeat]
# permanent = 2.0
# rounds = 12  # how often one device reports at most
# values = 3  # how many different values one person may report
"""
