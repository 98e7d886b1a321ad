"""`campaign.toml`: what the engineer writes. Every mistake is reported with its line.

The file says what is asked and what it may cost; what is left out is chosen by the planner. The
result is a `Campaign`, whose laws have been audited.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import msgspec

from murmuration import allocate
from murmuration.auto import mechanism as named
from murmuration.campaign import COHORT, LEAST_COHORT, Campaign, Cell, Terms
from murmuration.contract import MAX_EPSILON, Mechanism, checked_epsilon
from murmuration.errors import CampaignError, MurmurationError, ParameterError
from murmuration.graded import GradedMechanism, to_domain
from murmuration.law import WHOLE
from murmuration.levels import Levels
from murmuration.mechanisms import mechanisms
from murmuration.plan import Attribute, choose_frequency, choose_numeric, plan
from murmuration.question import Question
from murmuration.tuples import TupleMechanism

SPLITS = {"split": allocate.equal, "split-optimal": allocate.optimal}
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
MOST_ATTRIBUTES = 1000


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class AttributeTable(_Table, frozen=True):
    """One [[attributes]] of the file."""

    name: str
    kind: Literal["number", "category", "distribution", "graded"] = "number"
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: list[str] = []
    outside: str | None = None
    mechanism: str = "auto"
    parameters: dict[str, Any] = {}
    epsilon: float | None = None
    bins: int = 64
    edges: list[float] = []
    budgets: list[float] = []
    semantics: str | list[list[float]] = "max"


class RepeatTable(_Table, frozen=True):
    """[repeat]: the same question may be asked again; answers are permanent ones with noise."""

    permanent: float
    values: int = 1


class CampaignTable(_Table, frozen=True):
    """The whole file."""

    name: str
    purpose: str
    attributes: list[AttributeTable]
    epsilon: float | None = None
    people: int = 100_000
    opens: datetime | None = None
    closes: datetime | None = None
    cohort: int = COHORT
    lifetime: float | None = None
    strategy: str = "auto"
    sample: int = 1
    levels: dict[str, float | str] | None = None
    keep_reports: bool = True
    upload: Literal["open", "token"] = "open"
    accept_loss: str | None = None
    repeat: RepeatTable | None = None


# --- reading, with lines -----------------------------------------------------------------------


def load(path: Path | str) -> Campaign:
    """Read, check and audit a campaign file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CampaignError(f"{path} is not a text file (UTF-8)") from None
    return parse(text, str(path))


def parse(text: str, source: str = "campaign.toml") -> Campaign:
    """Return the campaign that a file's text describes, or point at the line that is wrong."""
    try:
        table = msgspec.convert(tomllib.loads(text), CampaignTable)
        return resolve(table)
    except tomllib.TOMLDecodeError as problem:
        line = re.search(r"at line (\d+)", str(problem))
        raise CampaignError(str(problem), source, int(line[1]) if line else None) from None
    except msgspec.ValidationError as problem:
        message, _, path = str(problem).partition(" - at ")
        raise CampaignError(
            _plain(message), source, _line_of(text, path.strip("`"), message)
        ) from None
    except _At as found:
        line_number = _line_of(text, found.path, "")
        raise CampaignError(str(found), source, line_number) from None


class _At(Exception):  # noqa: N818 - not an error but a place
    """A mistake, and where in the file: a path such as $.attributes[0].low."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


def _plain(message: str) -> str:
    """Say it in the words of the file."""
    message = message.replace("Object", "The file" if "`$" not in message else "The table")
    return (
        message.replace("`str`", "text")
        .replace("`float`", "a number")
        .replace("`int`", "a whole number")
    )


def _line_of(text: str, path: str, message: str) -> int | None:
    """Find the line of a path: headers say which table, keys are at the start of a line."""
    steps = re.findall(r"[A-Za-z_][\w-]*|\[\d+\]", path.removeprefix("$"))
    unknown = re.search(r"unknown field `([^`]+)`", message)
    if unknown:
        steps.append(unknown[1])
    lines = text.splitlines()
    start = 0
    while steps and start is not None:
        table = re.compile(rf"\s*\[\[?\s*{re.escape(steps[0])}\s*\]\]?")
        headers = [i for i, line in enumerate(lines) if table.match(line)]
        if not headers:
            break
        place = int(steps[1][1:-1]) if len(steps) > 1 and steps[1].startswith("[") else 0
        start = headers[min(place, len(headers) - 1)]
        steps = steps[2:] if len(steps) > 1 and steps[1].startswith("[") else steps[1:]
    key = next((step for step in steps if not step.startswith("[")), None)
    return _key_line(lines, start, key)


def _key_line(lines: Sequence[str], start: int, key: str | None) -> int | None:
    """Return the line of a key in the table that starts there; else the table's own line."""
    for number, line in enumerate(lines[start:], start + 1):
        if key is not None and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[.=]", line):
            return number
        if number > start + 1 and line.lstrip().startswith("["):
            break
    return start + 1


