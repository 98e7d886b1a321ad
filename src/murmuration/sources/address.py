"""A collector, asked over HTTP."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from murmuration.analysis.estimates import Query
from murmuration.analysis.figures import Estimates, Trend
from murmuration.collector.status import Status
from murmuration.collector.training.model import TrainedModel
from murmuration.definition import document as campaign_document
from murmuration.errors import CohortError, FormatError, MurmurationError, ParameterError
from murmuration.sources.base import GOES_ON, Source
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire.address import Address, is_loopback

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

SECONDS = 60.0
PLACE = "/v1/campaigns"


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
