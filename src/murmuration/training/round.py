"""One round of a training: what its people are asked, at which model, by which laws.

A round has *roles*. Each is a question (`training.algorithm.questions`), its numbers, one of the
laws of the campaign's document, and a share of the people. A device draws its role by a public
coin that never looks at the answer, so a report is an entry of a `Frame` like any other: the role's
number, then the octets of its law. Everything that affects a report is one JSON text, and its
digest is on every report of the round.

The document is not trusted: its digest, one way to write it, bounds for every number, laws of the
campaign only. Whatever the numbers are, the value that goes into a law is clamped to its domain.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from murmuration.campaign.form import ReportForm
from murmuration.campaign.kind import WIRE
from murmuration.errors import FormatError, MismatchError, MurmurationError, ParameterError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.loss import Loss
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Sample
from murmuration.training.algorithm.questions import DIVISORS, ROLES, Model, Question
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.chain import RoundLink, is_digest

FORMAT = 1
MOST_BYTES, MOST_ROLES, MOST_ROUNDS = 1 << 20, 1024, 1 << 20
LARGEST = 2.0**100
"""No number of a round is beyond this, and none that is divided by is below 1/this: so nothing
that a device works out overflows, or is divided by 0."""

WRITTEN_AS = {"intercept": "level"}
"""What a name of Python is called in a document; the others are called the same."""
MODEL_KEYS = ("weights", "level", "centre", "scale")


def numbers_of(kind: type[Question]) -> dict[str, str]:
    """Return the numbers of a role by their keys in a document, in order."""
    return {WRITTEN_AS.get(name, name): name for name in kind.numbers}


@dataclass(frozen=True, eq=False)
class Round:
    """A round that is open, or was.

    campaign: the training
    number: 1 for the first
    questions: the roles; `people` in them is how many are expected (0 on a device)
    ends: the shares of the roles, as cumulative weights out of 2^52; None: all alike
    closes: when it is closed with those who came; nothing here changes a report
    people: how many it takes, as its document says, where the questions do not
    after: the digest of the round before; left out: the campaign's, which the first one follows
    """

    campaign: TrainingCampaign
    number: int
    questions: tuple[Question, ...]
    ends: tuple[int, ...] | None
    closes: datetime | None = None
    people: int = 0
    after: str = ""

    def __post_init__(self) -> None:
        if not self.after:
            object.__setattr__(self, "after", self.campaign.digest)
        if not is_digest(self.after) or (self.number == 1) != (self.after == self.campaign.digest):
            raise ParameterError(
                "a round names the digest of the round before, and the first one the campaign's"
            )
        if not 1 <= self.number <= MOST_ROUNDS or not 1 <= len(self.questions) <= MOST_ROLES:
            raise ParameterError(f"a round has a number, and 1 to {MOST_ROLES} roles")
        if self.ends == ():
            raise ParameterError("with one role, ends must be left out (None)")
        for question in self.questions:
            _check(self.campaign, question)
        _ = self.frame  # refused now, not when it is used

    @classmethod
    def of(
        cls,
        campaign: TrainingCampaign,
        number: int,
        questions: Sequence[Question],
        closes: datetime | None = None,
        after: str = "",
    ) -> Round:
        """COLLECTOR. Return the round that asks these questions, of as many people as they say."""
        shares = Sample.by_shares([question.people for question in questions])
        return cls(campaign, number, tuple(questions), shares.ends, closes, after=after)

    @property
    def name(self) -> str:
        """The campaign's."""
        return self.campaign.name

    @property
    def size(self) -> int:
        """How many people it takes: with as many reports it is closed."""
        return sum(question.people for question in self.questions) or self.people

    @cached_property
    def frame(self) -> Frame:
        """The laws of the roles: a report names one of them."""
        cells = tuple((question.mechanism,) for question in self.questions)
        return Frame(cells, Sample(1, self.ends))

    @cached_property
    def form(self) -> ReportForm:
        """What its reports are made for. A training has no periods: everybody answers once."""
        return ReportForm(self.name, self.digest, self.frame)

    def loss(self) -> Loss:
        """AUDITOR. The exact loss of one report of this round."""
        return self.frame.loss(self.campaign.epsilon)

    # --- as JSON ---------------------------------------------------------------------------------

    @cached_property
    def text(self) -> str:
        """Everything that affects a report of this round: what is digested."""
        return json.dumps(self._table(), separators=(",", ":"), allow_nan=False)

    def _table(self) -> dict[str, Any]:
        models = self._models
        ends = {} if self.ends is None else {"ends": list(self.ends)}
        return {
            "wire": WIRE,
            "training": self.campaign.digest,
            "round": self.number,
            "after": self.after,
            "models": models,
            "roles": [self._role(question, models) for question in self.questions],
            **ends,
        }

    @cached_property
    def _models(self) -> list[dict[str, Any]]:
        """The different models of all roles, in the order in which they are named."""
        tables: list[dict[str, Any]] = []
        for question in self.questions:
            for key in question.models:
                if (table := _model_table(getattr(question, key))) not in tables:
                    tables.append(table)
        return tables

    def _role(self, question: Question, models: Sequence[dict[str, Any]]) -> dict[str, Any]:
        at = {k: models.index(_model_table(getattr(question, k))) for k in question.models}
        names = numbers_of(type(question)).items()
        numbers = {key: _number(getattr(question, name)) for key, name in names}
        wholes = {key: getattr(question, key) for key in question.wholes}
        law = self.campaign.laws.index(question.mechanism)
        return {"ask": question.ask, "law": law, **at, **wholes, **numbers}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text. It is on every report of the round."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def asks(self) -> list[str]:
        """What each role asks: a column's with the name of its attribute."""
        features = self.campaign.features
        return [
            " ".join([one.ask, *(features[getattr(one, key)].question.name for key in one.wholes)])
            for one in self.questions
        ]

    @property
    def link(self) -> RoundLink:
        """Its place in the chain of rounds."""
        return RoundLink(self.number, self.digest, self.after)

    @property
    def model(self) -> Model | None:
        """The model that this round asks about; None before there is any."""
        for question in self.questions:
            if "model" in question.models:
                model: Model = getattr(question, "model")  # noqa: B009 - these have one
                return model
        return None

    # --- device ----------------------------------------------------------------------------------

    def values(self, role: int, x: Floats, y: Floats) -> Floats | Ints:
        """DEVICE. Return what people with these encoded answers randomise in a role."""
        return self.questions[role].values(x, y)


