"""What each route does: one function each, with the campaign that the address names."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from murmuration.analysis import figures
from murmuration.analysis.combine import NAMES
from murmuration.analysis.estimates import Query
from murmuration.analysis.estimates import estimates as estimates_of
from murmuration.analysis.estimates import trend as trend_of
from murmuration.analysis.periods import ALL, LAST
from murmuration.analysis.tables import CELLS, VIEWS
from murmuration.campaign.form import ByPeriod
from murmuration.campaign.kind import Campaign, Kind
from murmuration.campaign.survey import SurveyCampaign, utc_now
from murmuration.collector.access.sessions import signed_in, signed_out
from murmuration.collector.access.tokens import ANALYST, hashed
from murmuration.collector.commit import Batch, refuse
from murmuration.collector.merging.known import exported, own_sketch
from murmuration.collector.merging.tallies import merge_tallies
from murmuration.collector.publish import only
from murmuration.collector.served import Intake, Served
from murmuration.collector.shown import shown as shown_tallies
from murmuration.collector.shown import waiting
from murmuration.collector.store import Store, Token, rounds
from murmuration.collector.training.model import from_json, to_json, with_liars
from murmuration.collector.training.rounds import CLOSED_NOW, GOES_ON, where
from murmuration.counting.container import CampaignTallies
from murmuration.errors import CohortError, FormatError, MismatchError, ParameterError
from murmuration.server import body, cors, signing
from murmuration.server.accept import preferred
from murmuration.server.app import Collector
from murmuration.server.fair_use import Part
from murmuration.server.ingest import Arrived
from murmuration.server.kinds import kind_of
from murmuration.server.live import SessionState
from murmuration.server.metrics import exposition
from murmuration.server.page_files import GUARDED, PRIVATE, SIGN_IN, shell
from murmuration.server.planner import planned
from murmuration.server.problems import PROBLEMS, Problem, described
from murmuration.server.receipts import receipt
from murmuration.server.responses import (
    Alive,
    Listed,
    Listing,
    Merging,
    Ready,
)
from murmuration.server.streams import Events
from murmuration.statistics.liars import SHARE, checked_share
from murmuration.training.campaign import TrainingCampaign
from murmuration.wire import report
from murmuration.wire.report import Incoming

log = logging.getLogger("murmuration.server")

MOST_DIGITS = 9
BEHIND = (
    "%s: another collector has counted reports of this one that are not here: this store is an old "
    "copy, or was copied and both went on. Make a new store, and merge both into it"
)
OCTETS, TEXT, SCRIPT = "application/octet-stream", "text/plain", "text/javascript"
HTML, EVENTS = "text/html", "text/event-stream"


@dataclass(frozen=True, slots=True)
class Call:
    """One request: which collector it asks, and about which campaign if its address names one."""

    collector: Collector
    request: Request
    named: Served[Campaign] | None
    token: Token | None = None
    """What the request showed, if it needed any."""

    @property
    def serving(self) -> Served[Campaign]:
        """The campaign that the address names, of either kind."""
        if self.named is None:
            raise Problem("unknown-campaign")
        return self.named

    @property
    def served(self) -> Served[SurveyCampaign]:
        """The campaign that the address names, which asks for figures."""
        return self._of_kind(SurveyCampaign, "is-training")

    @property
    def training(self) -> Served[TrainingCampaign]:
        """The training that the address names."""
        return self._of_kind(TrainingCampaign, "no-training")

    def _of_kind(self, wanted: type[Kind], problem: str) -> Served[Kind]:
        try:
            return self.serving.of_kind(wanted)
        except ParameterError:
            raise Problem(problem) from None


# --- what devices use ----------------------------------------------------------------------------


async def campaigns(call: Call) -> Response:
    """List the campaigns."""
    now, collector = utc_now(), call.collector
    over = {name: await collector.read(each.is_over) for name, each in collector.served.items()}
    listed = [
        Listed(
            *(name, each.version, each.campaign.digest, terms.purpose),
            terms.accepts(now) and not over[name],
        )
        for name, each in collector.served.items()
        for terms in [each.campaign.terms]
    ]
    return _json(Listing(listed))


async def document(call: Call) -> Response:
    """Return the published campaign: all that a device needs."""
    return call.collector.documents[call.serving.campaign.name].answer(call.request)


async def ask_document(call: Call) -> Response:
    """Say whether a page may have the document."""
    return cors.preflight(call.request, call.serving, "GET")


async def ask_round(call: Call) -> Response:
    """Say whether a page may have the open round."""
    return cors.preflight(call.request, call.serving, "GET")


async def ask_upload(call: Call) -> Response:
    """Say whether a page may send reports."""
    return cors.preflight(call.request, call.serving, "POST")


async def client(call: Call) -> Response:
    """Return a file of the client for browsers."""
    file = call.collector.client_files.get(call.request.path_params["file"])
    if file is None:
        raise Problem("not-found", "there is no such file of the client here")
    return file.answer(call.request)


async def upload(call: Call) -> Response:
    """Take one report or many; answer when they are on the disk."""
    collector, sender = call.collector, who(call.request)
    kind = call.request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in (report.JSON, report.BINARY):
        raise Problem("unsupported-type", f"send {report.JSON} or {report.BINARY}")
    with collector.room.hold(sender) as held:
        arrived = await _read(call, held, kind)
        if kind == report.JSON and arrived.size > report.SMALL:
            await collector.parse(arrived.decode)  # so that others do not wait for it
        await collector.ingest.submit(arrived, sender)
    collector.runners[call.serving.campaign.name].counted()
    return await receipt(arrived.batch.problems, collector.room.part(sender))


async def _read(call: Call, held: Part, kind: str) -> Arrived:
    """Read an upload, and note what was true when it came."""
    data, problem = b"", None
    try:
        data = await body.read(call.request, held, call.collector.limits)
    except body.Unreadable as found:
        problem = found
    except Problem as found:
        if found.name == "overloaded":
            held.give_back()
            await body.read_past(call.request)
        raise
    campaign, intake, now = call.serving.campaign, await _intake(call, data, kind), utc_now()
    batch = Batch(
        *(intake, Incoming([])),
        in_time=campaign.terms.accepts(now),
        periods=campaign.open_periods(now),
        token=call.token.own if call.token else b"",
    )
    return Arrived(batch, data, kind) if problem is None else Arrived.unreadable(batch, problem)


async def _intake(call: Call, data: bytes, kind: str) -> Intake:
    """Return what a body is for: the campaign, or the round of a training that it names."""
    name = call.serving.campaign.name
    intake = await call.collector.runners[name].intake(data, kind)
    if intake is None:  # it has not opened yet
        await call.collector.ingest.write(refuse, name, "outside-window")
        raise Problem("no-round")
    return intake


# --- what devices and analysts of a training use -------------------------------------------------


async def open_round(call: Call) -> Response:
    """Return the round that takes reports now: what is asked, at which model, by which laws."""
    served = call.training
    state, kept = await call.collector.read(where, served)
    if state == GOES_ON and not served.campaign.terms.accepts(utc_now()):
        state = CLOSED_NOW
    if kept is None or state != GOES_ON:
        raise Problem("no-round", state)
    return _round(kept)


async def earlier_round(call: Call) -> Response:
    """Return a round as it was published, whatever has become of it."""
    number = call.request.path_params["number"]
    if not (number.isascii() and number.isdigit() and len(number) <= MOST_DIGITS):
        raise Problem("not-found", "a round's number is a whole number")
    kept = await call.collector.read(rounds.numbered, call.training.key, int(number))
    if kept is None:
        raise Problem("not-found", "no round of this number was published")
    return _round(kept)


def _round(kept: rounds.StoredRound) -> Response:
    return Response(kept.document, media_type=report.JSON, headers={"cache-control": "no-store"})


async def model(call: Call) -> Response:
    """Return what a training has ended with."""
    document = await call.collector.read(rounds.finished, call.training.key)
    if document is None:
        raise Problem("no-model")
    if "liars" in call.request.query_params:
        document = to_json(with_liars(from_json(document), _liars(call.request)))
    return Response(document, media_type=report.JSON)


# --- what analysts use ---------------------------------------------------------------------------


async def estimates(call: Call) -> Response:
    """Read the crowd's answer as it is now."""
    form, query = _form(call.request), _query(call.request, call.served.campaign)
    state = await call.collector.read(_shown_now, call.served.campaign)
    data = await call.collector.compute(_estimates, call.served, *state, query, form)
    return Response(data, media_type=figures.FORMATS[form])