# --- from the file to a campaign -----------------------------------------------------------------


def resolve(table: CampaignTable) -> Campaign:
    """Choose what the file leaves open, build the laws and audit them."""
    _check_table(table)
    questions = tuple(_question(place, one) for place, one in enumerate(table.attributes))
    names = [question.name for question in questions]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise _At(f"$.attributes[{place}].name", f"two attributes are called {name!r}")
    strategy = _strategy(table)
    campaign = _collected(table, questions, strategy)
    try:
        return campaign.admitted()
    except MurmurationError as problem:
        raise _At("$.accept_loss" if table.accept_loss else "$.epsilon", str(problem)) from None


def _check_table(table: CampaignTable) -> None:
    rules = [
        ("name", NAME.fullmatch(table.name), "a name has small letters, digits and - only"),
        ("purpose", table.purpose.strip(), "say in plain words what the data is for"),
        ("cohort", table.cohort >= LEAST_COHORT, f"a cohort is {LEAST_COHORT} people or more"),
        ("people", 1 <= table.people < 1 << 40, "people, how many are expected, is 1 or more"),
        ("attributes", table.attributes, "there is at least one attribute"),
        ("attributes", len(table.attributes) <= MOST_ATTRIBUTES, "there are too many attributes"),
        ("lifetime", table.lifetime is None or table.lifetime > 0, "lifetime is above 0"),
        ("opens", _zoned(table.opens), "say the time zone: 2026-11-16T09:00:00Z"),
        ("closes", _zoned(table.closes), "say the time zone: 2026-11-16T09:00:00Z"),
    ]
    for key, fine, message in rules:
        if not fine:
            raise _At(f"$.{key}", message)
    if table.opens and table.closes and table.opens >= table.closes:
        raise _At("$.closes", "it closes before it opens")


def _zoned(moment: datetime | None) -> bool:
    return moment is None or moment.tzinfo is not None


def _question(place: int, table: AttributeTable) -> Question:
    if not table.name.strip():
        raise _At(f"$.attributes[{place}].name", "an attribute has a name")
    usual = "refuse" if table.kind == "category" else "clamp"
    try:
        return Question(
            name=table.name,
            kind=table.kind,
            low=table.low,
            high=table.high,
            unit=table.unit,
            labels=tuple(table.labels),
            outside=usual if table.outside is None else table.outside,
            bins=table.bins,
        )
    except MurmurationError as problem:
        raise _At(f"$.attributes[{place}]", str(problem)) from None


def _strategy(table: CampaignTable) -> str:
    """Return sample, split, split-optimal, or the name of a mechanism for tuples."""
    own = [one.epsilon is not None for one in table.attributes]
    if table.strategy == "auto":
        return (
            "split" if len(table.attributes) == 1 or (all(own) and not table.epsilon) else "sample"
        )
    kind = mechanisms().get(table.strategy)
    tuples = kind is not None and issubclass(kind, TupleMechanism)
    if table.strategy not in ("sample", *SPLITS) and not tuples:
        names = [name for name, kind in mechanisms().items() if issubclass(kind, TupleMechanism)]
        raise _At(
            "$.strategy",
            f"strategy is auto, sample, split, split-optimal, or one of {', '.join(names)}",
        )
    return table.strategy


