"""From the tables of a campaign file to a campaign: what is left open is chosen, and audited.

Every mistake says which key it is about; `load` knows the line.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from typing import Any

from murmuration.audit import admission
from murmuration.campaign.levels import BY_LOT, FREELY, Levels
from murmuration.campaign.periods import period_of
from murmuration.campaign.question import KINDS, Question
from murmuration.campaign.spells import Spells
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition.fit_check import FitCheck, fit_checks
from murmuration.definition.form import Form
from murmuration.definition.schema import (
    SPELLS,
    VALUES,
    AttributeTable,
    CampaignTable,
    CheckFitTable,
    Mistake,
    RepeatTable,
    TogetherTable,
    budget_of,
    check_table,
    gathered,
    question_of,
)
from murmuration.definition.tables import Together as Tabled
from murmuration.definition.tables import check_tables, shared_out
from murmuration.errors import MurmurationError, ParameterError, PromiseError
from murmuration.exact.arrays import Floats
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Box, Domain, Graded, Items, Number
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.graded.base import (
    checked_budgets,
    checked_semantics,
    pairwise_budgets,
    to_domain,
)
from murmuration.mechanisms.item.graded_items import MOST_CLASSES, MOST_GRADED, budget_of_pairs
from murmuration.mechanisms.number.base import FEWEST_SYMBOLS
from murmuration.mechanisms.registry import list_mechanisms, mechanisms_for
from murmuration.mechanisms.strategy import Sample, Split, Strategy, Together
from murmuration.planning import allocate
from murmuration.planning.auto import mechanism as named
from murmuration.planning.candidates import ASKED_AGAIN, DISTRIBUTION, GRADED, GRADED_ITEMS
from murmuration.planning.choose import Attribute, choose_frequency, choose_numeric, plan

Rule = Callable[[Sequence[int], float], Floats]
"""How epsilon is split over attributes of so many items."""
SPLITS: dict[str, Rule] = {"split": allocate.equal, "split-optimal": allocate.optimal}
AUTO = "auto"
WAYS = ("sample", *SPLITS)


def resolve(table: CampaignTable) -> SurveyCampaign:
    """Choose what the file leaves open, build the laws and audit them."""
    questions = tuple(question_of(place, row) for place, row in enumerate(table.attributes))
    campaign = _collected(table, questions, _sharing(table))
    _check_limit(table, campaign)
    return _admitted(campaign)


def check(table: CampaignTable, passed_over: Collection[int] = ()) -> None:
    """Refuse what can be seen without building a law: all of it together.

    Attributes that are `passed_over` are known to be wrong.
    """
    rest = [place for place in range(len(table.attributes)) if place not in passed_over]
    steps: list[Callable[[], object]] = [
        partial(check_table, table),
        partial(_check_names, table),
        partial(_sharing, table),
        partial(_levels, table),
        partial(check_tables, table),
        *(partial(_check_attribute, table, place) for place in rest),
    ]
    gathered(steps)


def _check_attribute(table: CampaignTable, place: int) -> None:
    question = question_of(place, table.attributes[place])
    if table.strategy not in mechanisms_for(Box):
        _check_kind(table, place, question)


@dataclass(frozen=True)
class Sharing:
    """How the file says that epsilon is shared out: one of the ways in `WAYS`, or a mechanism."""

    name: str

    @property
    def split(self) -> Rule | None:
        """The rule that splits epsilon over all attributes; None if each has all of it."""
        return SPLITS.get(self.name)

    @property
    def together(self) -> bool:
        """Whether one mechanism answers all attributes, by its name."""
        return self.name not in WAYS

    def strategy(self, sample: int, shares: Sequence[float]) -> Strategy:
        """Return the strategy of the campaign."""
        if self.together:
            return Together()
        return Split() if self.split else Sample.by_shares(shares, sample)


def _sharing(table: CampaignTable) -> Sharing:
    """Return how epsilon is shared out, "auto" decided."""
    name = table.strategy
    if name == AUTO:
        own = all(row.epsilon is not None for row in table.attributes)
        alone = len(table.attributes) == 1
        whole = alone or (own and table.epsilon is None and table.sample == 1)
        checked_alone = alone and table.check_fit is not None
        name = "split" if whole and not checked_alone and not table.tables else "sample"
    tuples = list(mechanisms_for(Box))
    if name not in (*WAYS, *tuples):
        raise Mistake(
            f"strategy is auto, sample, split, split-optimal, or one of {', '.join(tuples)}; "
            f"got {name!r}{_meant(name, [AUTO, *WAYS, *tuples])}",
            "strategy",
        )
    if table.sample > 1 and name != "sample":
        raise Mistake("sample above 1 needs strategy = 'sample'", "sample")
    if table.check_fit is not None and (name != "sample" or table.sample > 1):
        raise Mistake(
            "check_fit asks some devices whether their answers fitted, instead of a question: "
            'that needs strategy = "sample", with one attribute for each device',
            "check_fit",
        )
    return Sharing(name)


def _meant(name: str, known: Iterable[str]) -> str:
    """Return a guess at what a misspelt name is."""
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; {near[0]} is meant?" if near else ""


def _check_names(table: CampaignTable) -> None:
    names = [row.name for row in table.attributes]
    for place, name in enumerate(names):
        if name in names[:place]:
            raise Mistake(f"two attributes are called {name!r}", "attributes", place, "name")


def _levels(table: CampaignTable) -> Levels | None:
    if table.levels is None:
        return None
    # A level may be called so, too: then it is a part of epsilon.
    said = table.levels.get("chosen") in (FREELY, BY_LOT)
    parts = {name: part for name, part in table.levels.items() if not (said and name == "chosen")}
    if set(parts) == {"from"} and not said:
        return _ladder(table, parts["from"])
    factors = [_factor(name, part) for name, part in parts.items()]
    try:
        chosen = str(table.levels["chosen"]) if said else FREELY
        return Levels(tuple(parts), tuple(factors), chosen)
    except MurmurationError as problem:
        raise Mistake(str(problem), "levels") from None


def _ladder(table: CampaignTable, least: float | str) -> Levels:
    """Return the levels of people who set an epsilon of their own, from this one on."""
    if table.epsilon is None:
        raise Mistake(
            "with `from` epsilon says what people may set at most: it is missing", "levels"
        )
    try:
        return Levels.ladder(float(least), table.epsilon)
    except (MurmurationError, ValueError) as problem:
        raise Mistake(f"from, the least epsilon that people may set: {problem}", "levels") from None


def _factor(name: str, factor: float | str) -> float:
    """Return a level's part of epsilon, from 0.5 or "1/2"."""
    try:
        return Levels.parse(f"level={factor}").factors[0]
    except MurmurationError:
        message = f"a level is a part of epsilon, above 0 and at most 1, as 0.5 or '1/2'; {name} is"
        if name == "chosen":
            message = f"levels are chosen {FREELY!r} or {BY_LOT!r}; chosen is"
        raise Mistake(f"{message} {factor!r}", "levels", name) from None


