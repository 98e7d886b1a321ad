"""Campaign files with `kind = "model"`: the keys of a training, and the training that they mean.

    kind = "model"
    model = "logistic"          # or "linear", "svm"
    deadline = "6 h"            # of a round: a whole number and s, min, h or days; or seconds
    [[features]]                # numbers with a range, categories with labels
    [target]                    # a number, or two labels

Every mistake says which key it is about; `load` knows the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import ClassVar, Literal

import msgspec

from murmuration.campaign.question import REFUSE, Question
from murmuration.definition.form import Form
from murmuration.definition.schema import (
    AttributeTable,
    FileTable,
    Mistake,
    Mistakes,
    Table,
    budget_of,
    gathered,
    question_of,
    terms_mistakes,
)
from murmuration.errors import MurmurationError
from murmuration.training.algorithm.legs import OTHERS
from murmuration.training.campaign import (
    DEADLINE,
    LONGEST,
    MOST_COLUMNS,
    SHORTEST,
    Feature,
    TrainingCampaign,
    check_target,
    laws_for,
)

UNITS = {"s": 1, "min": 60, "h": 3600, "day": 86_400, "days": 86_400}
SPAN = re.compile(r"([1-9][0-9]{0,8}) ?(s|min|h|days?)")
MECHANISMS = ("auto", "privunit")


class FeatureTable(Table, frozen=True):
    """One [[features]] of the file, or its [target]."""

    name: str
    kind: Literal["number", "category"] = "number"
    low: float | None = None
    high: float | None = None
    unit: str = ""
    labels: list[str] = msgspec.field(default_factory=list)
    outside: str | None = None
    case: Literal["exact", "ignore"] = "exact"
    typical: tuple[float, float] | None = None


class ModelTable(FileTable, frozen=True, kw_only=True):
    """A file that trains a model."""

    kind: Literal["model"]
    model: Literal["linear", "logistic", "svm"]
    epsilon: float
    features: list[FeatureTable]
    target: FeatureTable
    mechanism: str = "auto"
    rounds: int | None = None
    deadline: str | int = DEADLINE

    counted: ClassVar[frozenset[str]] = frozenset({"people"})
    """How many people are expected decides what a training asks."""


def check(table: ModelTable, passed_over: Collection[int] = ()) -> None:
    """Refuse what can be seen without building a law: all of it together."""
    places = [place for place in range(len(table.features)) if place not in passed_over]
    steps: list[Callable[[], object]] = [
        partial(_check_keys, table),
        *(partial(_feature, table.features[place], "features", place) for place in places),
        partial(_target, table),
    ]
    gathered(steps)


def resolve(table: ModelTable) -> TrainingCampaign:
    """Build the laws of a training, and audit them."""
    features = tuple(_feature(feature, "features", at) for at, feature in enumerate(table.features))
    try:
        return TrainingCampaign(
            name=table.name,
            terms=table.terms,
            model=table.model,
            features=features,
            target=_target(table),
            epsilon=table.epsilon,
            laws=laws_for(table.epsilon, table.model, features),
            rounds=table.rounds,
            deadline=seconds_of(table.deadline),
        ).admitted()
    except MurmurationError as problem:
        raise Mistake(str(problem), "features") from None


def seconds_of(deadline: str | int) -> int:
    """Return the deadline of a round in seconds.

    >>> seconds_of("6 h"), seconds_of("2 days"), seconds_of(90)
    (21600, 172800, 90)
    """
    if isinstance(deadline, str):
        match = SPAN.fullmatch(deadline)
        seconds = int(match[1]) * UNITS[match[2]] if match else 0
    else:
        seconds = deadline
    if not SHORTEST <= seconds <= LONGEST:
        raise Mistake(
            'the deadline of a round is a whole number and s, min, h or days, as "6 h", or seconds,'
            " up to 366 days",
            "deadline",
        )
    return seconds


def _check_keys(table: ModelTable) -> None:
    wrong = list(terms_mistakes(table))
    columns = sum(max(len(feature.labels) - 1, 1) for feature in table.features)
    most = table.rounds is None or OTHERS < table.rounds <= 1000
    rules = [
        ("features", table.features, "there is at least one feature"),
        ("features", columns <= MOST_COLUMNS, f"features are {MOST_COLUMNS:,} columns at most"),
        ("rounds", most, f"rounds, the largest number of rounds, must be {OTHERS + 1} to 1000"),
        (
            "mechanism",
            table.mechanism in MECHANISMS,
            f"a training's mechanism is {' or '.join(MECHANISMS)}, which is the same",
        ),
    ]
    wrong += [Mistake(message, key) for key, fine, message in rules if not fine]
    for step in (partial(budget_of, table.epsilon, "epsilon"), partial(seconds_of, table.deadline)):
        try:
            step()
        except Mistake as mistake:
            wrong.append(mistake)
    wrong += _names(table)
    if wrong:
        raise Mistakes(wrong)


def _names(table: ModelTable) -> Iterator[Mistake]:
    names = [feature.name for feature in table.features]
    for place, name in enumerate(names):
        if name in names[:place]:
            yield Mistake(f"two features are called {name!r}", "features", place, "name")
    if table.target.name in names:
        yield Mistake(f"the target {table.target.name!r} is a feature, too", "target", "name")


def _question(feature: FeatureTable, *path: str | int) -> Question:
    given = AttributeTable(
        name=feature.name,
        kind=feature.kind,
        low=feature.low,
        high=feature.high,
        unit=feature.unit,
        labels=feature.labels,
        outside=feature.outside,
        case=feature.case,
    )
    if feature.outside == REFUSE:
        message = "outside = 'refuse' would make devices silent, which can be seen: leave it out"
        raise Mistake(f"{feature.name}: {message}", *path, "outside")
    return question_of(0, given, path)


def _feature(feature: FeatureTable, *path: str | int) -> Feature:
    question = _question(feature, *path)
    try:
        typical = (
            None
            if feature.typical is None
            else (feature.typical[0] + 0.0, feature.typical[1] + 0.0)
        )
        return Feature(question, typical)
    except MurmurationError as problem:
        raise Mistake(str(problem), *path, "typical") from None


def _target(table: ModelTable) -> Question:
    if table.target.typical is not None:
        raise Mistake("the target has its range: typical is for features", "target", "typical")
    question = _question(table.target, "target")
    try:
        check_target(table.model, question)
    except MurmurationError as problem:
        key = "labels" if question.kind == "category" else "kind"
        raise Mistake(str(problem), "target", key) from None
    return question


FORM = Form(
    makes=TrainingCampaign,
    table=ModelTable,
    tables={"features": FeatureTable, "target": FeatureTable},
    check=check,
    resolve=resolve,
    kinds=("number", "category"),
    elsewhere={
        "attributes": "a campaign that trains a model has [[features]] and a [target], no "
        "attributes"
    },
)
