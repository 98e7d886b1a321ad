"""One training, watched: from its rounds to what dashboards are sent."""

from __future__ import annotations

import time

from murmuration.collector.publish import ServedTraining
from murmuration.collector.status import RoundStatus, Status, TrainingStatus, training_status
from murmuration.collector.store import Store
from murmuration.collector.store.rounds import finished
from murmuration.collector.training.model import Point, TrainedModel, from_json
from murmuration.collector.training.rounds import replayed
from murmuration.server.live import (
    Asking,
    Live,
    RoundState,
    Trails,
    TrainingState,
)
from murmuration.server.watch import CONFIDENCE, Paced

Learnt = tuple[list[Point], TrainedModel | None]
"""The learning curve, and what training has ended with."""


def training_books(served: ServedTraining, store: Store) -> tuple[Status, Learnt]:
    """Read how far a training is, as of one moment."""
    with store.snapshot():
        status, ending = training_status(store, served), finished(store, served.key)
        if ending is not None:
            model = from_json(ending)
            return status, (list(model.curve), model)
        curve = [Point(one.asked, one.gained, one.doubt) for one in replayed(store, served).curve]
        return status, (curve, None)


class TrainingWatch:
    """What is known about one training from look to look; used by one thread at a time."""

    def __init__(self, served: ServedTraining) -> None:
        self._campaign = served.campaign
        self._loss = served.campaign.loss().epsilon
        self._paced = Paced()

    def state(self, status: Status, learnt: Learnt) -> Live:
        """Return the training as it is now."""
        if status.training is None:
            raise ValueError("this is no training")
        return Live(
            campaign=status.campaign,
            version=status.version,
            digest=status.digest,
            purpose=self._campaign.terms.purpose,
            open=status.open,
            at=int(time.time()),
            confidence=CONFIDENCE,
            epsilon=self._campaign.epsilon,
            loss=self._loss,
            people=status.people,
            reports=status.reports,
            people_expected=status.people_expected,
            cohort=status.cohort,
            received=status.received,
            outcomes=status.outcomes,
            balanced=status.balanced,
            merged_collectors=0,
            last_report=status.last_report,
            pace=self._paced.per_hour(status.received),
            attributes=[],
            training=_training(status.training, *learnt),
        )

    def trails(self) -> Trails:
        """Nothing is watched from look to look: the curve is in every state."""
        return Trails([])


def _training(
    status: TrainingStatus, curve: list[Point], model: TrainedModel | None
) -> TrainingState:
    return TrainingState(
        model=status.model,
        target=status.target,
        rounds=[_round(one) for one in status.rounds],
        curve=curve,
        score=None if model is None else model.score,
        coefficients=[] if model is None else list(model.coefficients),
        liars=None if model is None else model.liars,
        ended=model is not None,
        notes=status.notes,
    )


def _round(one: RoundStatus) -> RoundState:
    return RoundState(
        number=one.number,
        state=one.state,
        people=one.people,
        size=one.size,
        opened=one.opened,
        deadline=one.closes,
        asks=[Asking(question, people) for question, people in one.asks.items()],
    )