async def trend(call: Call) -> Response:
    """Read every period's figures, and whether anything has changed."""
    if call.served.campaign.every is None:
        raise Problem("bad-parameter", "this campaign has no periods")
    query = _query(call.request, call.served.campaign)
    tallies = await call.collector.read(shown_tallies, call.served.campaign)
    return _json(await call.collector.compute(_trend, call.served, tallies, query))


async def status(call: Call) -> Response:
    """Say what has arrived and what became of it."""
    return _json(await call.collector.read(call.serving.status))


async def live(call: Call) -> Response:
    """Go on saying what is known, whenever it has changed; once, to whoever wants no events."""
    collector, request, named = call.collector, call.request, call.serving
    watcher = collector.watchers[named.campaign.name]
    if EVENTS not in request.headers.get("accept", ""):
        return Response(await watcher.once(), media_type=figures.JSON)
    place = Part(collector.streams, who(request))
    place.take()

    async def allowed() -> bool:
        try:
            await collector.gate.check(ANALYST, *shown(collector, request, named))
        except Problem:
            return False
        return True

    return Events(watcher, place, allowed)


async def plan(call: Call) -> Response:
    """Work out what a collection would give, as `murmur plan` does."""
    with call.collector.room.hold(who(call.request)) as held:
        data = await body.read(call.request, held, call.collector.limits)
        async with call.collector.planning:  # one at a time: solving a table may take its time
            return _json(await asyncio.to_thread(planned, data))


