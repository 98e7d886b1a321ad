"""A campaign that trains a model: people's features and target, asked by one question a person.

    model        "linear" (a number), "logistic" or "svm" (one of two labels)
    features     numbers with ranges, categories with labels: as columns of numbers (`Feature`)
    target       a number, or a category of two labels: a number y in [-1, 1], or -1 and 1
    laws         by which every answer of every round is randomised; published, audited at once

What is asked is not known when the campaign begins: it follows, round by round, from the answers
(`training.round`, `training.run`). What it costs is: one report a device in all rounds, by one of
the laws that are in this document. Like any campaign it is one JSON text, and has a digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.audit import admission
from murmuration.campaign.kind import WIRE
from murmuration.campaign.question import Question
from murmuration.campaign.survey import encoded, unusual
from murmuration.campaign.terms import Terms
from murmuration.errors import (
    InputError,
    ParameterError,
    PromiseError,
)
from murmuration.exact.arrays import Floats, Rows
from murmuration.exact.exponential import within
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Ball, Items, Number, described, table_columns
from murmuration.mechanisms.registry import to_document
from murmuration.planning.candidates import VECTOR
from murmuration.training.algorithm.arithmetic import logistic_table
from murmuration.training.algorithm.legs import OTHERS, OTHERS_CLASS, ROUNDS
from murmuration.training.algorithm.losses import Objective, objective
from murmuration.training.algorithm.questions import BINS, COLUMN_POINTS, Attribute, Laws
from murmuration.training.algorithm.state import Setting

MODELS = {"linear": "squared", "logistic": "logistic", "svm": "hinge"}
"""What a model of each kind minimises."""
MOST_COLUMNS = 1023
"""Of numbers that a person's features become: a gradient has one more."""
MOST_LAWS = 64
"""For a number, two lengths of vectors, and items: features have so many different numbers of
labels at most."""
FARTHEST = float(1 << 20)
"""An encoded feature is not beyond this, however narrow its typical range is."""
SPARE = 4.0
"""Standard deviations by which a role is planned for more people than the cohort."""
DEADLINE, SHORTEST, LONGEST = 86_400, 1, 366 * 86_400
"""Seconds of a round, after which it is closed with those who came: usual, least and most."""
SLOW, FEW_ROUNDS = 3600, 25
"""Where a round may take so many seconds there are so many rounds at most, if nobody says: what is
learnt is the same within noise (`experiments/siblings.py`)."""


