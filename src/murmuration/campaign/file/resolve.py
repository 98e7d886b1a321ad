"""From the tables of a campaign file to a campaign: what is left open is chosen, and audited.

Every mistake says which key it is about; `campaign_file` knows the line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from itertools import chain
from typing import Any, Literal

import msgspec

from murmuration.audit import admission
from murmuration.campaign.levels import Levels
from murmuration.campaign.model import COHORT, LEAST_COHORT, MOST_ATTRIBUTES, Campaign, Cell, Terms
from murmuration.campaign.question import Question
from murmuration.errors import MurmurationError, ParameterError, PromiseError
from murmuration.exact.randomness import WHOLE
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.graded.base import GradedMechanism, to_domain
from murmuration.mechanisms.item.base import FrequencyMechanism
from murmuration.mechanisms.number.base import FEWEST_SYMBOLS, NumericMechanism
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.mechanisms.vector.base import TupleMechanism
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.planning import allocate
from murmuration.planning.auto import mechanism as named
from murmuration.planning.choose import Attribute, choose_frequency, choose_numeric, plan

SPLITS = {"split": allocate.equal, "split-optimal": allocate.optimal}
UPLOADS = ("open", "token")
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
GIVEN = ("epsilon", "k", "edges", "semantics")
"""Parameters of mechanisms that have a key of their own in the file."""


class Mistake(Exception):  # noqa: N818 - not yet an error: its line is to be found
    """What is wrong, and where in the file: the keys and numbers that lead there."""

    def __init__(self, message: str, *path: str | int, refused: bool = False) -> None:
        super().__init__(message)
        self.path, self.refused = path, refused


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
    rounds: int
    """The most reports that one device sends."""
    values: int = 1
    """How many different values a device may have to answer for in that time."""


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


def resolve(table: CampaignTable) -> Campaign:
    """Choose what the file leaves open, build the laws and audit them."""
    _check_table(table)
    questions = tuple(_question(place, one) for place, one in enumerate(table.attributes))
    strategy = _strategy(table)
    campaign = _collected(table, questions, strategy)
    _check_limit(table, campaign)
    return _admitted(campaign)


# --- single keys -------------------------------------------------------------------------------


def _check_table(table: CampaignTable) -> None:
    zone = "say date, time and time zone: 2026-11-16T09:00:00Z"
    lifetime = table.lifetime is None or 0 < table.lifetime < math.inf
    d = len(table.attributes)
    rules = [
        ("name", NAME.fullmatch(table.name), "a name has small letters, digits and - only"),
        ("purpose", table.purpose.strip(), "say in plain words what the data is for"),
        ("cohort", table.cohort >= LEAST_COHORT, f"a cohort is {LEAST_COHORT} people or more"),
        ("people", 1 <= table.people < 1 << 40, "people, how many are expected, is 1 or more"),
        ("attributes", d > 0, "there is at least one attribute"),
        ("attributes", d <= MOST_ATTRIBUTES, f"there are {MOST_ATTRIBUTES:,} attributes at most"),
        ("lifetime", lifetime, "lifetime, what all reports may cost together, is above 0"),
        ("sample", 1 <= table.sample <= d, f"sample is 1 to the number of attributes, {d}"),
        ("opens", _zoned(table.opens), zone),
        ("closes", _zoned(table.closes), zone),
    ]
    for key, fine, message in rules:
        if not fine:
            raise Mistake(message, key)
    if table.opens and table.closes and table.opens >= table.closes:
        raise Mistake("it closes before it opens", "closes")
    if table.epsilon is not None:
        _checked_epsilon(table.epsilon, "epsilon")
    if table.repeat is not None:
        _checked_epsilon(table.repeat.permanent, "repeat", "permanent")
        if not 2 <= table.repeat.rounds <= 1 << 20:
            raise Mistake("rounds, how often one device reports at most, is 2 or more", *ROUNDS)
        if not 1 <= table.repeat.values <= 1 << 20:
            raise Mistake("values, how many different ones are paid for, is 1 or more", *VALUES)


VALUES = ("repeat", "values")
ROUNDS = ("repeat", "rounds")


def _zoned(moment: datetime | None) -> bool:
    return moment is None or moment.tzinfo is not None


def _checked_epsilon(epsilon: float, *path: str | int) -> float:
    try:
        return checked_epsilon(epsilon)
    except MurmurationError as problem:
        raise Mistake(str(problem), *path) from None


def _question(place: int, table: AttributeTable) -> Question:
    _check_attribute(place, table)
    try:
        return Question(
            name=table.name,
            kind=table.kind,
            low=table.low,
            high=table.high,
            unit=table.unit,
            labels=tuple(table.labels),
            outside=table.outside or "",
            bins=table.bins,
        )
    except MurmurationError as problem:
        raise Mistake(str(problem), "attributes", place, _suspect(table)) from None


def _suspect(table: AttributeTable) -> str:
    """Return the key that makes a question impossible."""
    if table.kind == "category":
        different = len(set(table.labels)) == len(table.labels) >= 2 and "" not in table.labels
        wrong = ["labels"] * (not different) + ["low"] * (table.low is not None)
        wrong += ["high"] * (table.high is not None)
    else:
        low, high = table.low, table.high
        fits = low is not None and high is not None and low < high
        wrong = ["low"] * (not fits) + ["labels"] * bool(table.labels)
        wrong = ["high"] if low is not None and high is None else wrong
    known = table.outside in (None, "clamp", "spread", "refuse", *table.labels)
    fallback = "bins" if known and not wrong else "outside"
    return (wrong or [fallback])[0]


def _check_attribute(place: int, table: AttributeTable) -> None:
    """Refuse keys that would do nothing: whoever wrote them expects something."""
    graded, named_one = table.kind == "graded", table.mechanism != "auto"
    ranges = "for kind = 'graded' only"
    rules = [
        ("name", table.name.strip(), "an attribute has a name"),
        ("outside", table.outside != "", "outside is empty: leave it out"),
        ("name", table.name.isprintable(), "a name is one line of plain text"),
        ("labels", "".join(table.labels).isprintable(), "a label is one line of plain text"),
        ("edges", graded or not table.edges, f"edges are {ranges}"),
        ("budgets", graded or not table.budgets, f"budgets are {ranges}"),
        ("semantics", graded or table.semantics == "max", f"semantics is {ranges}"),
        ("epsilon", not graded or table.epsilon is None, "a graded attribute has budgets instead"),
        ("bins", table.kind == "distribution" or table.bins == 64, "bins are for a distribution"),
        ("parameters", named_one or not table.parameters, "parameters need a mechanism by name"),
    ]
    for key, fine, message in rules:
        if not fine:
            raise Mistake(f"{_shown(table.name)}{message}", "attributes", place, key)
    if table.epsilon is not None:
        _checked_epsilon(table.epsilon, "attributes", place, "epsilon")
    for key in table.parameters:
        if key in GIVEN:
            message = f"{table.name}: {key} is not given as a parameter, but by keys of the file"
            raise Mistake(message, "attributes", place, "parameters", key)


def _shown(name: str) -> str:
    return f"{name}: " if name.strip() and name.isprintable() else ""


def _strategy(table: CampaignTable) -> str:
    """Return sample, split, split-optimal, or the name of a mechanism for tuples."""
    _check_names(table)
    strategy = table.strategy
    if strategy == "auto":
        own = all(one.epsilon is not None for one in table.attributes)
        whole = len(table.attributes) == 1 or (own and table.epsilon is None and table.sample == 1)
        strategy = "split" if whole else "sample"
    # One vector of length up to 1 is no tuple of numbers that each go from -1 to 1.
    names = [
        name
        for name, kind in list_mechanisms().items()
        if issubclass(kind, TupleMechanism) and not issubclass(kind, PrivUnit)
    ]
    if strategy not in ("sample", *SPLITS, *names):
        raise Mistake(
            f"strategy is auto, sample, split, split-optimal, or one of {', '.join(names)}; "
            f"got {strategy!r}",
            "strategy",
        )
    if table.sample > 1 and strategy != "sample":
        raise Mistake("sample, how many attributes are asked, needs strategy = 'sample'", "sample")
    return strategy


def _check_names(table: CampaignTable) -> None:
    names = [one.name for one in table.attributes]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise Mistake(f"two attributes are called {name!r}", "attributes", place, "name")


def _levels(table: CampaignTable) -> Levels | None:
    if table.levels is None:
        return None
    factors = [_factor(name, factor) for name, factor in table.levels.items()]
    try:
        return Levels(tuple(table.levels), tuple(factors))
    except MurmurationError as problem:
        raise Mistake(str(problem), "levels") from None


def _factor(name: str, factor: float | str) -> float:
    """Return a level's part of epsilon, from 0.5 or "1/2"."""
    try:
        return Levels.parse(f"level={factor}").factors[0]
    except MurmurationError:
        message = f"a level is a part of epsilon, above 0 and at most 1, as 0.5 or '1/2'; {name} is"
        raise Mistake(f"{message} {factor!r}", "levels", name) from None


