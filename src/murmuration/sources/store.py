"""A store, read directly."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from murmuration.analysis.estimates import Query
from murmuration.analysis.estimates import estimates as estimates_of
from murmuration.analysis.estimates import trend as trend_of
from murmuration.analysis.figures import Estimates, Trend
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.publish import named_or_only, served
from murmuration.collector.served import Served
from murmuration.collector.shown import shown, waiting
from murmuration.collector.status import Status
from murmuration.collector.store import Store, rounds
from murmuration.collector.training.model import TrainedModel, from_json
from murmuration.errors import ParameterError
from murmuration.sources.base import GOES_ON, Source
from murmuration.training.campaign import TrainingCampaign


class StoreSource(Source):
    """A store, read directly; the cohort rule is the same as a collector's."""

    def __init__(self, store: Store, campaign: str = "", version: int | None = None) -> None:
        self.store, self.version = store, version
        self.name = named_or_only(store, campaign)

    def asked(self, query: Query) -> Estimates:
        """Read the tallies."""
        with self.store.snapshot():
            asked, tallies, cohort = self._counted()
            later = waiting(self.store, asked.campaign)
        about = {"version": asked.version, "cohort": cohort, "waiting": later}
        return estimates_of(asked.campaign, tallies, query, **about)

    def trend(self, query: Query) -> Trend:
        """Read the tallies, period by period."""
        asked, tallies, cohort = self._counted()
        return trend_of(asked.campaign, tallies, query, version=asked.version, cohort=cohort)

    def _counted(self) -> tuple[Served[SurveyCampaign], ByPeriod, int]:
        """Return the campaign, its tallies and its cohort.

        A cohort that was raised since holds for earlier versions too: they may have the same
        reports.
        """
        with self.store.snapshot():
            latest = served(self.store, self.name).of_kind(SurveyCampaign)
            asked = latest if self.version is None else self._served().of_kind(SurveyCampaign)
            tallies = shown(self.store, asked.campaign)
        return asked, tallies, max(version.campaign.terms.cohort for version in (latest, asked))

    def status(self) -> Status:
        """Read the counts."""
        with self.store.snapshot():
            latest = served(self.store, self.name).campaign.terms.cohort
            return _with_cohort(self._served(), latest).status(self.store)

    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """Read what training has ended with."""
        with self.store.snapshot():
            training = self._served().of_kind(TrainingCampaign)
            ending = rounds.finished(self.store, training.key)
        if ending is None:
            raise ParameterError(GOES_ON.format(name=self.name))
        return training.campaign, from_json(ending)

    def _served(self) -> Served[Campaign]:
        return served(self.store, self.name, self.version)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _with_cohort(asked: Served[Campaign], least: int) -> Served[Campaign]:
    """Return a version with the cohort of the latest one, if that is the larger one."""
    terms = asked.campaign.terms
    if terms.cohort >= least:
        return asked
    return replace(
        asked, campaign=asked.campaign.with_terms(msgspec.structs.replace(terms, cohort=least))
    )