@dataclass(frozen=True)
class Feature:
    """One attribute that the model learns from.

    A number of the range low to high is u = 2 (v - low)/(high - low) - 1; with a `typical` range
    (a, b), whose ends are A and B on that scale, (u - (A + B)/2) / ((B - A)/2). A category of k
    labels is k - 1 columns: 1 for the label that it is, else 0; the last label is all zeros.

    >>> Feature(Question("age", low=0, high=100), (25, 75)).columns(np.array([-0.5, 1.0])).tolist()
    [[-1.0, 2.0]]
    >>> Feature(Question("home", "category", labels=("rent", "own", "else"))).names
    ('home=rent', 'home=own')
    """

    question: Question
    typical: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        name = self.question.name
        if self.question.kind not in ("number", "category"):
            raise ParameterError(f"{name}: a feature is a number or a category")
        if self.question.missing:
            raise ParameterError(
                f"{name}: a model needs a value from everybody: use a label for no answer, not "
                "missing"
            )
        if self.typical is None:
            return
        if self.question.kind == "category":
            raise ParameterError(f"{name}: a category has labels, not a typical range")
        (low, high), (a, b) = self.question.range, self.typical
        if not low <= a < b <= high or not all(map(math.isfinite, self._typical)):
            raise ParameterError(f"{name}: typical is a range within {low:g} to {high:g}")
        if self._typical[1] * FARTHEST < 2:
            raise ParameterError(f"{name}: the typical range is too narrow for {low:g} to {high:g}")

    @property
    def _typical(self) -> tuple[float, float]:
        """The middle of the typical range and half of it, on the scale from -1 to 1."""
        if self.typical is None:
            return 0.0, 1.0
        low, high = self.question.range
        a, b = (2 * ((end - low) / (high - low)) - 1 for end in self.typical)
        return (a + b) / 2, (b - a) / 2

    @property
    def width(self) -> int:
        """How many columns it becomes."""
        return len(self.question.labels) - 1 if self.question.labels else 1

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names: `age`, or `home=rent`, ..."""
        if not self.question.labels:
            return (self.question.name,)
        return tuple(f"{self.question.name}={label}" for label in self.question.labels[:-1])

    def columns(self, values: NDArray[np.generic]) -> Floats:
        """Return encoded answers (`Question.encode`) as rows of numbers, a column a person."""
        if self.question.labels:
            return np.where(values == np.arange(self.width)[:, None], 1.0, 0.0)
        if self.typical is None:
            return values.astype(np.float64)[None]
        middle, half = self._typical
        return np.asarray((values.astype(np.float64) - middle) / half)[None]

    def units(self) -> tuple[tuple[float, float], ...]:
        """Return each column as (at 0, by one unit): a number v is at + by v, a label at + by."""
        if self.question.labels:
            return ((0.0, 1.0),) * self.width
        (low, high), (middle, half) = self.question.range, self._typical
        by = 2 / (high - low) / half
        return (((-1 - middle) / half - by * low, by),)


@dataclass(frozen=True)
class TrainingCampaign:
    """What is learnt from whom, and by which laws people answer.

    name, terms, epsilon: as in any campaign; `terms.people` also plans the training
    model: "linear", "logistic" or "svm"
    features, target: the attributes
    laws: for a number, for vectors of each length in `dimensions`, for one of as many as in `items`
    rounds: the most there may be; None: as many as the library's training takes (41, or 25 where a
        round may take an hour or more)
    deadline: seconds after which a round is closed with those who came
    """

    name: str
    terms: Terms
    model: str
    features: tuple[Feature, ...]
    target: Question
    epsilon: float
    laws: tuple[Mechanism, ...]
    rounds: int | None = None
    deadline: int = DEADLINE

    kind = "model"
    use = (
        "trains a model, and has no figures of attributes: a device answers it with `train`, "
        "`murmur status` says how far it is, `murmur model` reads what it ends with"
    )
    accept_loss = None
    """A training's laws keep their promise: there is no other way."""
    limit = None
    """One device sends one report."""
    every = None
    repeated = False
    lasting = ("cohort",)
    """How many people each question is asked of follows from it."""

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ParameterError(f"model is one of {', '.join(MODELS)}; got {self.model!r}")
        if not self.features or self.width > MOST_COLUMNS:
            raise ParameterError(
                f"a training has 1 or more features, of {MOST_COLUMNS} columns at most"
            )
        if len({question.name for question in self.questions}) != len(self.questions):
            raise ParameterError("two attributes have the same name")
        if self.rounds is not None and not OTHERS < self.rounds <= 1000:
            raise ParameterError(
                f"rounds, the largest number of rounds, must be {OTHERS + 1} to 1000"
            )
        if not SHORTEST <= self.deadline <= LONGEST:
            raise ParameterError("the deadline of a round must be 1 second to 366 days")
        check_target(self.model, self.target)
        self._check_laws()

    def _check_laws(self) -> None:
        """Refuse laws that are not for what a training asks."""
        number, *others = self.laws or (None,)
        vectors, items = others[: len(self.dimensions)], others[len(self.dimensions) :]
        fits = number is not None and number.domain.fits(Number()) and not number.memoised
        fits &= [(law.name, law.domain) for law in vectors] == [
            (VECTOR, Ball(d)) for d in self.dimensions
        ]
        fits &= [law.domain for law in items] == [Items(k) for k in self.items]
        if not fits or any(law.memoised for law in items):
            raise ParameterError(
                f"a training has a law for a number, {VECTOR} for vectors of "
                f"{', '.join(map(str, self.dimensions))} numbers, and laws for one of "
                f"{', '.join(map(str, self.items))} items"
            )

    # --- what it is -----------------------------------------------------------------------------

    @property
    def questions(self) -> tuple[Question, ...]:
        """All attributes, the target last."""
        return (*(feature.question for feature in self.features), self.target)

    @property
    def summary(self) -> str:
        """What it asks of whom, in one sentence without its name."""
        return (
            f"trains a {self.model} model of {self.target.name} from {self.terms.people:,} people, "
            "one report each, in rounds that close at their size, or after "
            f"{self.deadline:,} s with those who came"
        )

    @cached_property
    def width(self) -> int:
        """How many numbers a person's features become."""
        return sum(feature.width for feature in self.features)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of these numbers."""
        return tuple(name for feature in self.features for name in feature.names)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The lengths of the vectors that people are asked for."""
        return 1, self.width + 1

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """Which columns are whose."""
        firsts = accumulate((feature.width for feature in self.features), initial=0)
        labels = (bool(feature.question.labels) for feature in self.features)
        return tuple(
            Attribute(first, feature.width, of_labels)
            for first, feature, of_labels in zip(firsts, self.features, labels, strict=False)
        )

    @property
    def items(self) -> tuple[int, ...]:
        """How many items people are asked for one of: a feature's, or the target's ranges."""
        parts = {BINS} if self.model == "linear" else set()
        return tuple(sorted({attribute.items for attribute in self.attributes} | parts))

    @property
    def objective(self) -> Objective:
        """What is minimised."""
        return objective(MODELS[self.model])

    @cached_property
    def law_of(self) -> Laws:
        """The laws, by what they are for."""
        return Laws(self.epsilon, self.laws)

    @cached_property
    def setting(self) -> Setting:
        """What `AdaptiveTraining` is to know."""
        return Setting(
            objective=self.objective,
            people=self.terms.people,
            features=self.width,
            epsilon=self.epsilon,
            rounds=self._capped,
            least=self.least,
            laws=self.law_of,
            attributes=self.attributes,
        )

    @property
    def _capped(self) -> int | None:
        """The largest number of rounds, where there is one beside the library's own."""
        return FEW_ROUNDS if self.rounds is None and self.deadline >= SLOW else self.rounds

    @property
    def most_rounds(self) -> int:
        """How many rounds there are at most."""
        most = ROUNDS + (OTHERS if self.target.k is None else OTHERS_CLASS)
        return min(most, self._capped or most)

    @cached_property
    def least(self) -> int:
        """The fewest people whom a role is planned for.

        Devices draw their roles, so a few less than planned may come: hardly ever less than the
        cohort.
        """
        return self.terms.cohort + math.ceil(SPARE * math.sqrt(self.terms.cohort))

    @cached_property
    def text(self) -> str:
        """Everything that affects a report of any round, as JSON: what is digested."""
        return json.dumps(self._collection(), separators=(",", ":"), allow_nan=False)

    def _collection(self) -> dict[str, Any]:
        usual: dict[str, Any] = {} if self.rounds is None else {"rounds": self.rounds}
        table = {"logistic": logistic_table()} if self.model == "logistic" else {}
        return {
            "wire": WIRE,
            "kind": self.kind,
            "campaign": self.name,
            "model": self.model,
            "epsilon": self.epsilon,
            "people": self.terms.people,
            "deadline": self.deadline,
            **usual,
            **table,
            "features": [_feature_table(feature) for feature in self.features],
            "target": unusual(self.target),
            "laws": [to_document(law) for law in self.laws],
        }

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text. Each round's document names it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def with_terms(self, terms: Terms) -> TrainingCampaign:
        """Return this campaign with other terms."""
        return replace(self, terms=terms)

    # --- auditor ---------------------------------------------------------------------------------

    @cached_property
    def _loss(self) -> Loss:
        return max((law.loss() for law in self.laws), key=lambda loss: loss.epsilon)

    def loss(self) -> Loss:
        """Return the exact loss of one report, whatever a round asks: the largest of all laws."""
        return self._loss

    @property
    def charge(self) -> float:
        """What a device's ledger is charged, once for all rounds."""
        return self.costliest()[0].charge

    def costliest(self) -> list[Mechanism]:
        """Return the law that is charged most: a report is by one."""
        return [max(self.laws, key=lambda law: law.charge)]

    def open_periods(self, now: datetime) -> range:
        """A training has no periods: all of its reports are of period 0."""
        del now
        return range(1)

    def admitted(self) -> TrainingCampaign:
        """Return this campaign, or refuse a law that leaks more than epsilon, with the numbers."""
        for law in self.laws:
            loss = admission.require_kept(law)
            over = Fraction(law.budget) > Fraction(self.epsilon)
            if over or loss.ratio is None or not within(loss.ratio, self.epsilon):
                raise PromiseError(
                    f"{self.name}: a report costs {loss.epsilon!r} where {self.epsilon!r} is "
                    "promised"
                )
        return self

    # --- device ----------------------------------------------------------------------------------

    def encode(
        self,
        features: Any,
        target: Any,
        rng: Rng | Mapping[str, Rng],
        never_silent: bool = False,
    ) -> tuple[Floats, Floats]:
        """DEVICE. Return people's features as rows of numbers, and their targets.

        `features` are columns by name; `rng` draws labels for invalid answers, or there is
        one for each attribute's name.
        """
        answers = {**_by_name(features), self.target.name: target}
        *values, y = encoded(self.questions, answers, rng, never_silent)
        parts = [f.columns(one) for f, one in zip(self.features, values, strict=True)]
        x = np.ascontiguousarray(np.concatenate(parts).T) + 0.0  # 0 has no sign
        signs = self.target.kind == "category"
        return x, np.where(y == 1, 1.0, -1.0) if signs else y.astype(np.float64) + 0.0

    def written(self, x: Floats, y: Floats) -> Rows:
        """DEVICE. Return each person's row of bytes that keyed words follow from.

        Features, then the target, each a 64-bit float, little-endian.
        """
        whole = np.column_stack([x, y]).astype("<f8")
        return whole.view(np.uint8).reshape(len(whole), -1)