def _collected(table: CampaignTable, questions: tuple[Question, ...], strategy: str) -> Campaign:
    together = strategy not in ("sample", *SPLITS)
    total = _total(table, strategy)
    levels = _levels(table)
    budgets = _budgets(table, questions, strategy, total)
    shares = _shares(table, questions, strategy, total)
    try:
        cells = (
            [_tuple_cell(table, questions, strategy, total)]
            if together
            else [
                cell
                for place in range(len(questions))
                for cell in _cells(table, questions, place, budgets[place], shares[place], levels)
            ]
        )
        ends = None if len(set(shares)) == 1 or together else _ends(shares)
        return Campaign(
            name=table.name,
            terms=_terms(table),
            questions=questions,
            cells=tuple(cells),
            epsilon=total,
            strategy="together" if together else strategy.split("-")[0],
            sample=table.sample if strategy == "sample" else 1,
            ends=ends if strategy == "sample" and table.sample == 1 else None,
            levels=levels,
            limit=_limit(table),
            accept_loss=table.accept_loss,
        )
    except ParameterError as problem:
        raise _At("$.strategy", str(problem)) from None


def _terms(table: CampaignTable) -> Terms:
    return Terms(
        purpose=table.purpose.strip(),
        people=table.people,
        opens=table.opens,
        closes=table.closes,
        cohort=table.cohort,
        keep_reports=table.keep_reports,
        upload=table.upload,
    )


def _limit(table: CampaignTable) -> float | None:
    """Return the most this campaign may cost a device: the file's, or that of its values."""
    if table.lifetime is not None or table.repeat is None:
        return table.lifetime
    return table.repeat.permanent * table.repeat.values


def _levels(table: CampaignTable) -> Levels | None:
    if table.levels is None:
        return None
    try:
        return Levels.parse(",".join(f"{name}={factor}" for name, factor in table.levels.items()))
    except MurmurationError as problem:
        raise _At("$.levels", str(problem)) from None


def _total(table: CampaignTable, strategy: str) -> float:
    """Return what one report may cost: epsilon, or what the attributes' own ones come to."""
    own = [one.epsilon or max(one.budgets, default=None) for one in table.attributes]
    if table.epsilon is not None:
        total = table.epsilon
    elif all(own):
        spent = [Fraction(one) for one in own if one]
        needed = sum(spent) if strategy in SPLITS else max(spent)
        total = float(needed)
        total = total if Fraction(total) >= needed else math.nextafter(total, math.inf)
    else:
        raise _At("$.epsilon", "say what a report may cost: epsilon, for all or for each attribute")
    try:
        return checked_epsilon(total)
    except MurmurationError as problem:
        raise _At("$.epsilon", str(problem)) from None


