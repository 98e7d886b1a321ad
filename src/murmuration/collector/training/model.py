"""What a training ends with: coefficients in the user's units, how good they are, how they came.

    columns       the numbers that a person's features become, as the campaign says
    weights, ...  the model as devices know it: weights (x - centre)/scale + level, of these columns
                (`level` is `encoded_intercept` in Python)
    coefficients  the same in the attributes' own units: score = intercept + sum of value * feature
    stderr        what noise alone has put into a coefficient, at most. It is no interval: slopes
                  are cut off, steps end, and people would differ if they were asked again
    score         how good the model is, by people who had no part in it, with its interval
    curve         what reports said was gained, round by round
    liars         how far made-up reports have moved score and coefficients, at most. Of
                  coefficients along the path that was taken (what was asked, steps, scales, and
                  how much was kept as they were): not against a training without liars. The
                  intercept has no bound

A score above 0 speaks for the target's second label. A linear model's score is the target itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from murmuration.results.estimate import Estimate
from murmuration.statistics.liars import SHARE, checked_share, waited
from murmuration.training.algorithm.state import Trained
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.run import in_own_units

RIGHT = "share of people whose class is told right"
GAIN = "squared error of the mean less the model's, each person's cut off"
EARLY = (
    "Training was ended before its last questions, as the campaign closed: nobody was asked "
    "whether the model is more than noise"
)
NOTHING = "Nothing beyond noise was learnt: this is the constant"
CONFIDENCE = 0.95


class Moved(msgspec.Struct, frozen=True):
    """How far a share of liars moves something, at most."""

    even: float
    """If they are that share of every round."""
    waiting: float
    """If they are that share of all people, and wait for the rounds in which a lie moves most."""


class ModelLiars(msgspec.Struct, frozen=True):
    """How far a share of liars moves a model, at most; None: no bound."""

    share: float
    score: Moved | None
    coefficients: tuple[Moved | None, ...]


class Influence(msgspec.Struct, frozen=True):
    """What lies do, round by round: m of `people` move it by m/people of `far`, at most."""

    score: tuple[float, int] | None
    """(far, people), in the score's unit."""
    weights: tuple[tuple[float, int], ...]
    """Of each weight over its scale, before it is in somebody's units; none: no bound."""
    units: tuple[float, ...]
    """Of each coefficient: what a weight of 1 is in its own units."""


class Coefficient(msgspec.Struct, frozen=True):
    """One coefficient: by how much the score grows for one unit, or for a label."""

    name: str
    value: float
    stderr: float
    """What noise alone has put into it, at most."""
    unit: str = ""


class Score(msgspec.Struct, frozen=True):
    """How good the model is, by people who had no part in it."""

    value: float
    stderr: float
    low: float
    high: float
    n: int
    unit: str
    """"share", or the square of the target's unit."""
    note: str
    """What it is."""


class Point(msgspec.Struct, frozen=True):
    """A point of the learning curve: what reports say was gained after so many people."""

    asked: int
    gained: float
    """In parts of what a constant leaves unexplained."""
    doubt: float


class TrainedModel(msgspec.Struct, frozen=True):
    """A model as it is kept and answered."""

    campaign: str
    digest: str
    model: str
    target: str
    labels: tuple[str, ...]
    """Of the target; none where it is a number."""
    epsilon: float
    loss: float
    rounds: int
    people: int
    """Whose reports count."""
    early: bool
    kept: float
    """How much of the trained weights is in the model: 0 where nothing was beyond noise."""
    columns: tuple[str, ...]
    weights: tuple[float, ...]
    encoded_intercept: float = msgspec.field(name="level")
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    noise: tuple[float, ...]
    """The standard deviation that noise has put into each weight over its scale, at most."""
    intercept: float
    coefficients: tuple[Coefficient, ...]
    score: Score | None
    curve: tuple[Point, ...]
    notes: tuple[str, ...]
    influence: Influence | None = None
    liars: ModelLiars | None = None
    """None: it was trained by a release that worked out no bound."""