# --- what browsers use ---------------------------------------------------------------------------


async def page_file(call: Call) -> Response:
    """Return a file that pages load."""
    file = call.collector.pages.get(call.request.path_params["file"])
    if file is None:
        raise Problem("not-found", "there is no such file of the pages here")
    return file.answer(call.request)


async def dashboard(call: Call) -> Response:
    """Show the dashboard."""
    return _page(call, "dashboard.html")


async def participant(call: Call) -> Response:
    """Show a campaign to somebody who may take part."""
    return _page(call, kind_of(call.serving).page)


async def proof(call: Call) -> Response:
    """Show the audit of a campaign's laws; a training's own page checks them."""
    page = kind_of(call.serving).proof
    if page is None:
        place = f"../{call.serving.campaign.name}"
        return Response(status_code=303, headers={"location": place, **GUARDED, **PRIVATE})
    return _page(call, page)


async def planner(call: Call) -> Response:
    """Show the planner."""
    return _page(call, "plan.html")


async def sign_in(call: Call) -> Response:
    """Turn a code into a session, once; without one, say where codes come from."""
    collector, request = call.collector, call.request
    code = request.query_params.get("code")
    if code is None or request.method == "HEAD":
        return _page(call, SIGN_IN)
    if "prefetch" in request.headers.get("sec-purpose", ""):
        raise Problem("bad-code", "a page that nobody has opened yet uses up no code")
    if not signing.is_own(request, collector.front):
        raise Problem("bad-code", "open the link from a terminal, or paste it as an address")
    # Whoever guesses must not make the store write.
    known = await collector.read(Store.has_code, hashed(code))
    session = await collector.ingest.write(signed_in, code) if known else None
    if session is None:
        raise Problem("bad-code")
    response = Response(status_code=303, headers={"location": "./", **GUARDED, **PRIVATE})
    signing.keep(response, request, collector.cookie, collector.front, session)
    return response


