"""A campaign that is being collected, and what an upload is for: one type for all kinds.

What is particular to a kind stands behind it: `collector.survey`, `collector.training.served`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from murmuration.campaign.form import ReportForm
from murmuration.campaign.kind import Campaign, Kind, of_kind
from murmuration.collector.status import Status
from murmuration.collector.store import Store
from murmuration.exact.arrays import Rows
from murmuration.wire.ids import Ids
from murmuration.wire.report import Codes, Upload


class Sink(Protocol):
    """Where reports go, if not into the store (`collector.files.sink`)."""

    def add(self, digest: str, ids: Ids, rows: Rows) -> None:
        """Inside a transaction: take reports that are counted in it."""


class Intake(Protocol):
    """What reports are for: a campaign that asks for figures, or one round of a training."""

    @property
    def campaign(self) -> Campaign:
        """The campaign."""

    @property
    def key(self) -> int:
        """Under which number the store knows the reports of the campaign."""

    @property
    def number(self) -> int:
        """Of a training, the number of the round; else 0."""

    @property
    def form(self) -> ReportForm:
        """What the reports are made for: their digest and their laws."""

    @property
    def older(self) -> frozenset[str]:
        """Digests of which reports were taken before, and are no more."""

    @property
    def outdated(self) -> str:
        """Why a report of such a digest is refused."""

    def keys_of_older(self, store: Store) -> Sequence[int]:
        """Under which numbers the store knows the reports of such digests that were counted."""

    def take(
        self, store: Store, upload: Upload, tokens: Sequence[bytes], reports: Sink | None
    ) -> Codes:
        """Store and count reports, in a transaction; return what is wrong with each.

        `tokens`: of each report that may count, what its token is known by, where each is one
        device's. With `reports`, those of a campaign that asks for figures go there.
        """


Any_co = TypeVar("Any_co", bound=Campaign, covariant=True)


@dataclass(frozen=True)
class Served(ABC, Generic[Any_co]):
    """A campaign that is being collected, and where its reports go."""

    campaign: Any_co
    version: int
    document: bytes
    key: int
    older: frozenset[str] = frozenset()
    """Digests of its earlier versions."""

    def of_kind(self, wanted: type[Kind]) -> Served[Kind]:
        """Return this, if its campaign is of the wanted kind; else say what it is for."""
        of_kind(self.campaign, wanted)
        return cast(Served[Kind], self)

    @abstractmethod
    def intake(self, store: Store, digest: str = "") -> Intake | None:
        """Return what an upload is for whose first report names that digest; None: nothing is."""

    @abstractmethod
    def status(self, store: Store) -> Status:
        """Return what has arrived, what became of it, and whether the books balance."""

    def resume(self, store: Store) -> None:
        """Do what is due when it is served again, inside the transaction that publishes it."""
        del store

    def is_over(self, store: Store) -> bool:
        """Whether it has ended for good, whatever its times are."""
        del store
        return False