# --- the published document ----------------------------------------------------------------------


class RoundDocument(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A round as it travels: `asked` is its text."""

    format: int
    campaign: str
    round: int
    digest: str
    people: int
    closes: datetime | None
    asked: str


class AskedTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a round asks: keys in the order in which they are written."""

    wire: int
    training: str
    round: int
    after: str
    models: list[dict[str, Any]]
    roles: list[dict[str, Any]]
    ends: tuple[int, ...] | None = None


def publish(opened: Round) -> bytes:
    """Return a round's document."""
    document = RoundDocument(
        format=FORMAT,
        campaign=opened.campaign.name,
        round=opened.number,
        digest=opened.digest,
        people=opened.size,
        closes=opened.closes,
        asked=opened.text,
    )
    return msgspec.json.encode(document)


def read(data: bytes, campaign: TrainingCampaign) -> Round:
    """Return the round of a document, or say what is wrong with it. Nothing is trusted."""
    if len(data) > MOST_BYTES:
        raise FormatError(f"a round's document has {MOST_BYTES:,} bytes at most")
    try:
        document = msgspec.json.decode(data, type=RoundDocument)
        table = msgspec.json.decode(document.asked, type=AskedTable)
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as problem:
        raise FormatError(f"this is not a published round: {problem}") from None
    if document.format != FORMAT or table.wire != WIRE:
        raise FormatError(
            "the round is in a format that this program cannot read: a newer one is needed"
        )
    if hashlib.sha256(document.asked.encode()).hexdigest() != document.digest:
        raise FormatError("the round's digest is not that of its text: it was changed")
    if table.training != campaign.digest or document.campaign != campaign.name:
        raise MismatchError("the round belongs to another campaign. Nothing was sent.")
    if document.round != table.round:
        raise FormatError("the number of the round differs inside and outside its text")
    try:
        opened = _round(campaign, table, document)
    except MurmurationError as problem:
        raise FormatError(f"the round cannot be used: {problem}") from None
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the round cannot be read: {problem}") from None
    if opened.text != document.asked:
        raise FormatError(
            "the round is not written as it is published: another spelling of the same words has "
            "another digest, which could tell devices apart"
        )
    return opened


def _round(campaign: TrainingCampaign, table: AskedTable, document: RoundDocument) -> Round:
    if len(table.roles) > MOST_ROLES or len(table.models) > 2 * MOST_ROLES:
        raise FormatError(f"a round has {MOST_ROLES} roles at most")
    models = [_model(campaign, model) for model in table.models]
    questions = tuple(_question(campaign, role, models) for role in table.roles)
    if document.people < 0:
        raise FormatError("the number of people of a round cannot be negative")
    return Round(
        campaign,
        table.round,
        questions,
        table.ends,
        document.closes,
        document.people,
        table.after,
    )


def _question(
    campaign: TrainingCampaign, role: dict[str, Any], models: Sequence[Model]
) -> Question:
    """Return the question of a role; its people are not known to a device."""
    given = dict(role)
    ask, law = given.pop("ask"), given.pop("law")
    kind = ROLES[ask]
    parameters: dict[str, Any] = {"people": 0, "laws": campaign.law_of}
    for key in kind.models:
        parameters[key] = models[_place(given.pop(key), len(models))]
    for key, name in numbers_of(kind).items():
        number = _finite(given.pop(key))
        parameters[name] = np.array([number]) if name in kind.lists else number
    for key in kind.wholes:
        parameters[key] = _place(given.pop(key), len(campaign.features))
    known = {"objective": campaign.objective, "dimensions": kind.length(campaign.width)}
    if "feature" in parameters:
        known["attribute"] = campaign.attributes[parameters["feature"]]
    fields = {field.name for field in dataclasses.fields(kind)}
    parameters |= {key: value for key, value in known.items() if key in fields}
    if given:
        raise FormatError("a role has an unknown key")
    question = kind(**parameters)
    if campaign.laws[_place(law, len(campaign.laws))] is not question.mechanism:
        raise FormatError(f"the law of the role {ask} is for other answers")
    return question


def _model(campaign: TrainingCampaign, table: dict[str, Any]) -> Model:
    if set(table) != set(MODEL_KEYS):
        raise FormatError("a model has weights, level, centre and scale")
    vectors = (_vector(table[key], campaign.width) for key in ("weights", "centre", "scale"))
    weights, centre, scale = vectors
    return Model(weights[None], np.array([_finite(table["level"])]), centre, scale)


def _place(number: object, many: int) -> int:
    if type(number) is not int or not 0 <= number < many:
        raise FormatError("a role names a model, a law or a feature that is not there")
    return number


def _vector(numbers: Any, many: int) -> Floats:
    if not isinstance(numbers, list) or len(numbers) != many:
        raise FormatError(f"a vector of this round has {many} numbers")
    return np.array([_finite(number) for number in numbers], dtype=np.float64)


def _finite(number: object) -> float:
    if type(number) is not float or not abs(number) <= LARGEST:
        raise FormatError(
            "numbers of a round are written with a decimal point, and are 2^100 at most"
        )
    return number


# --- writing and checking ------------------------------------------------------------------------


def _check(campaign: TrainingCampaign, question: Question) -> None:
    """Refuse an unknown role, or one whose numbers are out of range."""
    if ROLES.get(getattr(question, "ask", "")) is not type(question):
        raise ParameterError("unknown role")
    ask = question.ask
    numbers = {name: _number(getattr(question, name)) for name in question.numbers}
    models = [getattr(question, key) for key in question.models]
    divided = [numbers[name] for name in DIVISORS if name in numbers]
    divided += [float(number) for model in models for number in model.scale]
    vectors = [v for m in models for v in (m.weights, m.intercept, m.centre)]
    everything = np.concatenate([[*numbers.values(), *divided], *map(np.ravel, vectors)])
    small = all(number >= 1 / LARGEST for number in divided)
    if not small or not (np.abs(everything) <= LARGEST).all():
        raise ParameterError(f"{ask}: a number is not finite, too large, or too small to divide by")
    if any(law is question.mechanism for law in campaign.laws):
        return
    raise ParameterError(f"{ask}: its law is not in the campaign")


def _model_table(model: Model) -> dict[str, Any]:
    return {
        "weights": _listed(model.weights[0]),
        "level": _number(model.intercept),
        "centre": _listed(model.centre),
        "scale": _listed(model.scale),
    }


def _listed(numbers: Floats) -> list[float]:
    return [float(number) + 0.0 for number in numbers]  # 0 has no sign


def _number(number: Floats | float) -> float:
    """Return a number, or the only one of a list."""
    return float(np.asarray(number).reshape(-1)[0]) + 0.0
