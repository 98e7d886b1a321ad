"""The tables of a campaign file, key by key: their types, and what each may be.

Every mistake says which key it is about; `load` knows the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from murmuration.campaign.answers import EXACT, MOST_TEXT, Reading
from murmuration.campaign.origins import checked_origin, checked_origins
from murmuration.campaign.periods import GRACE
from murmuration.campaign.question import (
    ANSWERED,
    CLAMP,
    NO_ANSWER,
    REFUSE,
    SPREAD,
    Question,
)
from murmuration.campaign.survey import MOST_ATTRIBUTES
from murmuration.campaign.terms import Terms, Told, mistakes
from murmuration.errors import MurmurationError
from murmuration.mechanisms.base import checked_epsilon

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
GIVEN = ("epsilon", "k", "edges", "semantics")
"""Parameters of mechanisms that have a key of their own in the file."""
USUAL_BINS = 64
BINS = "bins are for a distribution, or 2 to 64 of a number in tables, without edges"
VALUES = ("repeat", "values")
ROUNDS = ("repeat", "rounds")
PERIOD_GRACE = ("repeat", "grace")
PERMANENT, SPELLS = "permanent", "spells"
LAWS = (PERMANENT, SPELLS)


class Mistake(Exception):  # noqa: N818 - not yet an error: its line is to be found
    """What is wrong, and where in the file: the keys and numbers that lead there."""

    def __init__(self, message: str, *path: str | int, refused: bool = False) -> None:
        super().__init__(message)
        self.path, self.refused = path, refused


class Mistakes(Exception):  # noqa: N818 - not yet an error: their lines are to be found
    """All that is wrong."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__()
        self.found = tuple(mistakes)


_Kind = TypeVar("_Kind")