def _budgets(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> list[float]:
    """Return what each attribute may spend; in a split they add up to no more than the total."""
    own = [one.epsilon or max(one.budgets, default=None) for one in table.attributes]
    if strategy in SPLITS:
        return _split(own, questions, strategy, total)
    share = math.nextafter(total / table.sample, 0) if table.sample > 1 else total
    for place, epsilon in enumerate(own):
        if epsilon is not None and epsilon > share:
            path = f"$.attributes[{place}].epsilon"
            raise _At(path, f"one attribute cannot spend {epsilon:g}: a report may cost {total:g}")
    return [share if epsilon is None else epsilon for epsilon in own]


def _split(
    own: Sequence[float | None], questions: Sequence[Question], strategy: str, total: float
) -> list[float]:
    rest = Fraction(total) - sum(Fraction(epsilon) for epsilon in own if epsilon)
    open_ones = [place for place, epsilon in enumerate(own) if epsilon is None]
    if rest < 0 or (open_ones and rest == 0):
        raise _At("$.epsilon", f"the attributes' own epsilons leave {float(rest):g} of {total:g}")
    if strategy == "split-optimal" and any(questions[place].k is None for place in open_ones):
        raise _At("$.strategy", "split-optimal weighs items only: use split with numbers")
    found = list(own)
    if open_ones:
        left = float(rest) if Fraction(float(rest)) <= rest else math.nextafter(float(rest), 0)
        sizes = [questions[place].k or 2 for place in open_ones]
        try:
            parts = SPLITS[strategy](sizes, left) if len(sizes) > 1 else [left]
        except MurmurationError as problem:
            raise _At("$.epsilon", str(problem)) from None
        for place, part in zip(open_ones, parts, strict=True):
            found[place] = float(part)
    return [epsilon or 0.0 for epsilon in found]


def _shares(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> list[float]:
    """Return how often each attribute is asked: by the root of its cost, where that is known."""
    d = len(questions)
    if strategy in SPLITS or d == 1:
        return [1.0] * d
    plain = all(question.kind in ("number", "category") for question in questions)
    automatic = all(one.mechanism == "auto" and not one.epsilon for one in table.attributes)
    if not plain or not automatic or table.sample > 1 or table.levels or table.repeat:
        return [table.sample / d] * d
    asked = [Attribute(question.name, question.k) for question in questions]
    return [row.share for row in plan(asked, total, table.people).rows]


def _ends(shares: Sequence[float]) -> tuple[int, ...]:
    """Return shares as cumulative weights out of 2^52."""
    parts = [Fraction(share) for share in shares]
    whole, upto, ends = sum(parts), Fraction(0), []
    for part in parts[:-1]:
        upto += part
        ends.append(int(upto / whole * WHOLE))
    return tuple(ends)


def _cells(
    table: CampaignTable,
    questions: Sequence[Question],
    place: int,
    epsilon: float,
    share: float,
    levels: Levels | None,
) -> list[Cell]:
    """Return an attribute's cells: one, or one for each level."""
    one, question = table.attributes[place], questions[place]
    asked = share if levels is None else 1.0
    budgets = (epsilon,) if levels is None else levels.budgets(epsilon)
    try:
        first = _law(table, one, question, budgets[-1] if levels else epsilon, asked)
        if levels is None:
            return [Cell((place,), None, first)]
        if isinstance(first, GradedMechanism):
            raise ParameterError("a graded attribute has budgets of its own: it takes no levels")
        return [
            Cell((place,), level, replace(first, epsilon=budget))
            for level, budget in enumerate(budgets)
        ]
    except MurmurationError as problem:
        raise _At(f"$.attributes[{place}]", f"{question.name}: {problem}") from None


def _law(
    table: CampaignTable, one: AttributeTable, question: Question, epsilon: float, share: float
) -> Mechanism:
    """Return the mechanism of an attribute: the one that is named, or the planner's choice."""
    if table.repeat is not None:
        return _repeated(table.repeat, one, question, epsilon)
    if question.kind == "graded":
        return _graded(one, question)
    extra = dict(one.parameters)
    size = {} if question.k is None else {"k": question.k}
    if one.mechanism != "auto":
        return named(one.mechanism, epsilon=epsilon, **size, **_tupled(extra))
    if question.kind == "distribution":
        return named("square-wave", epsilon=epsilon)
    if question.k is None:
        return choose_numeric(epsilon, share, table.people).mechanism
    return choose_frequency(epsilon, question.k, share, table.people).mechanism


def _tupled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()
    }


def _repeated(
    repeat: RepeatTable, one: AttributeTable, question: Question, epsilon: float
) -> Mechanism:
    if question.k is None:
        raise ParameterError("a repeated question is a category: give it labels")
    if one.mechanism not in ("auto", "memoised"):
        raise ParameterError("a repeated question is answered by memoised")
    if not 0 < repeat.permanent <= MAX_EPSILON:
        raise ParameterError(f"permanent is above epsilon and at most {MAX_EPSILON:g}")
    return named("memoised", epsilon=epsilon, k=question.k, permanent=repeat.permanent)


def _graded(one: AttributeTable, question: Question) -> Mechanism:
    semantics = (
        one.semantics if isinstance(one.semantics, str) else tuple(map(tuple, one.semantics))
    )
    chosen = "graded-optimal" if one.mechanism == "auto" else one.mechanism
    return named(
        chosen,
        epsilon=tuple(one.budgets),  # one for each range
        edges=to_domain(one.edges, *question.range),
        semantics=semantics,
        **_tupled(one.parameters),
    )


def _tuple_cell(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> Cell:
    if table.levels or table.repeat:
        raise _At("$.strategy", f"{strategy} takes neither levels nor repeats: use sample or split")
    for place, one in enumerate(table.attributes):
        if one.mechanism != "auto" or one.epsilon or one.kind not in ("number", "category"):
            raise _At(
                f"$.attributes[{place}]", f"{strategy} asks numbers and categories its own way"
            )
    domains = tuple(question.k or 0 for question in questions)
    return Cell(tuple(range(len(questions))), None, named(strategy, epsilon=total, domains=domains))
