"""What a training ends with: coefficients in the user's units, how good they are, how they came.

    columns       the numbers that a person's features become, as the campaign says
    weights, ...  the model as devices know it: weights (x - centre)/scale + level, of these columns
    coefficients  the same in the attributes' own units: score = intercept + sum of value * feature
    stderr        what noise alone has put into a coefficient, at most. It is no interval: slopes
                  are cut off, steps end, and people would differ if they were asked again
    score         how good the model is, by people who had no part in it, with its interval
    curve         what reports said was gained, round by round

A score above 0 speaks for the target's second label. A linear model's score is the target itself.
"""

from __future__ import annotations

import msgspec

from murmuration.campaign.live import in_own_units
from murmuration.campaign.training import ModelCampaign
from murmuration.results.estimate import Estimate
from murmuration.training.state import Trained

RIGHT = "share of people whose class is told right"
GAIN = "squared error of the mean less the model's, each person's cut off"
EARLY = (
    "Training was ended before its last questions, as the campaign closed: nobody was asked "
    "whether the model is more than noise"
)
NOTHING = "Nothing beyond noise was learnt: this is the constant"
LEVEL = 0.95


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
    level: float
    centre: tuple[float, ...]
    scale: float
    noise: float
    """The standard deviation that noise has put into each weight, at most."""
    intercept: float
    coefficients: tuple[Coefficient, ...]
    score: Score | None
    curve: tuple[Point, ...]
    notes: tuple[str, ...]


def of(campaign: ModelCampaign, trained: Trained, people: int) -> TrainedModel:
    """Return what a training has ended with."""
    model = trained.model
    own = in_own_units(campaign, model, trained.noise)
    units = [f.question.unit for f in campaign.features for _ in range(f.width)]
    coefficients = tuple(
        Coefficient(name, value, own.noise[name], unit)
        for (name, value), unit in zip(own.coefficients.items(), units, strict=True)
    )
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
        level=float(model.level[0]),
        centre=tuple(model.centre.tolist()),
        scale=float(model.scale),
        noise=trained.noise,
        intercept=own.intercept,
        coefficients=coefficients,
        score=None if trained.score is None else _score(campaign, trained.score),
        curve=tuple(Point(one.asked, one.gained, one.doubt) for one in trained.curve),
        notes=tuple(notes),
    )


def _score(campaign: ModelCampaign, score: Estimate) -> Score:
    """Return the score in units that a reader expects."""
    low, high = score.interval(LEVEL)
    if campaign.target.labels:
        ends, error, unit, note = (score.value, low, high), score.stderr / 2, "share", RIGHT
        value, low, high = ((1 + end) / 2 for end in ends)
        return Score(value, error, max(0.0, low), min(1.0, high), score.n, unit, note)
    half = (campaign.target.range[1] - campaign.target.range[0]) / 2
    unit = f"{campaign.target.unit}²" if campaign.target.unit else ""
    value, error, low, high = (half**2 * v for v in (score.value, score.stderr, low, high))
    return Score(value, error, low, high, score.n, unit, GAIN)


def to_json(model: TrainedModel) -> bytes:
    """Return it as it is kept: the same model is the same bytes."""
    return msgspec.json.encode(model)


def from_json(data: bytes) -> TrainedModel:
    """Read it again, to the last bit."""
    return msgspec.json.decode(data, type=TrainedModel)
