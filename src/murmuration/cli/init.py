"""`murmur init`: write a commented campaign file, by asking or from a data file's columns.

What becomes of a column is guessed from its values, and said: a number, labels, or nothing.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from murmuration.campaign.answers import CODE, EXACT, IGNORE, Reading, number_of, tidy
from murmuration.campaign.question import MOST_LABELS as MOST_ITEMS
from murmuration.campaign.review import shares_of
from murmuration.campaign.survey import MOST_ATTRIBUTES
from murmuration.cli.column_hints import (
    lone_extremes,
    options,
    texts_among_numbers,
    unread_numbers,
)
from murmuration.cli.options import ColumnNames, Decimal, Delimiter, Encoding, Force, Header
from murmuration.cli.output import console, errors, remark, say
from murmuration.cli.tables import MARKERS, Form, open_table, texts
from murmuration.definition import load as campaign_file
from murmuration.definition.schema import NAME
from murmuration.definition.write import Draft, shown_name, written
from murmuration.errors import MurmurationError, ParameterError
from murmuration.files import ANYBODY, write_file
from murmuration.mechanisms.base import MAX_EPSILON, MIN_EPSILON

MOST_LABELS = 50
"""Columns of more different texts than that are left out, unless it is said."""
FEW_LABELS = 10
FEW_ROWS = 20
ROWS = 100_000
"""Rows of a data file that are looked at."""
ID = re.compile(r"(?i)(?:.*[ _-])?(?:id|uuid|guid|index|rownum|row)|unnamed: 0")
"""What a column is called that numbers people."""


NO_INPUT = (
    "murmur: there is no answer, and nothing was written. Answers are read from the terminal; "
    "murmur init --data FILE --yes needs none."
)


@dataclass(frozen=True)
class Taste:
    """What the command line says about columns.

    markers: what stands for no value; found, if there are none
    most_labels: the most labels that a category has
    case: "ignore" to make one label of those that differ in case only
    """

    markers: tuple[str, ...] = ()
    most_labels: int = MOST_LABELS
    case: str = EXACT


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("campaign.toml"),
    data: Annotated[
        Path | None, typer.Option(help="A CSV or Parquet file: its columns become attributes.")
    ] = None,
    missing: Annotated[
        list[str] | None,
        typer.Option(
            help="What stands for no value, as ?, instead of what is obvious; may be repeated."
        ),
    ] = None,
    max_labels: Annotated[
        int, typer.Option(min=2, max=MOST_ITEMS, help="The most labels that a column may have.")
    ] = MOST_LABELS,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", help="Labels that differ in case only are one.")
    ] = False,
    delimiter: Delimiter = "",
    encoding: Encoding = "",
    header: Header = None,
    columns: ColumnNames = "",
    decimal: Decimal = "",
    yes: Annotated[bool, typer.Option("--yes", help="Take defaults; needs --data.")] = False,
    force: Force = False,
) -> None:
    """Write a campaign file with a comment on every key. It passes `murmur check` as it is."""
    if file.exists() and not force:
        raise ParameterError(f"{file} exists already; --force overwrites it")
    if yes and data is None:
        raise ParameterError("--yes needs --data, the file with the columns to ask for")
    asked, rows = list[Draft](), 100_000
    if data is not None:
        taste = Taste(tuple(missing or ()), max_labels, IGNORE if ignore_case else EXACT)
        form = Form.said(delimiter, encoding, header, columns, decimal)
        asked, rows = drafts(data, taste, form)
        _show(asked)
    name = _slug(data.stem if data is not None else file.stem)
    purpose, epsilon, people = f"What {name} is like, for a report on it", 1.0, rows
    if not yes:
        name = _asked("name (small letters, digits, -)", name, _checked_name)
        purpose = _asked("purpose, in plain words for the people who are asked", purpose, _text)
        epsilon = _asked("epsilon, what one report may cost (1 is usual)", "1", _epsilon)
        people = _asked("how many people are expected", str(rows), _people)
        asked = asked or list(_asked_attributes())
    if all(draft.skipped for draft in asked):
        raise ParameterError("there is nothing to ask: name at least one attribute")
    text = written(name, purpose, epsilon, people, asked)
    campaign = campaign_file.parse(text, source=str(file))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text, ANYBODY)
    said = _said(delimiter, encoding, header, columns, decimal)
    say(
        f"{file}: {len(campaign.questions)} attributes, a report costs {campaign.epsilon:g}. "
        f"Read it, then: murmur check {file}" + (f" --data {data}{said}" if data else ""),
        markup=False,
    )
    _warn_of_few(campaign)


def _warn_of_few(campaign: Any) -> None:
    """Say which attributes will be hidden: too few people are asked for them."""
    terms, questions = campaign.terms, campaign.questions
    answers = [share * terms.people for share in shares_of(campaign)]
    few = [draft.name for draft, n in zip(questions, answers, strict=True) if n < terms.cohort]
    if not few:
        return
    least, n = min(answers), len(questions)
    enough = math.ceil(min(n, terms.cohort / max(least, 1e-9)))
    remark(
        f"Nothing will be shown of {', '.join(few[:FEW_LABELS])}"
        f"{' and others' * (len(few) > FEW_LABELS)}: {terms.people:,} people give about "
        f"{least:,.0f} answers to an attribute, and cohort = {terms.cohort:,} are needed. Ask "
        "fewer attributes, expect more people, write a lower cohort (100 is the least)"
        + (f", or ask each person more of them: sample = {enough}." if 1 < enough <= n else ".")
    )


def _said(delimiter: str, encoding: str, header: bool | None, columns: str, decimal: str) -> str:
    """Return how the file is written as it was told: the next command needs it, too."""
    texts = {
        "delimiter": delimiter,
        "encoding": encoding,
        "columns": columns,
        "decimal": decimal,
    }
    said = "".join(f" --{name} {shlex.quote(text)}" for name, text in texts.items() if text)
    return said + {None: "", True: " --header", False: " --no-header"}[header]


def _show(asked: Sequence[Draft]) -> None:
    """Print what became of each column, and why."""
    table = Table(title="what became of each column")
    for name in ("column", "became", "why"):
        table.add_column(name, overflow="fold")
    for draft in asked:
        shown = shown_name(draft.name)
        table.add_row(escape(shown), draft.became, escape(draft.why))
    console.print(table)
    doubtful = [text for draft in asked for text in draft.doubtful]
    if doubtful:
        usual = sorted({text for draft in asked for text in draft.markers})
        remark(
            "Together, with what stands for no answer in other columns: "
            f"{options(dict.fromkeys([*usual, *doubtful]))}"
        )
    remark(
        "Ranges and labels must be public knowledge: one that was read off the data can show what "
        "a single person's value is. Replace them by what everybody knows."
    )


# --- asking --------------------------------------------------------------------------------------


def _asked(question: str, default: str | None, check: Any) -> Any:
    """Ask until the answer is one."""
    while True:
        try:
            answer = typer.prompt(question, default=default, show_default=bool(default))
        except typer.Abort:  # the end of the input, or Ctrl-C: nothing was written
            errors.print(f"\n{NO_INPUT}", markup=False, highlight=False, soft_wrap=True)
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


def drafts(path: Path, taste: Taste, form: Form) -> tuple[list[Draft], int]:
    """Return an attribute for each column of a CSV or Parquet file, and how many rows it has."""
    table = open_table(path, form)
    if len(table.names) > MOST_ATTRIBUTES:
        raise ParameterError(
            f"{path} has {len(table.names):,} columns; {MOST_ATTRIBUTES:,} at most"
        )
    columns = table.columns(most=ROWS)
    if not any(columns.values()):
        raise ParameterError(f"{path} has no rows")
    rows = table.rows()
    looked = f"; the first {ROWS:,} were looked at" if rows > ROWS else ""
    remark(f"{path}: {table.form}; {rows:,} rows{looked}")
    return [_draft(name, texts(values), taste) for name, values in columns.items()], rows


def _draft(name: str, values: Sequence[str], taste: Taste) -> Draft:
    """Return what a column looks like: a number, a category, or nothing that can be asked."""
    if not name.strip() or not name.isprintable():
        return Draft(name, skipped="it has no usable name")
    all_texts = list(map(tidy, values))
    known = set(map(tidy, taste.markers)) or set(MARKERS)
    counts = Counter(text for text in all_texts if text)
    markers = tuple(sorted(known & set(counts)))
    present = [text for text in all_texts if text and text not in markers]
    gone = Draft(name, missing=len(values) - len(present), markers=markers)
    if not present:
        return replace(gone, skipped="it is empty")
    counts = Counter(present)
    numbers = [number_of(text) for text in counts]
    if all(map(math.isfinite, numbers)) and not _is_code(present):
        hint = lone_extremes(counts)
        draft = _number_draft(gone, present, numbers)
        odd = bool(hint.said) and draft.low is not None
        return replace(draft, hint=hint.said, doubtful=hint.missing) if odd else draft
    return _text_draft(gone, counts, taste)


def _text_draft(draft: Draft, counts: Counter[str], taste: Taste) -> Draft:
    """Return what a column is of which not all are numbers: labels, or numbers to be put right."""
    draft_of_labels = _category_draft(draft, counts, taste)
    if reason := unread_numbers(counts):
        return replace(draft_of_labels, skipped=reason)
    hint = None if _is_code(list(counts)) else texts_among_numbers(counts)
    if hint is None:
        return draft_of_labels
    numbers = {text: n for text, n in counts.items() if math.isfinite(number_of(text))}
    odd = lone_extremes(numbers)
    if draft_of_labels.skipped:
        draft_of_labels = replace(draft, skipped="it has texts among its numbers")
    said = "; ".join(filter(None, (hint.said, odd.said)))
    return replace(draft_of_labels, hint=said, doubtful=(*hint.missing, *odd.missing))


def _number_draft(draft: Draft, present: Sequence[str], different: Sequence[float]) -> Draft:
    if _is_running(draft.name, present, different):
        return replace(
            draft, skipped="it numbers the rows: an id is of no use, and tells who it is"
        )
    if set(different) <= {0, 1}:
        return replace(draft, labels=("0", "1"), note="labels")
    low, high = nice_range(min(different), max(different))
    return replace(draft, low=low, high=high, note="range")


def _is_running(name: str, present: Sequence[str], different: Sequence[float]) -> bool:
    """Whether whole numbers are a running id: all different, without gaps or by their name."""
    whole = all(number.is_integer() for number in different)
    if len(present) < FEW_ROWS or len(different) < len(present) or not whole:
        return False
    return max(different) - min(different) < 1.1 * len(present) or bool(ID.fullmatch(name))


def _category_draft(draft: Draft, counts: Counter[str], taste: Taste) -> Draft:
    rows, key = counts.total(), Reading(case=IGNORE).key
    if len(counts) < 2:
        return replace(draft, skipped="all rows are alike")
    if len(counts) > max(FEW_LABELS, rows // 2):
        return replace(draft, skipped="nearly all rows differ, as names or numbers of people do")
    if not "".join(counts).isprintable():
        return replace(draft, skipped="its texts have several lines or strange characters")
    spellings = {key(text): text for text, _ in reversed(counts.most_common())}
    alike = len(counts) - len(spellings)
    merged = taste.case == IGNORE and alike > 0
    labels = tuple(sorted(spellings.values() if merged else counts))
    labelled = replace(draft, labels=labels, note="labels", alike=alike)
    labelled = replace(labelled, case=IGNORE) if merged else labelled
    if len(labels) < 2:
        return replace(draft, skipped="all rows are alike")
    if len(labels) > taste.most_labels:
        reason = f"{len(labels):,} different texts; --max-labels {len(labels)} keeps them"
        return replace(labelled, skipped=reason)
    return labelled


def _is_code(texts: Sequence[str]) -> bool:
    """Whether these are rather names than amounts, as 01234 is."""
    return any(CODE.match(text) for text in texts)


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