# --- what each attribute may spend -------------------------------------------------------------


def _own(row: AttributeTable) -> float | None:
    """Return what an attribute says that it may spend; a graded one by its largest budget."""
    if row.kind == "graded":
        matrix = [] if isinstance(row.semantics, str) else row.semantics
        return max(chain(row.budgets, *matrix), default=None)
    if len(row.budgets) > 1:
        try:
            semantics = checked_semantics(_semantics(row, "min"), checked_budgets(row.budgets))
        except ParameterError:  # said at its key when the law is made
            return max(row.budgets)
        return budget_of_pairs(row.budgets, semantics)
    return row.epsilon


def _semantics(row: AttributeTable, usual: str) -> Any:
    """Return what two ranges or items may cost: a name, or a matrix."""
    given = row.semantics or usual
    return given if isinstance(given, str) else tuple(map(tuple, given))


def _total(table: CampaignTable, sharing: Sharing) -> float:
    """Return what one report may cost: epsilon, or what the attributes' own ones come to."""
    if table.epsilon is not None:
        return table.epsilon
    own = [_own(row) for row in table.attributes]
    if None in own or sharing.together:
        raise Mistake("epsilon is missing: say what a report may cost, here or by attribute")
    spent = sorted((Fraction(epsilon) for epsilon in own if epsilon is not None), reverse=True)
    needed = sum(spent if sharing.split else spent[: table.sample])
    total = float(needed)
    total = total if Fraction(total) >= needed else math.nextafter(total, math.inf)
    return budget_of(total, "attributes")