def gathered(steps: Iterable[Callable[[], _Kind]]) -> list[_Kind]:
    """Return what all steps come to; if some go wrong, say what is wrong with all of them."""
    results, wrong = [], list[Mistake]()
    for step in steps:
        try:
            results.append(step())
        except Mistake as mistake:
            wrong.append(mistake)
        except Mistakes as several:
            wrong += several.found
    if wrong:
        raise Mistakes(wrong)
    return results


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class FileTable(Told, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file: its terms, and what each kind of campaign has beside them."""

    name: str

    counted: ClassVar[frozenset[str]] = frozenset()
    """Terms that decide what is asked."""
    ordered: ClassVar[tuple[str, ...]] = ()
    """Keys whose tables mean something by their order."""

    @property
    def terms(self) -> Terms:
        """What people are told, checked."""
        return Terms.of(self)


class AttributeTable(Table, frozen=True):
    """One [[attributes]] of the file."""

    name: str
    kind: Literal["number", "category", "distribution", "graded"] = "number"
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: list[str] = []
    outside: str | None = None
    missing: bool = False
    markers: list[str] = []
    case: Literal["exact", "ignore"] = "exact"
    mechanism: str = "auto"
    parameters: dict[str, Any] = {}
    epsilon: float | None = None
    bins: int = USUAL_BINS
    edges: list[float] = []
    budgets: list[float] = []
    semantics: str | list[list[float]] = ""


class TogetherTable(Table, frozen=True):
    """One [[tables]] of the file: attributes that are asked together."""

    of: list[str]
    """Two attributes; numbers are cut into the bins that they state."""
    share: float | None = None
    """How many of the people are asked it, if not as many as the planner says."""


class RepeatTable(Table, frozen=True):
    """[repeat]: the same question may be asked again; answers are permanent ones with noise."""

    permanent: float
    rounds: int
    """The most reports that one device sends."""
    values: int = 1
    """How many different values a device may have to answer for in that time."""
    every: Literal["day", "week", "month"] | None = None
    """What a report is about: a device sends one for each, and figures are by period."""
    grace: int = GRACE
    """For how many periods after its end reports of one are taken."""
    law: Literal["permanent", "spells"] = "permanent"
    """What is kept: an answer for each value, or one for each of some spells of time."""
    changes: int | None = None
    """How many changes of a value are allowed for: there is one spell more. With spells only."""
    first: date | None = None
    """A day of the first period. With spells only."""


class CheckFitTable(Table, frozen=True):
    """[check_fit]: a share of the devices says whether answers fitted, instead of answers."""

    error: float
    """The standard error of the share that did not fit, at most; 0.02 is two percentage points."""


class CampaignTable(FileTable, frozen=True, kw_only=True):
    """A file that asks for figures."""

    attributes: list[AttributeTable]
    epsilon: float | None = None
    lifetime: float | None = None
    strategy: str = "auto"
    sample: int = 1
    levels: dict[str, float | str] | None = None
    accept_loss: str | None = None
    repeat: RepeatTable | None = None
    check_fit: CheckFitTable | None = None
    tables: tuple[TogetherTable, ...] = ()

    ordered: ClassVar[tuple[str, ...]] = ("levels",)

    @property
    def terms(self) -> Terms:
        """What people are told; for how long periods stay open stands under [repeat]."""
        return Terms.of(self, GRACE if self.repeat is None else self.repeat.grace)


# --- single keys -------------------------------------------------------------------------------


def check_table(table: CampaignTable) -> None:
    """Refuse values that no campaign can have, each by its key."""
    if wrong := list(_table_mistakes(table)):
        raise Mistakes(wrong)


def _table_mistakes(table: CampaignTable) -> Iterator[Mistake]:
    yield from terms_mistakes(table)
    lifetime = table.lifetime is None or 0 < table.lifetime < math.inf
    d = len(table.attributes)
    rules = [
        ("attributes", d > 0, "there is at least one attribute"),
        ("attributes", d <= MOST_ATTRIBUTES, f"there are {MOST_ATTRIBUTES:,} attributes at most"),
        ("lifetime", lifetime, "lifetime, what all reports may cost together, is above 0"),
        ("sample", 1 <= table.sample <= max(1, d), f"sample is 1 to the number of attributes, {d}"),
    ]
    for key, fine, message in rules:
        if not fine:
            yield Mistake(message, key)
    if table.epsilon is not None:
        yield from _budget_mistakes(table.epsilon, "epsilon")
    if table.check_fit is not None and not 0 < table.check_fit.error < 0.5:
        message = "error, the standard error of a share, is above 0 and below 0.5, as 0.02"
        yield Mistake(message, "check_fit", "error")
    if table.repeat is not None:
        yield from _budget_mistakes(table.repeat.permanent, "repeat", "permanent")
        if not 2 <= table.repeat.rounds <= 1 << 20:
            yield Mistake("rounds, how often one device reports at most, is 2 or more", *ROUNDS)
        if not 1 <= table.repeat.values <= 1 << 20:
            yield Mistake("values, how many different ones are paid for, is 1 or more", *VALUES)
        if not 0 <= table.repeat.grace <= 1 << 20:
            yield Mistake("grace, for how many periods one stays open, is 0 or more", *PERIOD_GRACE)
        if table.repeat.every is None and table.repeat.grace != GRACE:
            yield Mistake("grace is for periods: say every, too", *PERIOD_GRACE)
        yield from _spell_mistakes(table.repeat)
        if table.repeat.law == SPELLS and table.levels is not None:
            message = "spells take no levels: at each level a spell would begin anew"
            yield Mistake(message, "levels")


def _spell_mistakes(repeat: RepeatTable) -> Iterator[Mistake]:
    """Say what spells need, and refuse keys that do nothing without them, or with them."""
    said = [key for key in ("changes", "first") if getattr(repeat, key) is not None]
    if repeat.law != SPELLS:
        for key in said:
            yield Mistake(f'{key} is about spells: say law = "spells", too', "repeat", key)
        return
    if repeat.every is None:
        message = 'spells are of so many periods: say every = "day", "week" or "month", too'
        yield Mistake(message, "repeat", "law")
    if repeat.values != 1:
        message = "with spells each has one permanent answer, whatever the values: leave it out"
        yield Mistake(f"values: {message}", *VALUES)
    if repeat.changes is None or not 1 <= repeat.changes < max(2, repeat.rounds):
        message = f"1 to {repeat.rounds - 1} here: one spell more, and each has a period"
        yield Mistake(f"changes, how many are allowed for, is {message}", "repeat", "changes")
    if repeat.first is None or repeat.first.year < 1970:
        message = "first, a day of the first period, is a date such as 2026-11-16"
        yield Mistake(message, "repeat", "first")


def terms_mistakes(table: FileTable) -> Iterator[Mistake]:
    """Say what is wrong with name and terms, each by its key."""
    if not NAME.fullmatch(table.name):
        yield Mistake("a name has small letters, digits and - only", "name")
    if not table.purpose.strip():
        yield Mistake("say in plain words what the data is for", "purpose")
    yield from (Mistake(message, key) for key, message in mistakes(table))
    yield from _origin_mistakes(table.origins)


def _origin_mistakes(origins: Sequence[str]) -> Iterator[Mistake]:
    """Say what is wrong with each origin; if nothing is, with all of them together."""
    wrong = False
    for place, origin in enumerate(origins):
        try:
            checked_origin(origin)
        except MurmurationError as problem:
            wrong = True
            yield Mistake(str(problem), "origins", place)
    if not wrong:
        try:
            checked_origins(origins)
        except MurmurationError as problem:
            yield Mistake(str(problem), "origins")


def budget_of(epsilon: float, *path: str | int) -> float:
    """Return an epsilon of the file, or say at its key what is wrong with it."""
    try:
        return checked_epsilon(epsilon)
    except MurmurationError as problem:
        raise Mistake(str(problem), *path) from None


def _budget_mistakes(epsilon: float, *path: str | int) -> Iterator[Mistake]:
    try:
        budget_of(epsilon, *path)
    except Mistake as mistake:
        yield mistake


def question_of(
    place: int, table: AttributeTable, path: tuple[str | int, ...] | None = None
) -> Question:
    """Return the question of an attribute, or say which of its keys makes it impossible.

    `path` is where it stands, if not at that place among the attributes.
    """
    where = ("attributes", place) if path is None else path
    if wrong := list(_attribute_mistakes(where, table)):
        raise Mistakes(wrong)
    try:
        return Question(
            name=table.name,
            kind=table.kind,
            low=table.low,
            high=table.high,
            unit=table.unit,
            labels=tuple(table.labels),
            outside=table.outside or "",
            bins=table.bins if table.kind == "distribution" else USUAL_BINS,
            missing=table.missing,
            case=table.case,
            markers=tuple(table.markers),
        )
    except MurmurationError as problem:
        raise Mistake(str(problem), *where, _suspect(table)) from None


def _suspect(table: AttributeTable) -> str:
    """Return the key that makes a question impossible."""
    if table.kind == "category":
        different = len(set(table.labels)) == len(table.labels) >= 2 and "" not in table.labels
        taken = table.missing and not {NO_ANSWER, ANSWERED}.isdisjoint(table.labels)
        wrong = ["labels"] * (not different or taken) + ["low"] * (table.low is not None)
        wrong += ["high"] * (table.high is not None)
    else:
        low, high = table.low, table.high
        fits = low is not None and high is not None and low < high
        wrong = ["low"] * (not fits) + ["labels"] * bool(table.labels)
        wrong = ["high"] if low is not None and high is None else wrong
    if not wrong and table.markers:
        wrong = ["markers"]
    left_out = NO_ANSWER if table.missing else REFUSE
    known = table.outside in (None, CLAMP, SPREAD, left_out, *table.labels)
    fallback = "bins" if known and not wrong else "outside"
    return (wrong or [fallback])[0]


def _attribute_mistakes(where: tuple[str | int, ...], table: AttributeTable) -> Iterator[Mistake]:
    """Refuse keys that would do nothing: anyone who wrote them expects something."""
    if long := list(_long_texts(where, table)):
        yield from long
        return
    graded, named_one = table.kind == "graded", table.mechanism != "auto"
    category = table.kind == "category"
    words = f'a {table.kind} has a range, not labels: labels need kind = "category"'
    alike = "two labels are one answer: blanks, and the case if it is ignored, tell none apart"
    several = graded or category
    pairs = "for kind = 'graded', or a category with budgets"
    rules = [
        ("name", table.name.strip(), "an attribute has a name"),
        ("outside", table.outside != "", "outside is empty: leave it out"),
        ("name", table.name.isprintable(), "a name is one line of plain text"),
        ("labels", "".join(table.labels).isprintable(), "a label is one line of plain text"),
        ("labels", category or not table.labels, words),
        ("labels", not category or not _alike(table), alike),
        ("case", category or table.case == EXACT, 'case is for kind = "category" only'),
        ("markers", table.missing or not table.markers, "markers need missing = true"),
        ("markers", "".join(table.markers).isprintable(), "a marker is one line of plain text"),
        ("edges", not category or not table.edges, "labels are not cut: edges are for numbers"),
        ("budgets", several or not table.budgets, f"budgets are {pairs}"),
        (
            "semantics",
            graded or table.budgets or table.semantics in ("", "max"),
            f"semantics is {pairs}",
        ),
        (
            "epsilon",
            not (graded or table.budgets) or table.epsilon is None,
            "it has budgets instead",
        ),
        ("bins", _fine_bins(table), BINS),
        ("parameters", named_one or not table.parameters, "parameters need a mechanism by name"),
    ]
    for key, fine, message in rules:
        if not fine:
            yield Mistake(f"{_shown(table.name)}{message}", *where, key)
    if table.epsilon is not None:
        yield from _budget_mistakes(table.epsilon, *where, "epsilon")
    for key in table.parameters:
        if key in GIVEN:
            message = f"{table.name}: {key} is not given as a parameter, but by keys of the file"
            yield Mistake(message, *where, "parameters", key)


def _fine_bins(table: AttributeTable) -> bool:
    """Whether its bins are those of a distribution, or a number's for its tables."""
    number = table.kind == "number" and 2 <= table.bins <= USUAL_BINS and not table.edges
    return table.kind == "distribution" or number or table.bins == USUAL_BINS


def _long_texts(where: tuple[str | int, ...], table: AttributeTable) -> Iterator[Mistake]:
    """Refuse what no device reads, before anything is made of it."""
    singles = [("name", table.name), ("unit", table.unit), ("outside", table.outside or "")]
    listed = [("labels", table.labels), ("markers", table.markers)]
    paths: list[tuple[str, tuple[str | int, ...]]] = [(text, (key,)) for key, text in singles]
    paths += [(text, (key, i)) for key, texts in listed for i, text in enumerate(texts)]
    for text, path in paths:
        if len(text) > MOST_TEXT:
            message = f"it has {len(text):,} characters, and devices read {MOST_TEXT} at most"
            yield Mistake(f"{path[0]}: {message}", *where, *path)


def _alike(table: AttributeTable) -> bool:
    """Whether two labels that are not the same text are the same answer."""
    keys = set(map(Reading(case=table.case).key, table.labels))
    return len(keys) < len(set(table.labels))


def _shown(name: str) -> str:
    return f"{name}: " if name.strip() and name.isprintable() else ""