# --- what each attribute may spend -------------------------------------------------------------


def _own(one: AttributeTable) -> float | None:
    """Return what an attribute says that it may spend; a graded one by its largest budget."""
    if one.kind != "graded":
        return one.epsilon
    matrix = [] if isinstance(one.semantics, str) else one.semantics
    return max(chain(one.budgets, *matrix), default=None)


def _total(table: CampaignTable, strategy: str) -> float:
    """Return what one report may cost: epsilon, or what the attributes' own ones come to."""
    if table.epsilon is not None:
        return table.epsilon
    own = [_own(one) for one in table.attributes]
    if None in own or strategy not in ("sample", *SPLITS):
        raise Mistake("epsilon is missing: say what a report may cost, here or by attribute")
    spent = sorted((Fraction(one) for one in own if one is not None), reverse=True)
    needed = sum(spent if strategy in SPLITS else spent[: table.sample])
    total = float(needed)
    total = total if Fraction(total) >= needed else math.nextafter(total, math.inf)
    return _checked_epsilon(total, "attributes")


def _budgets(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> list[float]:
    """Return what each attribute may spend; those that one report names keep the total."""
    own = [_own(one) for one in table.attributes]
    if strategy in SPLITS:
        return _split(own, questions, strategy, total)
    share = math.nextafter(total / table.sample, 0) if table.sample > 1 else total
    found = [share if epsilon is None else epsilon for epsilon in own]
    most = sorted(map(Fraction, found), reverse=True)[: table.sample]
    if sum(most) > Fraction(total):
        place = max(range(len(found)), key=found.__getitem__)
        key = "budgets" if table.attributes[place].budgets else "epsilon"
        name, sample = questions[place].name, table.sample
        beside = f" with {sample - 1} more" if sample > 1 else ""
        message = f"{name} cannot spend {found[place]:g}{beside}: a report may cost {total:g}"
        raise Mistake(message, "attributes", place, key)
    return found


def _split(
    own: Sequence[float | None], questions: Sequence[Question], strategy: str, total: float
) -> list[float]:
    rest = Fraction(total) - sum(Fraction(epsilon) for epsilon in own if epsilon)
    open_ones = [place for place, epsilon in enumerate(own) if epsilon is None]
    if rest < 0 or (open_ones and rest == 0):
        spent = f"{total - float(rest):g} of {total:g}"
        left = " and the others have none left" if open_ones else ""
        raise Mistake(f"the attributes' own epsilons come to {spent}{left}", "epsilon")
    if strategy == "split-optimal" and any(questions[place].k is None for place in open_ones):
        raise Mistake("split-optimal weighs items only: use split with numbers", "strategy")
    found = list(own)
    if open_ones:
        left_over = float(rest) if Fraction(float(rest)) <= rest else math.nextafter(float(rest), 0)
        sizes = [questions[place].k or 2 for place in open_ones]
        try:
            parts = SPLITS[strategy](sizes, left_over) if len(sizes) > 1 else [left_over]
        except MurmurationError as problem:
            raise Mistake(str(problem), "epsilon") from None
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
    automatic = all(one.mechanism == "auto" and one.epsilon is None for one in table.attributes)
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


# --- the laws ----------------------------------------------------------------------------------


def _collected(table: CampaignTable, questions: tuple[Question, ...], strategy: str) -> Campaign:
    together = strategy not in ("sample", *SPLITS)
    total, levels = _total(table, strategy), _levels(table)
    shares = [1.0] * len(questions)
    if together:
        cells = [_tuple_cell(table, questions, strategy, total)]
    else:
        budgets = _budgets(table, questions, strategy, total)
        shares = _shares(table, questions, strategy, total)
        cells = [
            cell
            for place, question in enumerate(questions)
            for cell in _cells(table, place, question, budgets[place], shares[place], levels)
        ]
    try:
        return Campaign(
            name=table.name,
            terms=_terms(table),
            questions=questions,
            cells=tuple(cells),
            epsilon=total,
            strategy="together" if together else strategy.split("-")[0],
            sample=table.sample,
            ends=None if len(set(shares)) == 1 else _ends(shares),
            levels=levels,
            limit=_limit(table),
            accept_loss=table.accept_loss,
            rounds=1 if table.repeat is None else table.repeat.rounds,
        )
    except ParameterError as problem:
        raise Mistake(str(problem), "strategy") from None


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


def _cells(
    table: CampaignTable,
    place: int,
    question: Question,
    epsilon: float,
    share: float,
    levels: Levels | None,
) -> list[Cell]:
    """Return an attribute's cells: one, or one for each level."""
    one = table.attributes[place]
    if levels is not None and question.kind == "graded":
        message = f"{question.name}: a graded attribute has budgets of its own: it takes no levels"
        raise Mistake(message, "attributes", place, "kind")
    _check_kind(table, place, question)
    budgets = (epsilon,) if levels is None else levels.budgets(epsilon)
    try:
        first = _law(table, one, question, max(budgets), share if levels is None else 1.0)
        if levels is None:
            return [Cell((place,), None, first)]
        return [
            Cell((place,), level, replace(first, epsilon=budget))
            for level, budget in enumerate(budgets)
        ]
    except (MurmurationError, TypeError, ValueError, OverflowError) as problem:
        raise Mistake(f"{question.name}: {problem}", *_blamed(table, place)) from None


def _blamed(table: CampaignTable, place: int) -> tuple[str | int, ...]:
    """Return the key that a law was most likely impossible by."""
    one = table.attributes[place]
    if table.repeat is not None:
        return "repeat", "permanent"
    if one.parameters:
        return "attributes", place, "parameters"
    keys = {
        "epsilon": one.epsilon is not None,
        "semantics": one.semantics != "max",
        "budgets": bool(one.budgets),
    }
    key = next((key for key, given in keys.items() if given), "mechanism")
    return "attributes", place, key


def _check_kind(table: CampaignTable, place: int, question: Question) -> None:
    """Refuse a mechanism that is for another kind of attribute."""
    one = table.attributes[place]
    if table.repeat is not None:
        if question.k is None:
            message = f"{question.name}: a repeated question is a category, with labels"
            raise Mistake(message, "attributes", place, "kind")
        if one.mechanism not in ("auto", "memoised"):
            message = f"{question.name}: a repeated question is answered by memoised"
            raise Mistake(message, "attributes", place, "mechanism")
        return
    if question.kind == "graded":
        _check_ranges(place, one, question)
    fitting = _fitting(question)
    if one.mechanism not in ("auto", *fitting):
        known = one.mechanism in list_mechanisms()
        problem = f"{one.mechanism} is not for a {question.kind}" if known else "no such mechanism"
        hint = "; it needs [repeat]" if one.mechanism == "memoised" and question.k else ""
        message = f"{question.name}: {problem}{hint}; there are auto, {', '.join(fitting)}"
        raise Mistake(message, "attributes", place, "mechanism")


def _fitting(question: Question) -> list[str]:
    """Return the mechanisms that can answer a question."""
    if question.k is not None:
        return [
            name
            for name, kind in list_mechanisms().items()
            if issubclass(kind, FrequencyMechanism) and not kind.repeated
        ]
    graded = question.kind == "graded"
    return [
        name
        for name, kind in list_mechanisms().items()
        if issubclass(kind, NumericMechanism) and issubclass(kind, GradedMechanism) == graded
    ]


def _law(
    table: CampaignTable, one: AttributeTable, question: Question, epsilon: float, share: float
) -> Mechanism:
    """Return the mechanism of an attribute: the one that is named, or the planner's choice."""
    if table.repeat is not None and question.k is not None:
        permanent = table.repeat.permanent
        return named("memoised", epsilon=epsilon, k=question.k, permanent=permanent)
    if question.kind == "graded":
        return _graded(one, question)
    size = {} if question.k is None else {"k": question.k}
    if one.mechanism != "auto":
        chosen = named(one.mechanism, epsilon=epsilon, **size, **_tupled(one.parameters))
    elif question.kind == "distribution":
        chosen = named("square-wave", epsilon=epsilon)
    elif question.k is None:
        return choose_numeric(epsilon, share, table.people).mechanism
    else:
        return choose_frequency(epsilon, question.k, share, table.people).mechanism
    if question.kind == "distribution" and chosen.counters < FEWEST_SYMBOLS:
        raise ParameterError(f"{one.mechanism} has too few symbols to show a distribution")
    return chosen


def _tupled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()
    }


