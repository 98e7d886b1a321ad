"""What the server does in its own way for campaigns of each kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.served import Intake, Served
from murmuration.server.rounds import TrainingRunner
from murmuration.server.streams import Watching
from murmuration.server.training_watch import TrainingWatch
from murmuration.server.watch import Truths, Watch
from murmuration.training.campaign import TrainingCampaign

Ask = Callable[..., Awaitable[Any]]


class Runner(Protocol):
    """What goes on for one campaign in this process, beside answering requests."""

    @property
    def always(self) -> Intake | None:
        """What every body is for; None if that depends on the body, or on the time."""

    async def intake(self, data: bytes, kind: str) -> Intake | None:
        """Return what a body is for; None: nothing takes reports yet."""

    def counted(self) -> None:
        """Note that reports were counted."""

    async def begin(self) -> None:
        """Do what is due before the first request."""

    async def run(self) -> None:
        """Do what is due from time to time, until cancelled."""


class SurveyRunner:
    """A campaign that asks for figures: its reports are counted when they come, and that is all."""

    def __init__(self, served: Any, read: Ask, write: Ask) -> None:
        del read, write
        self.always: Intake = served

    async def intake(self, data: bytes, kind: str) -> Intake:
        """All uploads are for the campaign."""
        del data, kind
        return self.always

    def counted(self) -> None:
        """Nothing follows."""

    async def begin(self) -> None:
        """Nothing is due."""

    async def run(self) -> None:
        """Nothing is ever due."""


@dataclass(frozen=True)
class ServerKind:
    """One kind of campaign.

    runner: what goes on beside requests
    watch: makes what dashboards are sent
    page: for somebody who may take part
    proof: the page with the audit of its laws; None: the page above has it
    """

    runner: Callable[[Any, Ask, Ask], Runner]
    watch: Callable[[Any, Truths | None], Watching]
    page: str
    proof: str | None = None


KINDS = {
    SurveyCampaign.kind: ServerKind(SurveyRunner, Watch, "participant.html", "proof.html"),
    TrainingCampaign.kind: ServerKind(TrainingRunner, TrainingWatch, "trainee.html"),
}


def kind_of(served: Served[Any]) -> ServerKind:
    """Return what the server does for a campaign of this kind."""
    return KINDS[served.campaign.kind]