def of(campaign: TrainingCampaign, trained: Trained, people: int) -> TrainedModel:
    """Return what a training has ended with."""
    model = trained.model
    own = in_own_units(campaign, model, trained.noise)
    units = [f.question.unit for f in campaign.features for _ in range(f.width)]
    coefficients = tuple(
        Coefficient(name, value, own.noise[name], unit)
        for (name, value), unit in zip(own.coefficients.items(), units, strict=True)
    )
    influence = _influence(campaign, trained)
    notes = [EARLY] * trained.early + [NOTHING] * (not model.weights.any())
    return TrainedModel(
        campaign=campaign.name,
        digest=campaign.digest,
        model=campaign.model,
        target=campaign.target.name,
        labels=campaign.target.labels,
        epsilon=campaign.epsilon,
        loss=campaign.loss().epsilon,
        rounds=trained.rounds,
        people=people,
        early=trained.early,
        kept=trained.kept,
        columns=campaign.columns,
        weights=tuple(model.weights[0].tolist()),
        encoded_intercept=float(model.intercept[0]),
        centre=tuple(model.centre.tolist()),
        scale=tuple(model.scale.tolist()),
        noise=tuple(trained.noise.tolist()),
        intercept=own.intercept,
        coefficients=coefficients,
        score=None if trained.score is None else _score(campaign, trained.score),
        curve=tuple(Point(point.asked, point.gained, point.doubt) for point in trained.curve),
        notes=tuple(notes),
        influence=influence,
        liars=_liars(influence, people, SHARE),
    )


def with_liars(trained: TrainedModel, share: float = SHARE) -> TrainedModel:
    """Return a model that says how far another share of liars moves it."""
    share = checked_share(share)
    if trained.influence is None or (trained.liars is not None and trained.liars.share == share):
        return trained
    return msgspec.structs.replace(trained, liars=_liars(trained.influence, trained.people, share))


def _liars(influence: Influence, people: int, share: float) -> ModelLiars:
    def moved(pulls: Sequence[tuple[float, int]], unit: float = 1.0) -> Moved | None:
        if not pulls:
            return None
        even = share * sum(far for far, _ in pulls)
        return Moved(unit * even, unit * max(even, waited(pulls, share * people)))

    score = moved([] if influence.score is None else [influence.score])
    each = tuple(moved(influence.weights, unit) for unit in influence.units)
    return ModelLiars(share, score, each)


def _influence(campaign: TrainingCampaign, trained: Trained) -> Influence:
    """Return what lies do to the score and to weights; nothing is said of weights that are 0."""
    score, weights = None, tuple[tuple[float, int], ...]()
    if trained.score is not None and trained.question is not None:
        reach = trained.question.mechanism.reach()
        if reach is not None:
            half = trained.question.half * _unit(campaign)
            score = half * reach.most_moved, trained.score.n
    if trained.kept:
        weights = tuple((trained.kept * pull.far, pull.people) for pull in trained.pulls)
    own = in_own_units(campaign, trained.model, 1.0)
    return Influence(score, weights, tuple(abs(unit) for unit in own.noise.values()))


def _unit(campaign: TrainingCampaign) -> float:
    """Return what 1 of what was asked is in the score's unit."""
    if campaign.target.labels:
        return 0.5
    return ((campaign.target.range[1] - campaign.target.range[0]) / 2) ** 2


def _score(campaign: TrainingCampaign, score: Estimate) -> Score:
    """Return the score in units that a reader expects."""
    low, high = score.interval(CONFIDENCE)
    if campaign.target.labels:
        ends, error, unit, note = (score.value, low, high), score.stderr / 2, "share", RIGHT
        value, low, high = ((1 + end) / 2 for end in ends)
        return Score(value, error, max(0.0, low), min(1.0, high), score.n, unit, note)
    unit = f"{campaign.target.unit}²" if campaign.target.unit else ""
    value, error, low, high = (_unit(campaign) * v for v in (score.value, score.stderr, low, high))
    return Score(value, error, low, high, score.n, unit, GAIN)


def to_json(model: TrainedModel) -> bytes:
    """Return it as it is kept: the same model is the same bytes."""
    return msgspec.json.encode(model)


def from_json(data: bytes) -> TrainedModel:
    """Read it again, to the last bit."""
    return msgspec.json.decode(data, type=TrainedModel)
