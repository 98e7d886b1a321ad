"""A file of tallies: what `murmur tally` writes, a collector hands out, or one mechanism has."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from murmuration.analysis.estimates import Query
from murmuration.analysis.estimates import estimates as estimates_of
from murmuration.analysis.estimates import trend as trend_of
from murmuration.analysis.figures import Estimates, Trend
from murmuration.collector.status import Status
from murmuration.collector.training.model import TrainedModel
from murmuration.counting.container import CampaignTallies
from murmuration.errors import ParameterError
from murmuration.mechanisms.tally import MAGIC, Tally, unsealed
from murmuration.sources.base import Source
from murmuration.training.campaign import TrainingCampaign

ROWS = (b"PAR1", b"ARROW1")
"""How files of Parquet and of Arrow begin: `murmur tally` reads them."""


def campaign_tallies(where: str) -> bytes | None:
    """Return the bytes of a file of a campaign's tallies; None if it is something else."""
    data = _tallies(where)
    return None if data is None or "mechanism" in unsealed(data)[0] else data


def mechanism_tally(where: str) -> Tally | None:
    """Return the tally in a file of one mechanism's; None if it is something else."""
    data = _tallies(where)
    return Tally.from_bytes(data) if data and "mechanism" in unsealed(data)[0] else None


def are_reports(where: str) -> bool:
    """Whether these are randomised reports: a folder of them, or a file of rows."""
    path = Path(where)
    with suppress(OSError, ValueError):
        if path.is_dir():
            return next(path.rglob("*.parquet"), None) is not None
        if stat.S_ISREG(os.stat(where).st_mode):
            with path.open("rb") as file:
                return file.read(6).startswith(ROWS)
    return False


def _tallies(where: str) -> bytes | None:
    """Return the bytes of a file of tallies. A pipe is none: it may wait, and is read once."""
    with suppress(OSError, ValueError):
        if not stat.S_ISREG(os.stat(where).st_mode):
            return None
    with suppress(OSError, ValueError), Path(where).open("rb") as file:
        if (start := file.read(len(MAGIC))) == MAGIC:
            return start + file.read()
    return None


class TallySource(Source):
    """A file of a campaign's tallies: figures, of all of them, of what a cohort has answered.

    A collector also waits for a cohort of further reports before it changes a figure.
    """

    def __init__(
        self, file: CampaignTallies, campaign: str = "", version: int | None = None
    ) -> None:
        name = file.campaign.name
        if campaign not in ("", name) or version is not None:
            raise ParameterError(f"this file has the tallies of {name}, of one version")
        self.file = file

    def asked(self, query: Query) -> Estimates:
        """Read the tallies."""
        return estimates_of(self.file.campaign, self.file.by_period(), query)

    def trend(self, query: Query) -> Trend:
        """Read the tallies, period by period."""
        return trend_of(self.file.campaign, self.file.by_period(), query)

    def status(self) -> Status:
        """A file does not know when what arrived."""
        raise ParameterError("a file of tallies has estimates, and no status")

    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """A file of tallies is no training's."""
        raise ParameterError(f"{self.file.campaign.name} {self.file.campaign.use}")

    def close(self) -> None:
        """It is read already."""