def check_target(model: str, target: Question) -> None:
    """Refuse a target that this kind of model does not have."""
    if target.missing:
        raise ParameterError(f"{target.name}: the target cannot be missing")
    if model == "linear" and target.kind != "number":
        raise ParameterError(f"{target.name}: the target of a linear model is a number")
    if model != "linear" and (target.kind != "category" or len(target.labels) != 2):
        raise ParameterError(
            f"{target.name}: the target of a {model} model is a category of two labels"
        )


def laws_for(epsilon: float, model: str, features: Sequence[Feature]) -> tuple[Mechanism, ...]:
    """Return the library's laws for a training on these features."""
    laws, width = Laws(epsilon), sum(feature.width for feature in features)
    items = {len(feature.question.labels) or COLUMN_POINTS for feature in features}
    items |= {BINS} if model == "linear" else set()
    return laws.number, laws.vector(1), laws.vector(width + 1), *map(laws.items, sorted(items))


def _by_name(features: Any) -> dict[str, Any]:
    found = table_columns(features)
    if found is None:
        raise InputError(
            f"features must be a mapping by name, or a DataFrame; got {described(features)}"
        )
    return dict(found)


def _feature_table(feature: Feature) -> dict[str, Any]:
    typical = {} if feature.typical is None else {"typical": list(feature.typical)}
    return {**unusual(feature.question), **typical}