async def sign_out(call: Call) -> Response:
    """End the session of this browser."""
    collector, request = call.collector, call.request
    if not signing.is_own(request, collector.front):
        raise Problem("other-page")
    session = request.cookies.get(collector.cookie, "")
    if await collector.gate.signed_in(session) is not None:
        collector.gate.forget(session)
        await collector.ingest.write(signed_out, session)
    response = Response(status_code=303, headers={"location": "./", **PRIVATE})
    signing.drop(response, request, collector.cookie, collector.front)
    return response


async def session(call: Call) -> Response:
    """Say who is signed in, and what may be read."""
    token = call.token
    if token is None:
        raise Problem("unauthorized")
    names = [name for name in call.collector.served if token.campaign in ("", name)]
    return _json(SessionState(token.name, token.role, names, token.expires))


def shown(
    collector: Collector, request: Request, served: Served[Campaign] | None
) -> tuple[str | None, Served[Campaign] | None, str | None]:
    """Return what a request shows of who it is: a header, or the session of a page of ours."""
    header = request.headers.get("authorization")
    return header, served, signing.session_of(request, collector.cookie, collector.front)


def _page(call: Call, name: str) -> Response:
    page = shell(call.request, call.collector.pages, name)
    if page is None:
        raise Problem("not-found", "the pages are not built here: make web")
    return page


# --- what admins and other collectors use --------------------------------------------------------


async def tally(call: Call) -> Response:
    """Return all tallies, by the collector that counted them."""
    looked = await _looked_through(call, exported)
    return Response(looked.to_bytes(), media_type=OCTETS)


async def merge(call: Call) -> Response:
    """Take over another collector's tallies; sending them again changes nothing."""
    served, collector = call.served, call.collector
    sources = frozenset(call.token.sources.split()) if call.token else frozenset()
    with collector.room.hold() as held:
        data = await body.read(call.request, held, collector.limits)
        other = await collector.parse(_tallies, data, served)
        sketch = await _looked_through(call, own_sketch)
        try:
            taken = await collector.ingest.write(merge_tallies, served, other, sources, sketch)
        except MismatchError as problem:  # whose words repeat how much came, and nothing else of it
            raise Problem("mismatched-tally", str(problem)) from None
    if taken.is_behind:
        log.warning(BEHIND, served.campaign.name)
    return _json(Merging(taken.news, taken.news + taken.known, taken.left_out))


_T = TypeVar("_T")


async def _looked_through(call: Call, look: Callable[[Store, SurveyCampaign], _T]) -> _T:
    """Look at every id of a campaign, in a thread and by a connection of its own: it may take long.

    Other readers do not wait for it.
    """
    reader = await call.collector.read(lambda store: store.reader())

    def looked() -> _T:
        with closing(reader):
            return look(reader, call.served.campaign)

    return await asyncio.to_thread(looked)


# --- what machines use ---------------------------------------------------------------------------


async def health(call: Call) -> Response:
    """Alive."""
    del call
    return _json(Alive())


async def ready(call: Call) -> Response:
    """Ready when the store can be written to and nothing waits long for it."""
    collector = call.collector
    await collector.read(_probe)
    if collector.ingest.is_overloaded:
        raise Problem("overloaded")
    return _json(Ready(collector.ingest.uploads_waiting))


async def metrics(call: Call) -> Response:
    """Numbers for Prometheus."""
    collector = call.collector
    counts = {name: await collector.read(Store.counts, name) for name in collector.served}
    training = {
        each.campaign.name: await collector.read(each.status)
        for each in only(collector.served.values(), TrainingCampaign)
    }
    return Response(exposition(collector, counts, training), media_type=f"{TEXT}; version=0.0.4")


async def problem(call: Call) -> Response:
    """Explain a type of problem."""
    name = call.request.path_params["problem"]
    if name not in PROBLEMS:
        raise Problem("not-found")
    return _json(described(name))


# --- small things --------------------------------------------------------------------------------


def who(request: Request) -> str:
    """Return what counts as one client: its share is by this."""
    client = request.scope.get("client")
    return client[0] if client else ""


def _json(data: Any) -> Response:
    return Response(msgspec.json.encode(data), media_type="application/json")


def _probe(store: Store) -> None:
    store.probe()


