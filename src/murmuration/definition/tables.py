"""`[[tables]]`: attributes that are asked together, and how many of the people are asked each.

A report is about one attribute or one table, drawn independently of the answers. Tables are asked
so often that their cells have equal standard errors. Attributes are asked `OFTEN` as much as equal
standard errors need, as at a small epsilon the errors of a smoothed table are those of its margins.
From epsilon 2 to 3 a category that is in tables gives that up, but for `SELDOM`: its shares come
from the tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from murmuration.campaign.question import Question
from murmuration.campaign.table import Side, Sides, name_of
from murmuration.definition.schema import (
    USUAL_BINS,
    AttributeTable,
    CampaignTable,
    Mistake,
    gathered,
)
from murmuration.errors import MurmurationError
from murmuration.mechanisms.base import Mechanism
from murmuration.planning.choose import choose_frequency, choose_numeric

OFTEN, SELDOM = 2.0, 0.1
"""How much more an attribute is asked than a table, and how much of that is left at epsilon 3."""
FROM, UP_TO = 2.0, 3.0
"""Where the one becomes the other."""
MOST_TABLES = 500


@dataclass(frozen=True)
class Together:
    """One table: its question, its law and the share of the people that is asked it."""

    question: Question
    law: Mechanism
    share: float


@dataclass(frozen=True)
class Shares:
    """How many of the people are asked each attribute, and each table."""

    attributes: list[float]
    tables: list[Together]


def check_tables(table: CampaignTable) -> None:
    """Refuse tables that cannot be, before any law is built."""
    gathered(partial(_check_one, table, place) for place in range(len(table.tables)))
    used = {name for one in table.tables for name in one.of}
    for place, one in enumerate(table.attributes):
        stated = bool(one.edges) or (one.kind == "number" and one.bins != USUAL_BINS)
        if stated and one.kind in ("number", "distribution") and one.name not in used:
            key = "edges" if one.edges else "bins"
            kind = "a graded attribute" if one.edges else "a distribution"
            message = f"{one.name}: {key} are for {kind}, or say where tables cut it: it is in none"
            raise Mistake(message, "attributes", place, key)


def _check_one(table: CampaignTable, place: int) -> None:
    one, names = table.tables[place], [attribute.name for attribute in table.attributes]
    where = ("tables", place, "of")
    if len(table.tables) > MOST_TABLES:
        raise Mistake(f"there are {MOST_TABLES} tables at most", "tables")
    if len(one.of) != 2 or len(set(one.of)) != 2:
        raise Mistake("a table is of two different attributes", *where)
    for name in one.of:
        if name not in names:
            raise Mistake(f"there is no attribute {name!r}", *where)
    budgets = {attribute.name for attribute in table.attributes if attribute.budgets}
    if own := sorted(budgets & set(one.of)):
        raise Mistake(f"{own[0]} has budgets of its own: no table has it", *where)
    if any(set(one.of) == set(other.of) for other in table.tables[:place]):
        raise Mistake(f"there are two tables of {' and '.join(one.of)}", *where)
    if name_of(one.of) in names:
        raise Mistake(f"an attribute has the name of this table, {name_of(one.of)!r}", *where)
    if one.share is not None and not 0 < one.share < 1:
        raise Mistake("share, how many of the people are asked it, is above 0 and below 1", *where)
    refused = {
        "repeat": table.repeat is not None,
        "levels": table.levels is not None,
        "sample": table.sample > 1,
        "strategy": table.strategy not in ("auto", "sample"),
    }
    for key in (key for key, found in refused.items() if found):
        raise Mistake(f"tables cannot be combined with {_said(key)}", key)


def _said(key: str) -> str:
    """Name a term that tables do not go with."""
    other = {"repeat": "[repeat]", "levels": "levels", "sample": "sample above 1"}
    return other.get(key, 'this strategy: say "sample", or leave it out')


def shared_out(
    table: CampaignTable,
    questions: Sequence[Question],
    budgets: Sequence[float],
    shares: Sequence[float],
    part: float,
) -> Shares:
    """Return the tables of a file, and what is left to the attributes of a part of the people.

    `shares` are those of the attributes among each other.
    """
    if not table.tables:
        return Shares([share * part for share in shares], [])
    made = gathered(partial(_made, table, questions, place) for place in range(len(table.tables)))
    least = [min(budgets[_place(table, name)] for name in one.of) for one in table.tables]
    told = [one.share for one in table.tables]
    own = _weights(table, questions, budgets, shares)
    pairs = list(zip(made, least, strict=True))
    others = [
        0.0 if share else _cost(question, epsilon, table.people)
        for share, (question, epsilon) in zip(told, pairs, strict=True)
    ]
    rest = part - sum(share or 0.0 for share in told)
    if rest <= 0:
        raise Mistake("the shares of tables leave nobody for the attributes", "tables", 0, "share")
    scale = rest / (sum(own) + sum(others))
    found = []
    for place, (question, epsilon) in enumerate(pairs):
        share = told[place] or others[place] * scale
        _require_enough(table, question, share, place)
        law = choose_frequency(epsilon, question.k or 2, share, table.people).mechanism
        found.append(Together(question, law, share))
    return Shares([weight * scale for weight in own], found)


def _weights(
    table: CampaignTable,
    questions: Sequence[Question],
    budgets: Sequence[float],
    shares: Sequence[float],
) -> list[float]:
    """Return how often attributes are asked by themselves, beside tables of weight `_cost`."""
    tabled = {name for one in table.tables for name in one.of}
    pairs = list(zip(questions, budgets, strict=True))
    whole = OFTEN * sum(_cost(question, epsilon, table.people) for question, epsilon in pairs)
    found = []
    for (question, epsilon), share in zip(pairs, shares, strict=True):
        along = min(1.0, max(0.0, (epsilon - FROM) / (UP_TO - FROM)))
        spared = question.name in tabled and not question.has_range
        found.append(whole * share * (1 - along * (1 - SELDOM) * spared))
    return found


def _cost(question: Question, epsilon: float, people: int) -> float:
    """Return n times the squared error of a share; of a mean, in parts of the range."""
    if question.k is None:
        return choose_numeric(epsilon, people=people).n_mse / 4
    return choose_frequency(epsilon, question.k, people=people).n_mse / question.k


def _made(table: CampaignTable, questions: Sequence[Question], place: int) -> Question:
    """Return the question that a table is."""
    one = table.tables[place]
    places = [_place(table, name) for name in one.of]
    try:
        sides = [Side(questions[at], _cuts(table.attributes[at])) for at in places]
        return Sides(*sides).question()
    except MurmurationError as problem:
        raise Mistake(str(problem), "tables", place, "of") from None


def _place(table: CampaignTable, name: str) -> int:
    return [one.name for one in table.attributes].index(name)


def _cuts(one: AttributeTable) -> tuple[float, ...]:
    """Return where an attribute says that it is cut."""
    if one.kind == "category":
        return ()
    if one.edges:
        return tuple(float(edge) + 0.0 for edge in one.edges)
    if one.kind != "number" or one.bins == USUAL_BINS or one.low is None or one.high is None:
        raise Mistake(
            f"{one.name}: a table needs to know where it is cut: say edges = [...] between low "
            "and high" + (", or bins = 5" if one.kind == "number" else ""),
            *("tables",),
        )
    width = (one.high - one.low) / one.bins
    ends = [one.low + width * place for place in range(one.bins + 1)]
    return tuple(float(end) + 0.0 for _, end in pairwise(ends[:-1]))


def _require_enough(table: CampaignTable, question: Question, share: float, place: int) -> None:
    """Refuse a table that most likely too few people are asked to show any of it."""
    enough = table.cohort + 4 * math.sqrt(table.cohort)
    if share * table.people < enough:
        raise Mistake(
            f"{question.name}: {share * table.people:,.0f} of {table.people:,} people would be "
            f"asked this table, and nothing is shown about fewer than {table.cohort:,}: expect "
            "more people, ask fewer tables, or say a share",
            *("tables", place, "of"),
        )