def _budgets(
    table: CampaignTable, questions: Sequence[Question], sharing: Sharing, total: float
) -> list[float]:
    """Return what each attribute may spend; those that one report names keep the total."""
    own = [_own(row) for row in table.attributes]
    if sharing.split:
        return _split(own, questions, sharing, total)
    share = math.nextafter(total / table.sample, 0) if table.sample > 1 else total
    budgets = [share if epsilon is None else epsilon for epsilon in own]
    most = sorted(map(Fraction, budgets), reverse=True)[: table.sample]
    if sum(most) > Fraction(total):
        place = max(range(len(budgets)), key=budgets.__getitem__)
        key = "budgets" if table.attributes[place].budgets else "epsilon"
        name, sample = questions[place].name, table.sample
        beside = f" with {sample - 1} more" if sample > 1 else ""
        message = f"{name} cannot spend {budgets[place]:g}{beside}: a report may cost {total:g}"
        raise Mistake(message, "attributes", place, key)
    return budgets


def _split(
    own: Sequence[float | None], questions: Sequence[Question], sharing: Sharing, total: float
) -> list[float]:
    rest = Fraction(total) - sum(Fraction(epsilon) for epsilon in own if epsilon)
    open_ones = [place for place, epsilon in enumerate(own) if epsilon is None]
    if rest < 0 or (open_ones and rest == 0):
        spent = f"{total - float(rest):g} of {total:g}"
        left = " and the others have none left" if open_ones else ""
        raise Mistake(f"the attributes' own epsilons come to {spent}{left}", "epsilon")
    share_out = sharing.split or allocate.equal
    if share_out is allocate.optimal and any(questions[place].k is None for place in open_ones):
        raise Mistake("split-optimal weighs items only: use split with numbers", "strategy")
    shares = list(own)
    if open_ones:
        left_over = float(rest) if Fraction(float(rest)) <= rest else math.nextafter(float(rest), 0)
        sizes = [questions[place].k or 2 for place in open_ones]
        try:
            parts = share_out(sizes, left_over) if len(sizes) > 1 else [left_over]
        except MurmurationError as problem:
            raise Mistake(str(problem), "epsilon") from None
        for place, part in zip(open_ones, parts, strict=True):
            shares[place] = float(part)
    return [epsilon or 0.0 for epsilon in shares]


def _shares(
    table: CampaignTable, questions: Sequence[Question], sharing: Sharing, total: float
) -> list[float]:
    """Return how often each attribute is asked: by the root of its cost, where that is known."""
    d = len(questions)
    if sharing.split or d == 1:
        return [1.0] * d
    plain = all(question.kind in ("number", "category") for question in questions)
    automatic = all(
        row.mechanism == "auto" and row.epsilon is None and not row.budgets
        for row in table.attributes
    )
    if not plain or not automatic or table.sample > 1 or table.levels or table.repeat:
        return [table.sample / d] * d
    asked = [Attribute(row.name, row.k, row.missing and row.k is None) for row in questions]
    return [row.share for row in plan(asked, total, table.people).rows]


# --- the laws ----------------------------------------------------------------------------------


def _collected(
    table: CampaignTable, questions: tuple[Question, ...], sharing: Sharing
) -> SurveyCampaign:
    total, levels = _total(table, sharing), _levels(table)
    checks, tables = list[FitCheck](), list[Tabled]()
    if sharing.together:
        shares = [1.0] * len(questions)
        groups: list[tuple[Mechanism, ...]] = [(_tuple_law(table, questions, sharing.name, total),)]
    else:
        budgets = _budgets(table, questions, sharing, total)
        checks = fit_checks(table, questions, budgets, levels)
        rest = 1 - sum(check.share for check in checks)
        planned = _shares(table, questions, sharing, total)
        asked = shared_out(table, questions, budgets, planned, rest)
        shares, tables = asked.attributes, asked.tables
        groups = gathered(
            partial(_laws, table, place, question, budgets[place], shares[place], levels)
            for place, question in enumerate(questions)
        )
    questions = (*questions, *(c.question for c in checks), *(t.question for t in tables))
    try:
        return SurveyCampaign(
            name=table.name,
            terms=table.terms,
            questions=questions,
            frame=Frame(
                (*groups, *(check.laws for check in checks), *((one.law,) for one in tables)),
                sharing.strategy(
                    table.sample,
                    [*shares, *(check.share for check in checks), *(one.share for one in tables)],
                ),
            ),
            epsilon=total,
            levels=levels,
            limit=_limit(table, 1 if levels is None else len(levels), checks),
            accept_loss=table.accept_loss,
            max_reports=1 if table.repeat is None else table.repeat.rounds,
            every=None if table.repeat is None else table.repeat.every,
            spells=_spells(table.repeat),
        )
    except ParameterError as problem:
        raise Mistake(str(problem), "strategy") from None