def _form(request: Request) -> str:
    """Return the form that is asked for: by `format`, else by the Accept header."""
    asked = request.query_params.get("format")
    if asked is not None:
        if asked not in figures.FORMATS:
            raise Problem("bad-parameter", f"format is {', '.join(figures.FORMATS)}")
        return asked
    form = preferred(request.headers.get("accept", "*/*"))
    if form is None:
        raise Problem("not-acceptable")
    return form


def _level(request: Request) -> float:
    try:
        confidence = float(request.query_params.get("confidence", "0.95"))
    except ValueError:
        confidence = -1.0
    if not 0 < confidence <= figures.MOST_CONFIDENCE:
        raise Problem("bad-parameter", f"confidence is above 0 and up to {figures.MOST_CONFIDENCE}")
    return confidence


def _about(request: Request) -> str:
    about = request.query_params.get("about", "participants")
    if about not in figures.ABOUT:
        raise Problem("bad-parameter", f"about is {' or '.join(figures.ABOUT)}")
    return about


def _combine(request: Request) -> str:
    combine = request.query_params.get("combine", "")
    if combine not in ("", *NAMES):
        raise Problem("bad-parameter", f"combine is {' or '.join(NAMES)}")
    return combine


def _together(request: Request) -> int | None:
    """Return from how many labels on intervals are to be right all at once; None for nowhere."""
    together = request.query_params.get("together")
    if together is None:
        return None
    if not (together.isascii() and together.isdigit() and len(together) <= MOST_DIGITS):
        raise Problem("bad-parameter", "together is a whole number: of labels, at most")
    return int(together)


def _liars(request: Request) -> float:
    try:
        return checked_share(float(request.query_params.get("liars", SHARE)))
    except (ValueError, ParameterError):
        raise Problem("bad-parameter", "liars is a share between 0 and 1") from None


def _tallies(data: bytes, served: Served[SurveyCampaign]) -> CampaignTallies:
    """Read tallies; what is wrong with them is not said in the sender's words."""
    try:
        return CampaignTallies.from_bytes(data, served.campaign)
    except MismatchError:
        raise Problem("mismatched-tally", "it is of another campaign, or version") from None
    except FormatError:
        raise Problem("unreadable-body", "it is damaged, or no tally at all") from None


def _tables(request: Request) -> str:
    view = request.query_params.get("tables", CELLS)
    if view not in VIEWS:
        raise Problem("bad-parameter", f"tables is one of {', '.join(VIEWS)}")
    return view


def _query(request: Request, campaign: SurveyCampaign) -> Query:
    """Return what is asked for; periods by names that can be read."""
    given = request.query_params
    period, since = given.get("period", ""), given.get("since", "")
    if campaign.every is None and (period or since):
        raise Problem("bad-parameter", "this campaign has no periods")
    for name in {period, since} - {"", LAST, *((ALL,) if not since else ())}:
        try:
            campaign.period_named(name)
        except ParameterError:
            raise Problem("bad-parameter", "period is a period's name, last or all") from None
    if since and since == period:
        raise Problem("bad-parameter", "a change is between two periods")
    how = (_about(request), _level(request), _combine(request), _together(request))
    return Query(*how, period, since, _liars(request), _tables(request))


def _trend(served: Served[SurveyCampaign], tallies: ByPeriod, query: Query) -> figures.Trend:
    return trend_of(served.campaign, tallies, query, version=served.version)


def _shown_now(store: Store, campaign: SurveyCampaign) -> tuple[ByPeriod, int]:
    with store.snapshot():
        return shown_tallies(store, campaign), waiting(store, campaign)


def _estimates(
    served: Served[SurveyCampaign], tallies: ByPeriod, later: int, query: Query, form: str
) -> bytes:
    about = {"version": served.version, "waiting": later}
    try:
        estimates = estimates_of(served.campaign, tallies, query, **about)
        return figures.rendered(estimates, form)
    except CohortError as problem:
        raise Problem("cohort-too-small", str(problem)) from None
    except ParameterError:
        raise Problem("not-acceptable", "Parquet is not installed here") from None
