"""One round of a training: what its people are asked, at which model, by which laws.

A round has *roles*. Each is a question (`training.questions`), its numbers, one of the laws of the
campaign's document, and a share of the people. A device draws its role by a public coin that never
looks at the answer, so a report is an entry of a `Frame` like any other: the role's number, then
the octets of its law. Everything that affects a report is one JSON text, and its digest is on every
report of the round.

The document is not trusted: its digest, one way to write it, bounds for every number, laws of the
campaign only. Whatever the numbers are, the value that goes into a law is clamped to its domain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from murmuration.campaign.kind import WIRE
from murmuration.errors import FormatError, MismatchError, MurmurationError, ParameterError
from murmuration.exact.arrays import Bits, Floats, Ints, Rows
from murmuration.exact.loss import Loss
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Sample
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm import questions as asked
from murmuration.training.algorithm.questions import Model, Question, VectorQuestion
from murmuration.training.campaign import TrainingCampaign

FORMAT = 1
MOST_BYTES, MOST_ROLES, MOST_ROUNDS = 1 << 20, 16, 1 << 20
LARGEST = 2.0**100
"""No number of a round is beyond this, and none that is divided by is below 1/this: so nothing
that a device works out overflows, or is divided by 0."""

ROLES: dict[str, type[Question]] = {
    kind.ask: kind
    for kind in (
        *(asked.Length, asked.Means, asked.Target, asked.Spread, asked.Gradient, asked.Leftover),
        *(asked.Leftovers, asked.Size, asked.Offset, asked.Agreement, asked.Gain, asked.Right),
    )
}
"""What a role may ask."""
MODEL_KEYS = ("weights", "level", "centre", "scale")
POSITIVE = ("half", "clip", "most", "reach", "size")
NUMBERS: dict[str, tuple[str, ...]] = {
    "length": ("half", "middle"),
    "means": ("clip",),
    "target": ("half",),
    "spread": ("half", "level"),
    "gradient": ("most", "reach", "constant", "clip"),
    "leftover": ("half",),
    "leftovers": ("clip",),
    "size": ("half",),
    "offset": ("clip",),
    "agreement": ("most", "size", "lean", "middle", "half"),
    "gain": ("half",),
    "right": ("half",),
}
"""The numbers of each role, in the order in which they are written."""
AT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gradient", "leftover", "leftovers", "size", "offset", "right"), ("model",)),
    **dict.fromkeys(("agreement", "gain"), ("model", "without")),
}
"""The models of each role."""


@dataclass(frozen=True, eq=False)
class Round:
    """A round that is open, or was.

    campaign: the training
    number: 1 for the first
    questions: the roles; `people` in them is how many are expected (0 on a device)
    ends: the shares of the roles, as cumulative weights out of 2^52; None: all alike
    closes: when it is closed with those who came; nothing here changes a report
    people: how many it takes, as its document says, where the questions do not

    It has what the wire needs of a campaign: `digest`, `frame`, `row_bytes`,
    `head_bytes`, `periods_of`, `valid`, `tally`.
    """

    campaign: TrainingCampaign
    number: int
    questions: tuple[Question, ...]
    ends: tuple[int, ...] | None
    closes: datetime | None = None
    people: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.number <= MOST_ROUNDS or not 1 <= len(self.questions) <= MOST_ROLES:
            raise ParameterError(f"a round has a number, and 1 to {MOST_ROLES} roles")
        if self.ends == ():
            raise ParameterError("the ends of one role are left out")
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
    ) -> Round:
        """COLLECTOR. Return the round that asks these questions, of as many people as they say."""
        shares = Sample.by_shares([question.people for question in questions])
        return cls(campaign, number, tuple(questions), shares.ends, closes)

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

    @property
    def every(self) -> None:
        """A training has no periods: everybody answers once."""

    @property
    def head_bytes(self) -> int:
        """The bytes of a report before its entry: none."""
        return 0

    @property
    def row_bytes(self) -> int:
        """The bytes of a report: the same for everybody."""
        return self.frame.row_bytes

    def periods_of(self, rows: Rows) -> Ints:
        """Return 0 for each row: there are no periods."""
        return np.zeros(len(rows), dtype=np.int64)

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
            "models": models,
            "roles": [self._role(question, models) for question in self.questions],
            **ends,
        }

    @cached_property
    def _models(self) -> list[dict[str, Any]]:
        """The different models of all roles, in the order in which they are named."""
        found: list[dict[str, Any]] = []
        for question in self.questions:
            for key in AT.get(question.ask, ()):
                if (table := _model_table(getattr(question, key))) not in found:
                    found.append(table)
        return found

    def _role(self, question: Question, models: Sequence[dict[str, Any]]) -> dict[str, Any]:
        at = {k: models.index(_model_table(getattr(question, k))) for k in AT.get(question.ask, ())}
        numbers = {key: _number(getattr(question, key)) for key in NUMBERS[question.ask]}
        centre = {"centre": _listed(question.centre)} if isinstance(question, asked.Length) else {}
        law = self.campaign.laws.index(question.mechanism)
        return {"ask": question.ask, "law": law, **at, **numbers, **centre}

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the text. It is on every report of the round."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def model(self) -> Model | None:
        """The model that this round asks about; None before there is any."""
        for question in self.questions:
            if "model" in AT.get(question.ask, ()):
                model: Model = question.model  # type: ignore[attr-defined]  # these have one
                return model
        return None

    # --- device ----------------------------------------------------------------------------------

    def values(self, role: int, x: Floats, y: Floats) -> Floats:
        """DEVICE. Return what people with these encoded answers randomise in a role."""
        return self.questions[role].values(x, y)

    # --- collector -------------------------------------------------------------------------------

    def valid(self, rows: Rows) -> Bits:
        """COLLECTOR. Tell for each row whether a device can have sent it."""
        return self.frame.valid(rows, self.name)

    def tally(self, rows: Rows) -> tuple[Tally, ...]:
        """COLLECTOR. Count reports: one tally per role. Refuses what no device can have sent."""
        return self.frame.tally(rows, self.name)


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
    models: list[dict[str, Any]]
    roles: list[dict[str, Any]]
    ends: tuple[int, ...] | None = None


def publish(found: Round) -> bytes:
    """Return a round's document."""
    document = RoundDocument(
        format=FORMAT,
        campaign=found.campaign.name,
        round=found.number,
        digest=found.digest,
        people=found.size,
        closes=found.closes,
        asked=found.text,
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
        raise FormatError("the round is in a format that this program does not read")
    if hashlib.sha256(document.asked.encode()).hexdigest() != document.digest:
        raise FormatError("the round's digest is not that of its text: it was changed")
    if table.training != campaign.digest or document.campaign != campaign.name:
        raise MismatchError("the round is another campaign's. Nothing was sent.")
    if document.round != table.round:
        raise FormatError("the round has two numbers: one outside, and one in its text")
    try:
        found = _round(campaign, table, document)
    except MurmurationError as problem:
        raise FormatError(f"the round cannot be used: {problem}") from None
    except (TypeError, ValueError, LookupError, OverflowError, RecursionError) as problem:
        raise FormatError(f"the round cannot be read: {problem}") from None
    if found.text != document.asked:
        raise FormatError(
            "the round is not written as it is published: another spelling of the same words has "
            "another digest, which could tell devices apart"
        )
    return found


def _round(campaign: TrainingCampaign, table: AskedTable, document: RoundDocument) -> Round:
    if len(table.roles) > MOST_ROLES or len(table.models) > 2 * MOST_ROLES:
        raise FormatError(f"a round has {MOST_ROLES} roles at most")
    models = [_model(campaign, one) for one in table.models]
    questions = tuple(_question(campaign, role, models) for role in table.roles)
    if document.people < 0:
        raise FormatError("a round takes a number of people")
    return Round(campaign, table.round, questions, table.ends, document.closes, document.people)


def _question(
    campaign: TrainingCampaign, role: dict[str, Any], models: Sequence[Model]
) -> Question:
    """Return the question of a role; its people are not known to a device."""
    given = dict(role)
    ask, law = given.pop("ask"), given.pop("law")
    kind = ROLES[ask]
    parameters: dict[str, Any] = {"people": 0, "laws": campaign.law_of}
    for key in AT.get(ask, ()):
        parameters[key] = models[_place(given.pop(key), len(models))]
    if "model" in parameters and ask not in ("size", "offset", "gain", "right"):
        parameters["objective"] = campaign.objective
    for key in NUMBERS[ask]:
        number = _finite(given.pop(key))
        several = ask == "agreement" and key in ("lean", "middle")
        parameters[key] = np.array([number]) if several else number
    if ask == "length":
        parameters["centre"] = _vector(given.pop("centre"), campaign.width)
    if issubclass(kind, VectorQuestion):
        parameters["dimensions"] = _dimensions(campaign, ask)
    if given:
        raise FormatError("a role has a key that it cannot have")
    question = kind(**parameters)
    if campaign.laws[_place(law, len(campaign.laws))] is not question.mechanism:
        raise FormatError(f"the role {ask} is not answered by that law")
    return question


def _dimensions(campaign: TrainingCampaign, ask: str) -> int:
    """Return how long the vector of a role is."""
    return {"means": campaign.width, "gradient": campaign.width + 1}.get(ask, 1)


def _model(campaign: TrainingCampaign, table: dict[str, Any]) -> Model:
    if set(table) != set(MODEL_KEYS):
        raise FormatError("a model has weights, level, centre and scale")
    weights, centre = (_vector(table[key], campaign.width) for key in ("weights", "centre"))
    level, scale = _finite(table["level"]), _finite(table["scale"])
    return Model(weights[None], np.array([level]), centre, scale)


def _place(number: object, many: int) -> int:
    if type(number) is not int or not 0 <= number < many:
        raise FormatError("a role names a model or a law that is not there")
    return number


def _vector(numbers: Any, many: int) -> Floats:
    if not isinstance(numbers, list) or len(numbers) != many:
        raise FormatError(f"a round's vector has {many} numbers")
    return np.array([_finite(number) for number in numbers], dtype=np.float64)


def _finite(number: object) -> float:
    if type(number) is not float or not abs(number) <= LARGEST:
        raise FormatError("a round's numbers are written with a point, and not beyond 2^100")
    return number


# --- writing and checking ------------------------------------------------------------------------


def _check(campaign: TrainingCampaign, question: Question) -> None:
    """Refuse a role that is none, or whose numbers could not be reckoned with."""
    if ROLES.get(getattr(question, "ask", "")) is not type(question):
        raise ParameterError("a role asks what no training asks")
    ask = question.ask
    numbers = {key: _number(getattr(question, key)) for key in NUMBERS[ask]}
    models = [getattr(question, key) for key in AT.get(ask, ())]
    divided = [numbers[key] for key in POSITIVE if key in numbers] + [m.scale for m in models]
    vectors = [v for m in models for v in (m.weights, m.level, m.centre)]
    vectors += [question.centre] if isinstance(question, asked.Length) else []
    everything = np.concatenate([[*numbers.values(), *divided], *map(np.ravel, vectors)])
    small = all(number >= 1 / LARGEST for number in divided)
    if not small or not (np.abs(everything) <= LARGEST).all():
        raise ParameterError(f"{ask}: a number is not finite, too large, or too small to divide by")
    if any(law is question.mechanism for law in campaign.laws):
        return
    raise ParameterError(f"{ask}: its law is none of the campaign's")


def _model_table(model: Model) -> dict[str, Any]:
    return {
        "weights": _listed(model.weights[0]),
        "level": _number(model.level),
        "centre": _listed(model.centre),
        "scale": _number(model.scale),
    }


def _listed(numbers: Floats) -> list[float]:
    return [float(number) + 0.0 for number in numbers]  # 0 has no sign


def _number(number: Floats | float) -> float:
    """Return a number, or the only one of a list."""
    return float(np.asarray(number).reshape(-1)[0]) + 0.0