def _spells(repeat: RepeatTable | None) -> Spells | None:
    """Return the spells that the file asks for, by the changes that they allow for."""
    if repeat is None or repeat.law != SPELLS:
        return None
    if repeat.every is None or repeat.first is None or repeat.changes is None:
        raise Mistake("spells need every, first and changes", "repeat", "law")
    return Spells.allowing(repeat.changes, period_of(repeat.every, repeat.first), repeat.rounds)


def _laws(
    table: CampaignTable,
    place: int,
    question: Question,
    epsilon: float,
    share: float,
    levels: Levels | None,
) -> tuple[Mechanism, ...]:
    """Return an attribute's laws: one, or one for each level."""
    row = table.attributes[place]
    budgets = (epsilon,) if levels is None else levels.budgets(epsilon)
    try:
        first = _law(table, row, question, max(budgets), share if levels is None else 1.0)
        if levels is None:
            return (first,)
        return tuple(replace(first, epsilon=budget) for budget in budgets)
    except (MurmurationError, TypeError, ValueError, OverflowError) as problem:
        raise Mistake(f"{question.name}: {problem}", *_blamed(table, place)) from None


def _blamed(table: CampaignTable, place: int) -> tuple[str | int, ...]:
    """Return the key that a law was most likely impossible by."""
    row = table.attributes[place]
    if table.repeat is not None:
        return "repeat", "permanent"
    if row.parameters:
        return "attributes", place, "parameters"
    keys = {
        "epsilon": row.epsilon is not None,
        "semantics": bool(row.semantics),
        "budgets": bool(row.budgets),
    }
    key = next((key for key, given in keys.items() if given), "mechanism")
    return "attributes", place, key


def _check_kind(table: CampaignTable, place: int, question: Question) -> None:
    """Refuse a mechanism that is for another kind of attribute."""
    row = table.attributes[place]
    if table.levels is not None and (question.kind == "graded" or row.budgets):
        message = f"{question.name}: a graded attribute has budgets of its own: it takes no levels"
        raise Mistake(message, "attributes", place, "kind")
    if table.repeat is not None:
        _check_repeated(place, row, question)
        return
    if question.kind == "graded":
        _check_ranges(place, row, question)
    elif row.budgets:
        _check_items(place, row, question)
    kind = list_mechanisms().get(row.mechanism)
    if question.missing and question.k is None and kind is not None and not kind.keeps_promise:
        message = (
            f"{question.name}: {row.mechanism} breaks its promise: it takes no missing answers"
        )
        raise Mistake(message, "attributes", place, "missing")
    fitting = _fitting(question)
    if row.mechanism not in ("auto", *fitting):
        known = row.mechanism in list_mechanisms()
        problem = f"{row.mechanism} is not for a {question.kind}" if known else "no such mechanism"
        again = mechanisms_for(_domain(question), memoised=True)
        hint = "; it needs [repeat]" if row.mechanism in again else ""
        meant = "" if known else _meant(row.mechanism, [AUTO, *fitting])
        message = f"{question.name}: {problem}{meant}{hint}; there are auto, {', '.join(fitting)}"
        raise Mistake(message, "attributes", place, "mechanism")


def _check_repeated(place: int, row: AttributeTable, question: Question) -> None:
    """Refuse what no permanent answer is for."""
    if question.kind not in ("category", "number"):
        message = f"{question.name}: a repeated question is a category or a number"
        raise Mistake(message, "attributes", place, "kind")
    if question.kind == "number" and question.missing:
        message = f"{question.name}: a repeated number cannot be missing"
        raise Mistake(message, "attributes", place, "missing")
    if row.mechanism not in ("auto", law := _kept_by(question)):
        message = f"{question.name}: a repeated {question.kind} is answered by {law}"
        raise Mistake(message, "attributes", place, "mechanism")
    if row.budgets:
        message = f"{question.name}: a repeated question has one budget for all of its labels"
        raise Mistake(message, "attributes", place, "budgets")


def _kept_by(question: Question) -> str:
    """Return the mechanism that answers a repeated question."""
    return ASKED_AGAIN[_domain(question)]


