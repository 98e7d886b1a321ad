"""One training, watched: from its rounds to what dashboards are sent."""

from __future__ import annotations

from murmuration.collector.served import Served
from murmuration.collector.status import RoundStatus, Status, TrainingStatus
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
from murmuration.server.watch import Paced, Truths, head
from murmuration.training.campaign import TrainingCampaign

Learnt = tuple[list[Point], TrainedModel | None]
"""The learning curve, and what training has ended with."""


class TrainingWatch:
    """What is known about one training from look to look; used by one thread at a time."""

    def __init__(self, served: Served[TrainingCampaign], truths: Truths | None = None) -> None:
        del truths  # a training has no figures that are so or not
        self._served, self._campaign = served, served.campaign
        self._loss = served.campaign.loss().epsilon
        self._paced = Paced()

    def look(self, store: Store) -> tuple[Status, Learnt]:
        """Read how far a training is, as of one moment."""
        served = self._served
        with store.snapshot():
            status, ending = served.status(store), finished(store, served.key)
            if ending is not None:
                model = from_json(ending)
                return status, (list(model.curve), model)
            stages = replayed(store, served).curve
            return status, (
                [Point(stage.asked, stage.gained, stage.doubt) for stage in stages],
                None,
            )

    def state(self, status: Status, learnt: Learnt) -> Live:
        """Return the training as it is now."""
        if status.training is None:
            raise ValueError("this is not a training")
        return Live(
            **head(status, self._campaign, self._loss),
            people=status.people,
            reports=status.reports,
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
        rounds=[_round(status_of_round) for status_of_round in status.rounds],
        curve=curve,
        score=None if model is None else model.score,
        coefficients=[] if model is None else list(model.coefficients),
        liars=None if model is None else model.liars,
        ended=model is not None,
        notes=status.notes,
    )


def _round(status: RoundStatus) -> RoundState:
    return RoundState(
        number=status.number,
        state=status.state,
        people=status.people,
        size=status.size,
        opened=status.opened,
        deadline=status.closes,
        asks=[Asking(question, people) for question, people in status.asks.items()],
    )
