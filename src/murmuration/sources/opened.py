"""`murmuration.open`: results in two lines, from a store, a collector or a file of tallies.

What is opened is only read, and is closed again before the figures are returned.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from murmuration.analysis.estimates import Query
from murmuration.analysis.figures import notes_on, waiting_note
from murmuration.analysis.select import chosen
from murmuration.analysis.tables import CELLS, checked_view
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.status import Status
from murmuration.collector.training.model import TrainedModel, with_liars
from murmuration.errors import ParameterError, missing_extra
from murmuration.results.change import Changes
from murmuration.results.figure import Figures
from murmuration.sources.base import Source
from murmuration.sources.file import mechanism_tally
from murmuration.sources.open import open_source
from murmuration.statistics.liars import SHARE

TOKEN = "MURMUR_TOKEN"  # noqa: S105 - the name of the variable that may have one


@dataclass(frozen=True)
class Opened:
    """A place to read results from. It is opened for each question, and closed after it."""

    where: str = field(repr=False)
    campaign: str | SurveyCampaign = ""
    token: str = field(default="", repr=False)
    plain_http: bool = False
    version: int | None = None

    def estimates(
        self,
        about: str = "participants",
        confidence: float = 0.95,
        combine: str = "",
        together: int | None = None,
        period: str = "",
        liars: float = SHARE,
        where: str | Sequence[str] = (),
        tables: str = CELLS,
    ) -> Figures:
        """Return all figures with intervals of this confidence: in order, and as a table.

        Nothing about fewer people than the campaign's cohort: `notes` says what is hidden. Of
        categories with more labels than `together`, intervals are right all at once. Where a
        question comes back, `period` is one by its name, "last" (unless told otherwise) or "all".
        Each figure says how far a share of `liars` can have moved it; the notes say what honest
        devices never send. `where` names attributes or labels, as `murmur estimate --where` does:
        "age", ["phone=ios", "income*"]. Of tables it returns the "cells"; shares
        within each of the "rows" or "columns"; or "smoothed" cells, which have a bias.
        """
        wanted = [where] if isinstance(where, str) else list(where)
        query = Query(
            about, confidence, combine, together, period, liars=liars, tables=checked_view(tables)
        )
        if (tally := mechanism_tally(self.where)) is not None:
            if wanted:
                raise ParameterError(f"{self.where} has one mechanism's tally, without attributes")
            return tally.mechanism.estimate(tally, query.about).figures(query.confidence)
        with self._source() as source:
            estimates = chosen(source.asked(query), wanted)
        told = notes_on(estimates.attributes, estimates.estimates)
        notes = [*estimates.warnings, *told, waiting_note(estimates)]
        return Figures(estimates.estimates, [note for note in notes if note])

    def changes(
        self,
        period: str = "",
        since: str = "",
        about: str = "participants",
        confidence: float = 0.95,
        combine: str = "",
    ) -> Changes:
        """Return what has changed in a period since another, each figure with its interval.

        In the last period since the one before, unless told otherwise. Its `changed` is the test
        of whether anything has changed over all periods.
        """
        query = Query(about, confidence, combine, None, period, since)
        with self._source() as source:
            estimates = source.asked(query)
        if not estimates.period:
            raise ParameterError(
                f"{estimates.campaign} has no periods: nothing in it can have changed since another"
            )
        return Changes(estimates.changes, estimates.changed)

    def trend(
        self, about: str = "participants", confidence: float = 0.95, combine: str = ""
    ) -> Figures:
        """Return the figures of every period that is shown, figure by figure; `plot` draws it."""
        query = Query(about, confidence, combine)
        with self._source() as source:
            trend = source.trend(query)
        hidden = [f"{period.name}: too few answers" for period in trend.periods if not period.shown]
        return Figures(trend.estimates, hidden)

    def status(self) -> Status:
        """Return what has arrived and what became of it."""
        with self._source() as source:
            return source.status()

    def trained(self, liars: float = SHARE) -> TrainedModel:
        """Return what a training has ended with: coefficients in your units, score, curve.

        And how far a share of `liars` has moved them, at most.
        """
        with self._source() as source:
            return with_liars(source.model()[1], liars)

    def model(self) -> Any:
        """Return the model of a training as a fitted estimator of scikit-learn.

        It predicts from a table with the campaign's own columns. Nothing is unpickled.
        """
        with self._source() as source:
            campaign, trained = source.model()
        try:  # a room that comes after this one, and needs an extra
            learn = import_module("murmuration.learn.fitted")
        except ImportError:
            raise missing_extra("an estimator", "learn") from None
        return learn.fitted(campaign, trained)

    @contextmanager
    def _source(self) -> Iterator[Source]:
        if mechanism_tally(self.where) is not None:
            raise ParameterError(f"{self.where} has one mechanism's tally: it has estimates, only")
        how: dict[str, Any] = {"plain_http": self.plain_http, "version": self.version}
        with closing(open_source(self.where, self.campaign, self.token, **how)) as source:
            yield source


def opened(
    where: str | Path,
    campaign: str | SurveyCampaign = "",
    token: str = "",
    *,
    plain_http: bool = False,
    version: int | None = None,
) -> Opened:
    """ANALYST. Open results to read: a store, a collector, or a file of tallies.

    where: a path, sqlite:///..., postgresql://..., http(s)://..., or a file that has the bytes of
        `Tally.to_bytes`, of `murmur tally`, or of a collector's address `.../tally`
    campaign: its name, where there are several; for a collector's tallies the campaign itself
    token: for a collector that asks for one; MURMUR_TOKEN of the environment if it is left out
    plain_http: let the token go over plain HTTP
    version: an earlier version of the campaign, from a store

    >>> murmuration.open("survey.db").estimates().to_pandas()  # doctest: +SKIP
    >>> murmuration.open("http://127.0.0.1:8750").estimates().plot()  # doctest: +SKIP
    """
    place = str(where)
    web = place.startswith(("http://", "https://"))
    token = token or (os.environ.get(TOKEN, "") if web else "")
    opened_place = Opened(place, campaign, token, plain_http, version)
    if not web and mechanism_tally(place) is None:
        with opened_place._source():
            pass  # says at once if there is no such store, or no such campaign in it
    return opened_place
