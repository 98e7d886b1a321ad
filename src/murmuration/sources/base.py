"""What can be asked of one campaign, wherever its tallies are."""

from __future__ import annotations

from abc import ABC, abstractmethod

from murmuration.analysis.estimates import Query
from murmuration.analysis.figures import Estimates, Trend
from murmuration.collector.status import Status
from murmuration.collector.training.model import TrainedModel
from murmuration.statistics.liars import SHARE
from murmuration.training.campaign import TrainingCampaign

GOES_ON = "{name} has no model yet: training goes on, and `murmur status` says how far it is"


class Source(ABC):
    """One campaign that can be read."""

    def estimates(
        self,
        about: str,
        confidence: float,
        combine: str = "",
        together: int | None = None,
        period: str = "",
        since: str = "",
        liars: float = SHARE,
    ) -> Estimates:
        """Return about whom, and all figures: see `Query`."""
        return self.asked(Query(about, confidence, combine, together, period, since, liars))

    @abstractmethod
    def asked(self, query: Query) -> Estimates:
        """Return about whom, and all figures."""

    @abstractmethod
    def trend(self, query: Query) -> Trend:
        """Return the figures of every period."""

    @abstractmethod
    def status(self) -> Status:
        """Return what has arrived and what became of it."""

    @abstractmethod
    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """Return a training, and what it has ended with."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was opened."""
