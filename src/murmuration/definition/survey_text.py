"""The collection of a campaign that asks for figures: its keys, its sizes, the campaign of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from murmuration.campaign.levels import FREELY, Levels
from murmuration.campaign.question import TABLE, Question
from murmuration.campaign.spells import Spells
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.table import completed
from murmuration.campaign.terms import Terms
from murmuration.definition.text import Collection, Reader, question_of
from murmuration.errors import FormatError
from murmuration.mechanisms.base import Mechanism, checked_epsilon
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.registry import from_document
from murmuration.mechanisms.strategy import strategy_of

MOST_CELLS, MOST_ITEMS = 2048, 1 << 18
"""Of laws, and of items over all laws: a device looks at no more, before it has read anything. What
is as large as that takes some seconds to audit."""
TABLE_KEYS = {"name", "kind", "of", "cuts"}
MOST_COMPARED, PER_PAIR = 1 << 24, 64
"""Of comparisons between ranges, over all laws: each two ranges, symbol by symbol, and `PER_PAIR`
more for what is done once."""


class Cell(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A law, and what it is for; keys in the order in which they are written."""

    attributes: tuple[int, ...]
    level: int | None = None
    mechanism: str
    parameters: dict[str, Any]
    law: dict[str, Any]


class SurveyCollection(Collection, frozen=True, kw_only=True):
    """What affects a report: keys in the order in which they are written; not at their default."""

    campaign: str
    epsilon: float
    strategy: str
    sample: int = 1
    ends: tuple[int, ...] | None = None
    levels: dict[str, float] | None = None
    chosen: str = FREELY
    limit: float | None = None
    accept_loss: str | None = None
    rounds: int = 1
    every: str | None = None
    first: int | None = None
    spell: int | None = None
    attributes: list[dict[str, Any]]
    cells: list[Cell]


def _excess(collection: SurveyCollection) -> str:
    """Say in what a collection is larger than a device reads, if it is."""
    labels = _labels(collection.attributes)
    items = sum(labels[place] for cell in collection.cells for place in cell.attributes)
    compared = sum(map(_comparisons, collection.cells))
    sizes = (
        (len(collection.cells), MOST_CELLS, "laws"),
        (items, MOST_ITEMS, "items"),
        (compared, MOST_COMPARED, "comparisons between ranges"),
    )
    for many, most, what in sizes:
        if many > most:
            return f"{many:,} {what}, and devices read {most:,} at most"
    return ""


def _labels(attributes: Sequence[dict[str, Any]]) -> list[int]:
    """Return how many labels each attribute has; a table has those of its cells."""
    by_name = {str(table.get("name")): len(table.get("labels", ())) + 1 for table in attributes}
    found = []
    for table in attributes:
        pairs = zip(table.get("of", ()), table.get("cuts", ()), strict=False)
        sides = [max(by_name.get(str(name), 0), len(cuts) + 2) for name, cuts in pairs]
        found.append(math.prod(sides) if sides else len(table.get("labels", ())))
    return found


def _comparisons(cell: Cell) -> int:
    ranges, symbols = cell.parameters.get("epsilon"), cell.law.get("values")
    rows = cell.law.get("weights")
    if symbols is None and isinstance(rows, list) and rows:
        symbols = rows[0]
    if not isinstance(ranges, list) or not isinstance(symbols, list):
        return 0
    return len(ranges) ** 2 * (len(symbols) + PER_PAIR)


def _campaign(collection: SurveyCollection, terms: Terms) -> SurveyCampaign:
    levels = None if collection.levels is None else Levels.checked(collection.levels)
    if levels is None and collection.chosen != FREELY:
        raise FormatError("`chosen` needs levels")
    levels = levels and replace(levels, chosen=collection.chosen)
    questions = _questions(collection.attributes)
    strategy = strategy_of(collection.strategy, collection.sample, collection.ends)
    epsilon = checked_epsilon(collection.epsilon)
    for part in levels.budgets(epsilon) if levels else ():
        checked_epsilon(part)
    return SurveyCampaign(
        name=collection.campaign,
        terms=terms,
        questions=questions,
        frame=Frame(_groups(collection.cells, strategy.grouped(len(questions)), levels), strategy),
        epsilon=epsilon,
        levels=levels,
        limit=collection.limit,
        accept_loss=collection.accept_loss,
        max_reports=collection.rounds,
        every=collection.every,
        spells=_spells(collection),
    ).admitted()


def _questions(attributes: Sequence[dict[str, Any]]) -> tuple[Question, ...]:
    """Return the questions in their order; tables are made of others."""
    plain = {place: question_of(one) for place, one in enumerate(attributes) if "of" not in one}
    tables = {place: one for place, one in enumerate(attributes) if "of" in one}
    made = completed(list(tables.values()), list(plain.values()))
    questions = plain | dict(zip(tables, made, strict=True))
    for place, one in tables.items():
        if set(one) != TABLE_KEYS or (one["name"], one["kind"]) != (questions[place].name, TABLE):
            raise FormatError("a table has a name of its attributes, and no other keys")
    return tuple(questions[place] for place in range(len(attributes)))


def _spells(collection: SurveyCollection) -> Spells | None:
    if collection.first is None and collection.spell is None:
        return None
    if collection.first is None or collection.spell is None:
        raise FormatError("spells need both a first period and a length")
    return Spells(collection.first, collection.spell, collection.rounds)


def _groups(
    cells: Sequence[Cell], groups: Sequence[tuple[int, ...]], levels: Levels | None
) -> tuple[tuple[Mechanism, ...], ...]:
    """Return the laws by group, if each is where it says it belongs."""
    choices = [None] if levels is None else range(len(levels))
    places = [(attributes, level) for attributes in groups for level in choices]
    if [(cell.attributes, cell.level) for cell in cells] != places:
        raise FormatError(f"this campaign has {len(places)} cells, by attribute and level")
    laws = [from_document(_law(cell)) for cell in cells]
    per = len(choices)
    return tuple(tuple(laws[start : start + per]) for start in range(0, len(laws), per))


def _law(cell: Cell) -> dict[str, Any]:
    return {"mechanism": cell.mechanism, "parameters": cell.parameters, "law": cell.law}


READER = Reader(SurveyCollection, _campaign, _excess)