def _fitting(question: Question) -> list[str]:
    """Return the mechanisms that can answer a question."""
    if question.kind == "graded":
        return list(mechanisms_for(Graded))
    return list(mechanisms_for(_domain(question)))


def _domain(question: Question) -> type[Domain]:
    """Return what kind of answers a question has where none is missing."""
    return Number if question.k is None else Items


def _law(
    table: CampaignTable, row: AttributeTable, question: Question, epsilon: float, share: float
) -> Mechanism:
    """Return the law of an attribute; around it, where a number may be missing, that for none."""
    law = _answering(table, row, question, epsilon, share)
    return law.or_none() if question.missing else law


def _answering(
    table: CampaignTable, row: AttributeTable, question: Question, epsilon: float, share: float
) -> Mechanism:
    """Return the mechanism of an attribute: the one that is named, or the planner's choice."""
    size = {} if question.k is None else {"k": question.k}
    if table.repeat is not None:
        permanent = table.repeat.permanent
        return named(_kept_by(question), epsilon=epsilon, **size, permanent=permanent)
    if question.kind == "graded":
        return _graded(row, question)
    if row.budgets:
        return _graded_items(table, row, share)
    if row.mechanism != "auto":
        chosen = named(row.mechanism, epsilon=epsilon, **size, **_tupled(row.parameters))
    elif question.kind == "distribution":
        chosen = named(DISTRIBUTION, epsilon=epsilon)
    elif question.k is None:
        return choose_numeric(epsilon, share, table.people, question.missing).mechanism
    else:
        return choose_frequency(epsilon, question.k, share, table.people).mechanism
    if question.kind == "distribution" and chosen.counters < FEWEST_SYMBOLS:
        raise ParameterError(f"{row.mechanism} has too few symbols to show a distribution")
    return chosen


def _tupled(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(value) if isinstance(value, list) else value for key, value in parameters.items()
    }


def _check_ranges(place: int, row: AttributeTable, question: Question) -> None:
    """Refuse a layout whose edges and budgets do not go together."""
    edges, (low, high) = row.edges, question.range
    rising = all(a < b for a, b in zip((low, *edges), (*edges, high), strict=True))
    if not edges or not rising or len(row.budgets) != len(edges) + 1:
        raise Mistake(
            f"{question.name}: edges are where ranges meet, going up between {low:g} and {high:g}, "
            f"and budgets are one more; got {len(edges)} edges and {len(row.budgets)} budgets",
            *("attributes", place, "edges"),
        )


def _check_items(place: int, row: AttributeTable, question: Question) -> None:
    """Refuse budgets that are not one for each item, and a mechanism that has one for all."""
    if len(row.budgets) != question.k:
        more = " and one for no answer" if question.missing else ""
        raise Mistake(
            f"{question.name}: budgets are one for each of {len(question.labels)} labels{more}; "
            f"got {len(row.budgets)}",
            *("attributes", place, "budgets"),
        )
    if row.mechanism not in (AUTO, GRADED_ITEMS):
        raise Mistake(
            f"{question.name}: {row.mechanism} has one epsilon for all items: with budgets "
            f"mechanism is {AUTO} or {GRADED_ITEMS}",
            *("attributes", place, "mechanism"),
        )


def _graded_items(table: CampaignTable, row: AttributeTable, share: float) -> Mechanism:
    """Return the table for items with budgets of their own.

    If none is named: or the mechanism at the smallest budget, which keeps all of them, if its error
    is less.
    """
    budgets = checked_budgets(row.budgets)
    semantics = checked_semantics(_semantics(row, "min"), budgets)
    given: dict[str, Any] = {"epsilon": budgets, "k": len(budgets), "semantics": semantics}
    if row.mechanism != AUTO:
        return named(GRADED_ITEMS, **given)
    least = min(map(min, pairwise_budgets(budgets, semantics)))
    single = choose_frequency(least, len(budgets), share, table.people).mechanism
    if len(budgets) > MOST_GRADED or len(set(budgets)) > MOST_CLASSES:
        return single
    several = named(GRADED_ITEMS, **given)
    return several if several.cost(share) < single.cost(share) else single


def _graded(row: AttributeTable, question: Question) -> Mechanism:
    return named(
        GRADED if row.mechanism == AUTO else row.mechanism,
        epsilon=tuple(row.budgets),
        edges=to_domain(row.edges, *question.range),
        semantics=_semantics(row, "max"),
        **_tupled(row.parameters),
    )


