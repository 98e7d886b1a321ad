"""A training that goes on: rounds out, tallies in, a model at the end.

All of its state follows from the campaign and from the tallies of the rounds that were closed, in
order. A collector that has kept these has kept everything:

    training = LiveTraining(campaign, tallies_of_closed_rounds)
    while (found := training.round) is not None:
        publish(found); ...; training.close(tallies)     # one tally a role, maybe empty
    training.trained.model
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.mechanisms.tally import Tally
from murmuration.training.algorithm.adaptive import AdaptiveTraining
from murmuration.training.algorithm.questions import Model
from murmuration.training.algorithm.state import Stage, Trained
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round


class LiveTraining:
    """The collector's state of a training; `closed` are the tallies of the rounds so far."""

    def __init__(self, campaign: TrainingCampaign, closed: Iterable[Sequence[Tally]] = ()) -> None:
        self.campaign = campaign
        self._training = AdaptiveTraining(campaign.setting)
        self._round: Round | None = None
        self._round = self._opened()
        for tallies in closed:
            self.close(tallies)

    @property
    def round(self) -> Round | None:
        """The open round, without a time at which it closes; None when training is over."""
        return self._round

    def opened(self, closes: datetime | None, after: str = "") -> Round | None:
        """Return the open round with the time at which it closes: what to publish.

        `after` is the digest of the round before as it was published.
        """
        if self._round is None:
            return None
        return replace(self._round, closes=closes, after=after or self._round.after)

    def close(self, tallies: Sequence[Tally]) -> Round | None:
        """Close the open round with one tally for each of its roles; return the next, if any.

        Roles are drawn by devices, so a role has more or fewer people than were expected; as many
        as there are count. A role that nobody answered has an empty tally (`Mechanism.empty`). A
        round that is to count for nothing is closed with empty ones only.
        """
        self._training.close_round(tallies)
        self._round = self._opened()
        return self._round

    def end(self) -> None:
        """End now, with what was reached so far; nothing happens where training is over."""
        self._training.end()
        self._round = None

    def _opened(self) -> Round | None:
        questions = self._training.next_round()
        if questions is None:
            return None
        after = "" if self._round is None else self._round.digest
        return Round.of(self.campaign, self._training.rounds_done + 1, questions, after=after)

    @property
    def curve(self) -> list[Stage]:
        """What reports say was gained so far, round by round."""
        return self._training.curve

    @property
    def done(self) -> int:
        """How many rounds are closed."""
        return self._training.rounds_done

    @property
    def trained(self) -> Trained:
        """What training has ended with: model, path, score (`training.algorithm.state.Trained`)."""
        return self._training.trained


@dataclass(frozen=True)
class OwnUnits:
    """A model in the attributes' own units: score = intercept + sum of coefficient * value.

    `coefficients` are by column: a number's for one unit of it, a label's what it adds to the last
    one. The score of a linear model is the target itself; of the others, positive means the
    target's second label. `noise` is the standard error that noise alone has put in, at most.
    """

    intercept: float
    coefficients: dict[str, float]
    noise: dict[str, float]


def in_own_units(campaign: TrainingCampaign, model: Model, noise: Floats | float = 0.0) -> OwnUnits:
    """Return a model in the attributes' own units; `noise` is that of `Trained`."""
    half, middle = 1.0, 0.0
    if campaign.target.kind == "number":
        low, high = campaign.target.range
        half, middle = (high - low) / 2, (low + high) / 2
    units = [unit for feature in campaign.features for unit in feature.units()]
    weights, each = model.weights[0] / model.scale, np.broadcast_to(noise, model.centre.shape)
    rows = zip(campaign.columns, units, weights, model.centre, each, strict=True)
    coefficients, errors, intercept = {}, {}, float(model.intercept[0])
    for name, (at, by), weight, centre, error in rows:
        coefficients[name] = half * float(weight) * by
        errors[name] = half * float(error) * by
        intercept += float(weight) * (at - float(centre))
    return OwnUnits(middle + half * intercept, coefficients, errors)