def _check_ranges(place: int, one: AttributeTable, question: Question) -> None:
    """Refuse a layout whose edges and budgets do not go together."""
    edges, (low, high) = one.edges, question.range
    rising = all(a < b for a, b in zip((low, *edges), (*edges, high), strict=True))
    if not edges or not rising or len(one.budgets) != len(edges) + 1:
        raise Mistake(
            f"{question.name}: edges are where ranges meet, going up between {low:g} and {high:g}, "
            f"and budgets are one more; got {len(edges)} edges and {len(one.budgets)} budgets",
            *("attributes", place, "edges"),
        )


def _graded(one: AttributeTable, question: Question) -> Mechanism:
    matrix = one.semantics
    return named(
        "graded-optimal" if one.mechanism == "auto" else one.mechanism,
        epsilon=tuple(one.budgets),
        edges=to_domain(one.edges, *question.range),
        semantics=matrix if isinstance(matrix, str) else tuple(map(tuple, matrix)),
        **_tupled(one.parameters),
    )


def _tuple_cell(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> Cell:
    if table.levels is not None or table.repeat is not None:
        key = "levels" if table.levels is not None else "repeat"
        raise Mistake(f"{strategy} takes no {key}: use sample or split", key)
    for place, one in enumerate(table.attributes):
        wrong = {
            "mechanism": one.mechanism != "auto",
            "epsilon": one.epsilon is not None,
            "kind": one.kind not in ("number", "category"),
        }
        for key in (key for key, found in wrong.items() if found):
            message = f"{one.name}: {strategy} asks numbers and categories its own way"
            raise Mistake(message, "attributes", place, key)
    domains = tuple(question.k or 0 for question in questions)
    try:
        chosen = named(strategy, epsilon=total, domains=domains)
    except MurmurationError as problem:
        raise Mistake(str(problem), "strategy") from None
    return Cell(tuple(range(len(questions))), None, chosen)


# --- what it may cost --------------------------------------------------------------------------


def _limit(table: CampaignTable) -> float | None:
    """Return the most this campaign may cost a device: the file's, or that of its values."""
    if table.lifetime is not None or table.repeat is None:
        return table.lifetime
    # Each attribute has permanent answers of its own, and over the rounds all may be asked.
    return table.repeat.permanent * table.repeat.values * len(table.attributes)


def _check_limit(table: CampaignTable, campaign: Campaign) -> None:
    """Refuse a limit within which no device could send even the cheapest report."""
    if campaign.limit is None:
        return
    one_each = range(1 if campaign.strategy == "together" else len(campaign.questions))
    cheapest = sorted(min(campaign.cells[c].cost for c in campaign.cells_of(q)) for q in one_each)
    needed = sum(map(Fraction, filter(math.isfinite, cheapest[: len(campaign.slots)])))
    if Fraction(campaign.limit) < needed or math.inf in cheapest[: len(campaign.slots)]:
        message = f"a report costs {float(needed):g} or more: with this limit nobody could send one"
        raise Mistake(message, *(("lifetime",) if table.lifetime is not None else VALUES))


def _admitted(campaign: Campaign) -> Campaign:
    """Return the campaign if the audit lets it collect; else point at the law that leaks."""
    accepted = campaign.accept_loss
    if accepted is not None and not any(cell.mechanism.published for cell in campaign.cells):
        message = "accept_loss is for a mechanism that breaks its promise: none does"
        raise Mistake(message, "accept_loss")
    for cell in campaign.cells:
        try:
            admission.admit(cell.mechanism, accepted if cell.mechanism.published else None)
        except PromiseError as problem:
            together = campaign.strategy == "together"
            place = ("strategy",) if together else ("attributes", cell.attributes[0], "mechanism")
            path = place if accepted is None else ("accept_loss",)
            raise Mistake(str(problem), *path, refused=True) from None
    try:
        return campaign.admitted()
    except PromiseError as problem:
        raise Mistake(str(problem), "epsilon", refused=True) from None