def _tuple_law(
    table: CampaignTable, questions: Sequence[Question], strategy: str, total: float
) -> Mechanism:
    if table.levels is not None or table.repeat is not None:
        key = "levels" if table.levels is not None else "repeat"
        raise Mistake(f"{strategy} takes no {key}: use sample or split", key)
    for place, row in enumerate(table.attributes):
        wrong = {
            "mechanism": row.mechanism != "auto",
            "epsilon": row.epsilon is not None,
            "kind": row.kind not in ("number", "category"),
            "budgets": bool(row.budgets),
            "semantics": bool(row.semantics),
        }
        if row.missing:
            message = f"{row.name}: {strategy} has no law for no answer: use sample or split"
            raise Mistake(message, "attributes", place, "missing")
        for key in (key for key, message in wrong.items() if message):
            message = f"{row.name}: {strategy} asks numbers and categories its own way"
            raise Mistake(message, "attributes", place, key)
    domains = tuple(question.k or 0 for question in questions)
    try:
        return named(strategy, epsilon=total, domains=domains)
    except MurmurationError as problem:
        raise Mistake(str(problem), "strategy") from None


# --- what it may cost --------------------------------------------------------------------------


def _limit(table: CampaignTable, levels: int, checks: Sequence[FitCheck]) -> float | None:
    """Return the most this campaign may cost a device: the file's, or that of its values."""
    if table.lifetime is not None or table.repeat is None:
        return table.lifetime
    if (spells := _spells(table.repeat)) is not None:
        return table.repeat.permanent * spells.number * (len(table.attributes) + len(checks))
    # Each attribute has permanent answers of its own, and over the rounds all may be asked; where
    # "no answer" is one of them, it is paid for with the first report, at every level.
    # A number has one for all of its values.
    answers = [
        table.repeat.values + row.missing * levels if row.kind == "category" else 1
        for row in table.attributes
    ]
    # An answer fitted, or did not: two values more where there are several.
    fits = [min(table.repeat.values, 2) + check.question.missing * levels for check in checks]
    return table.repeat.permanent * sum([*answers, *fits])


def _check_limit(table: CampaignTable, campaign: SurveyCampaign) -> None:
    """Refuse a limit within which no device could send even the cheapest report."""
    if campaign.limit is None:
        return
    groups = [min(law.charge for law in group) for group in campaign.frame.groups]
    cheapest = sorted(groups)[: campaign.strategy.entries(len(groups))]
    if campaign.prepays_none:  # the first report pays for every "no answer", too
        cheapest += [law.charge for law in campaign.frame.cells]
    needed = sum(map(Fraction, filter(math.isfinite, cheapest)))
    if Fraction(campaign.limit) < needed or math.inf in cheapest:
        message = f"a report costs at least {float(needed):g}: this limit would allow none"
        raise Mistake(message, *(("lifetime",) if table.lifetime is not None else VALUES))


def _admitted(campaign: SurveyCampaign) -> SurveyCampaign:
    """Return the campaign if the audit lets it collect; else point at the law that leaks."""
    accepted = campaign.accept_loss
    if accepted is not None and not any(law.broken for law in campaign.frame.cells):
        message = "accept_loss is for a mechanism that breaks its promise: none does"
        raise Mistake(message, "accept_loss")
    for attribute, group in enumerate(campaign.frame.groups):
        for law in group:
            try:
                admission.admit(law, accepted if law.broken else None)
            except PromiseError as problem:
                own = ("attributes", attribute, "mechanism")
                place = ("strategy",) if campaign.strategy.gathers else own
                path = place if accepted is None else ("accept_loss",)
                raise Mistake(str(problem), *path, refused=True) from None
    try:
        return campaign.admitted()
    except PromiseError as problem:
        raise Mistake(str(problem), "epsilon", refused=True) from None


FORM = Form(
    makes=SurveyCampaign,
    table=CampaignTable,
    tables={
        "attributes": AttributeTable,
        "repeat": RepeatTable,
        "check_fit": CheckFitTable,
        "tables": TogetherTable,
    },
    check=check,
    resolve=resolve,
    kinds=KINDS,
    elsewhere={
        key: f'{key} is for a campaign that trains a model: say kind = "model"'
        for key in ("features", "target", "model", "deadline")
    },
)
