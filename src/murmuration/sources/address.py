"""A collector, asked over HTTP."""

from __future__ import annotations

import json
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from murmuration.analysis.estimates import Query
from murmuration.analysis.figures import Estimates, Trend
from murmuration.collector.status import Status
from murmuration.collector.training.model import TrainedModel
from murmuration.definition import document as campaign_document
from murmuration.errors import (
    CohortError,
    FormatError,
    MurmurationError,
    ParameterError,
    SendError,
)
from murmuration.sources.base import GOES_ON, Source
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire.address import Address
from murmuration.wire.http import Answer, Connection, Problem

_Kind = TypeVar("_Kind", bound=msgspec.Struct)

SECONDS = 60.0
PLACE = "/v1/campaigns"


class CollectorSource(Source):
    """A collector, asked over HTTP."""

    def __init__(self, url: str, campaign: str, token: str, *, plain_http: bool) -> None:
        # Without a token, only what is public is asked for: anyone may see it on the way.
        address = Address.parse(url, allow_plain_http=plain_http or not token)
        base, _, rest = str(address).partition(PLACE)
        self.base, self.token = base.rstrip("/"), token or None
        self._prefix = address.path.partition(PLACE)[0]
        self._connection = Connection(address, seconds=SECONDS, proxied=True)
        self.name = campaign or rest.strip("/").split("/")[0] or self._only()

    def _only(self) -> str:
        names = [str(row["campaign"]) for row in self._get(PLACE)["campaigns"]]
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

    def _as(self, data: dict[str, Any], kind: type[_Kind]) -> _Kind:
        try:
            return msgspec.convert(data, kind)
        except msgspec.ValidationError:
            raise FormatError(f"{self.base} does not answer as a collector does") from None

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with self._connection as connection:
                answer = connection.request("GET", self._prefix + path, token=self.token)
        except SendError as problem:
            raise ConnectionError(str(problem)) from None
        if answer.status != 200:
            raise self._refusal(answer)
        try:
            data = json.loads(answer.data)
        except (ValueError, RecursionError):
            data = None
        if not isinstance(data, dict):
            raise FormatError(f"{self.base} does not answer as a collector does")
        return data

    def _refusal(self, answer: Answer) -> Exception:
        """Say what the collector said; a system error is no mistake of the user's."""
        problem = answer.problem or Problem()
        said = f"{problem.title} {problem.detail}".strip() or f"HTTP status {answer.status}"
        if answer.status in (401, 403):
            return ParameterError(f"{said} Put the token into the variable MURMUR_TOKEN.")
        if answer.status == 404 and problem.name == "no-model":
            return ParameterError(GOES_ON.format(name=self.name))
        if answer.status == 409 and problem.name == "is-training":
            return ParameterError(f"{self.name} {TrainingCampaign.use}")
        if answer.status == 409:
            return CohortError(problem.detail or said)
        if answer.status >= 500 or answer.status == 429:
            return ConnectionError(f"{self.base}: {said}")
        return MurmurationError(f"{self.base}: {said}")
