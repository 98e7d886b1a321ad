"""Where an analyst reads: a store, a collector's address, or a file of tallies."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from murmuration.analysis.estimates import Query
from murmuration.analysis.estimates import estimates as estimates_of
from murmuration.analysis.estimates import trend as trend_of
from murmuration.analysis.figures import Estimates, Trend
from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import ByPeriod, SurveyCampaign
from murmuration.collector.merging.tallies import by_period
from murmuration.collector.publish import named_or_only, served
from murmuration.collector.served import Served
from murmuration.collector.status import Status
from murmuration.collector.store import Store, open_store, rounds
from murmuration.collector.training.model import TrainedModel, from_json
from murmuration.counting.container import MAGIC, TallyFile
from murmuration.definition import document as campaign_document
from murmuration.errors import CohortError, FormatError, MurmurationError, ParameterError
from murmuration.statistics.liars import SHARE
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire.address import Address, is_loopback

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

SECONDS = 60.0
PLACE = "/v1/campaigns"
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


def open_source(
    where: str,
    campaign: str = "",
    token: str = "",
    *,
    plain_http: bool = False,
    version: int | None = None,
) -> Source:
    """Open a store (a path, sqlite:///..., postgresql://...), a collector (http...), or a file.

    A file is one that `murmur tally` wrote.

    Of a store an earlier `version` of the campaign can be read; a collector serves the latest.
    """
    if where.startswith(("http://", "https://")):
        if version is not None:
            raise ParameterError(
                f"a collector answers for the latest version: version {version} is read from its "
                "store"
            )
        return CollectorSource(where, campaign, token, plain_http=plain_http)
    if (data := bytes_of(where)) is not None:
        return TallySource(TallyFile.from_bytes(data), campaign, version)
    store = open_store(where, readonly=True)
    try:
        return StoreSource(store, campaign, version)
    except BaseException:
        store.close()
        raise


class StoreSource(Source):
    """A store, read directly; the cohort rule is the same as a collector's."""

    def __init__(self, store: Store, campaign: str = "", version: int | None = None) -> None:
        self.store, self.version = store, version
        self.name = named_or_only(store, campaign)

    def asked(self, query: Query) -> Estimates:
        """Read the tallies."""
        asked, tallies, cohort = self._counted()
        return estimates_of(asked.campaign, tallies, query, version=asked.version, cohort=cohort)

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
            tallies = by_period(self.store, asked.campaign)
        return asked, tallies, max(one.campaign.terms.cohort for one in (latest, asked))

    def status(self) -> Status:
        """Read the counts."""
        with self.store.snapshot():
            return self._served().status(self.store)

    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """Read what training has ended with."""
        with self.store.snapshot():
            found = self._served().of_kind(TrainingCampaign)
            ending = rounds.finished(self.store, found.key)
        if ending is None:
            raise ParameterError(GOES_ON.format(name=self.name))
        return found.campaign, from_json(ending)

    def _served(self) -> Served[Campaign]:
        return served(self.store, self.name, self.version)

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def bytes_of(where: str) -> bytes | None:
    """Return what is in a file of a campaign's tallies; None if it is something else."""
    with suppress(OSError, ValueError), Path(where).open("rb") as file:
        if (start := file.read(len(MAGIC))) == MAGIC:
            return start + file.read()
    return None


class TallySource(Source):
    """A file that `murmur tally` wrote; the cohort rule is the same as a collector's."""

    def __init__(self, file: TallyFile, campaign: str = "", version: int | None = None) -> None:
        name = file.campaign.name
        if campaign not in ("", name) or version is not None:
            raise ParameterError(f"this is a file of the tallies of {name}, and of no other")
        self.file = file

    def asked(self, query: Query) -> Estimates:
        """Read the tallies."""
        return estimates_of(self.file.campaign, self.file.tallies, query)

    def trend(self, query: Query) -> Trend:
        """Read the tallies, period by period."""
        return trend_of(self.file.campaign, self.file.tallies, query)

    def status(self) -> Status:
        """A file does not know when what arrived."""
        raise ParameterError("a file of tallies has estimates, and no status")

    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """A file of tallies is no training's."""
        raise ParameterError(f"{self.file.campaign.name} {self.file.campaign.use}")

    def close(self) -> None:
        """It is read already."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could take the token to somebody else."""

    def redirect_request(self, *arguments: Any, **more: Any) -> None:
        """Follow none."""
        del arguments, more


class CollectorSource(Source):
    """A collector, asked over HTTP."""

    def __init__(self, url: str, campaign: str, token: str, *, plain_http: bool) -> None:
        # Without a token, only what is public is asked for: anyone may see it on the way.
        address = Address.parse(url, allow_plain_http=plain_http or not token)
        base, _, rest = str(address).partition(PLACE)
        self.base, self.token = base.rstrip("/"), token
        # What stays on this machine must not go to a proxy that the environment names.
        direct = [urllib.request.ProxyHandler({})] if is_loopback(address.host) else []
        self._open = urllib.request.build_opener(_NoRedirect, *direct).open
        self.name = campaign or rest.strip("/").split("/")[0] or self._only()

    def _only(self) -> str:
        names = [str(one["campaign"]) for one in self._get(PLACE)["campaigns"]]
        if len(names) != 1:
            raise ParameterError(f"say which campaign: {self.base} has {', '.join(names)}")
        return names[0]

    def asked(self, query: Query) -> Estimates:
        """Ask for the estimates."""
        return self._as(self._queried("estimates", query), Estimates)

    def trend(self, query: Query) -> Trend:
        """Ask for the trend."""
        return self._as(self._queried("trend", query), Trend)

    def _queried(self, what: str, query: Query) -> dict[str, Any]:
        asked = {**query.named(), "format": "json"}
        return self._get(f"{PLACE}/{quote(self.name, safe='')}/{what}?{urlencode(asked)}")

    def status(self) -> Status:
        """Ask for the status."""
        return self._as(self._get(f"{PLACE}/{quote(self.name, safe='')}/status"), Status)

    def model(self) -> tuple[TrainingCampaign, TrainedModel]:
        """Ask for the model, and for the campaign that says what its columns are."""
        place = f"{PLACE}/{quote(self.name, safe='')}"
        document = json.dumps(self._get(place)).encode()
        campaign = campaign_document.read(document, TrainingCampaign)
        return campaign, self._as(self._get(f"{place}/model"), TrainedModel)

    def close(self) -> None:
        """Nothing is open between two questions."""

    def _as(self, found: dict[str, Any], kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.convert(found, kind)
        except msgspec.ValidationError:
            raise FormatError(f"{self.base} does not answer as a collector does") from None

    def _get(self, path: str) -> dict[str, Any]:
        headers = {"accept": "application/json"}
        if self.token:
            headers["authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(self.base + path, headers=headers)  # noqa: S310 - http(s)
        try:
            with self._open(request, timeout=SECONDS) as answer:
                found = json.load(answer)
        except urllib.error.HTTPError as problem:
            raise self._refusal(problem) from None
        except urllib.error.URLError as problem:
            raise ConnectionError(f"{self.base} cannot be reached: {problem.reason}") from None
        except ValueError:
            raise FormatError(f"{self.base} does not answer as a collector does") from None
        if not isinstance(found, dict):
            raise FormatError(f"{self.base} does not answer as a collector does")
        return found

    def _refusal(self, answer: urllib.error.HTTPError) -> Exception:
        """Say what the collector said; a problem of the machine is no mistake of the user's."""
        try:
            problem = json.loads(answer.read())
            said = " ".join(str(problem[key]) for key in ("title", "detail") if key in problem)
        except (ValueError, TypeError, OSError):
            problem, said = {}, str(answer.reason)
        if answer.code in (401, 403):
            return ParameterError(f"{said} Put the token into the variable MURMUR_TOKEN.")
        if answer.code == 404 and str(problem.get("type", "")).endswith("/no-model"):
            return ParameterError(GOES_ON.format(name=self.name))
        if answer.code == 409 and str(problem.get("type", "")).endswith("/is-training"):
            return ParameterError(f"{self.name} {TrainingCampaign.use}")
        if answer.code == 409:
            return CohortError(str(problem.get("detail", said)))
        if answer.code >= 500 or answer.code == 429:
            return ConnectionError(f"{self.base}: {said}")
        return MurmurationError(f"{self.base}: {said}")
