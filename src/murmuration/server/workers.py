"""Run the collector: in this process, or in several that share one PostgreSQL store."""

from __future__ import annotations

import asyncio
import errno
import gc
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.context import SpawnProcess
from pathlib import Path
from types import FrameType
from typing import Any, cast

import uvicorn
import uvloop

from murmuration.campaign.kind import Campaign
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.files.sink import ToFolder
from murmuration.collector.publish import only, serve
from murmuration.collector.store import open_store
from murmuration.definition.document import publish, read
from murmuration.errors import ParameterError
from murmuration.server.app import Collector
from murmuration.server.limits import Limits
from murmuration.server.listener import Listener
from murmuration.server.run import Endpoint, configured, discreet, log_to_stderr
from murmuration.server.watch import Truths


@dataclass(frozen=True)
class Settings:
    """All that a worker process needs; campaigns travel as published."""

    store: str
    documents: tuple[bytes, ...]
    endpoint: Endpoint
    limits: Limits
    truths: Truths | None = None
    reports: Path | None = None


class Server(uvicorn.Server):
    """uvicorn's, which takes connections itself (`Listener`).

    It waits for open answers at its end: those that go on are ended first.
    """

    def __init__(self, config: uvicorn.Config, collector: Collector) -> None:
        super().__init__(config)
        self._collector = collector
        self._listeners: list[Listener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin as usual, and listen."""
        await super().startup(sockets=[])
        config, made = self.config, (self.config, self.server_state, self.lifespan.state)
        protocol = partial(cast(Any, config.http_protocol_class), *made)
        self._listeners = [
            Listener(listening, config.backlog, protocol, config.ssl) for listening in sockets or []
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let viewers go, then end as usual."""
        self._collector.end_streams()
        for listener in self._listeners:
            listener.close()
        await super().shutdown(sockets)


def run(
    campaigns: Sequence[Campaign],
    store: str,
    endpoint: Endpoint,
    workers: int = 1,
    limits: Limits | None = None,
    truths: Truths | None = None,
    reports: Path | None = None,
) -> None:
    """Listen until told to stop. `truths` are for the demo, where people are simulated.

    With `reports`, reports go to that folder and not into the store.
    """
    check(store, endpoint, workers)
    documents = tuple(map(publish, campaigns))
    settings = Settings(store, documents, endpoint, limits or Limits(), truths, reports)
    listener = listening(endpoint)
    if workers == 1:
        _serve(settings, listener)
    else:
        _supervise(settings, listener, workers)


def check(store: str, endpoint: Endpoint, workers: int = 1) -> None:
    """Refuse what cannot run."""
    endpoint.check()
    if workers > 1 and not store.startswith("postgres"):
        raise ParameterError("several workers need PostgreSQL: a SQLite file has one writer")
    for path in (endpoint.certificate, endpoint.key):
        if path is not None and not path.is_file():
            raise ParameterError(f"there is no file {path}")
    if endpoint.key is not None and (mode := endpoint.key.stat().st_mode & 0o777) & 0o077:
        raise ParameterError(
            f"{endpoint.key} is for more people than its owner (mode {mode:o}), and with it what "
            f"devices send can be read on the way: chmod 600 {endpoint.key} (a mounted secret has "
            "a mode, too: 0400)"
        )


def listening(endpoint: Endpoint) -> socket.socket:
    """Bind the endpoint, so that a port in use is found before anything starts."""
    try:
        if endpoint.socket is not None:
            return socket.socket(fileno=os.dup(endpoint.socket))
        family, _, _, _, place = socket.getaddrinfo(
            endpoint.host, endpoint.port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(place)
        except OSError:
            listener.close()
            raise
    except OSError as problem:
        why = problem.strerror or str(problem)
        hint = "; choose another with --port" if problem.errno == errno.EADDRINUSE else ""
        where = f"{endpoint.host}:{endpoint.port}"
        raise ParameterError(f"cannot listen on {where}: {why.lower()}{hint}") from None
    listener.set_inheritable(True)
    return listener


def _serve(settings: Settings, listener: socket.socket) -> None:
    """Serve in this process until a signal ends it, or the process that started it is gone."""
    _end_with_parent()
    log_to_stderr()
    store = open_store(settings.store)
    served = [serve(store, read(document)) for document in settings.documents]
    endpoint = settings.endpoint
    where, surveys = settings.reports, only(served, SurveyCampaign)
    collector = Collector(
        *(store, served, settings.limits, endpoint.front, settings.truths),
        None if where is None else ToFolder(where, store, surveys),
    )
    server = Server(configured(collector, endpoint), collector)
    _calm_collection()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.get_loop().set_exception_handler(discreet)
        runner.run(server.serve(sockets=[listener]))


def _end_with_parent() -> None:
    """End when the supervisor does, however it does: a worker alone would hold the port."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="murmur-parent", daemon=True).start()


def _calm_collection() -> None:
    """Let Python look for cycles rarely: uploads make many small lists and no cycle.

    What is there at the start is never looked at again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)


def _supervise(settings: Settings, listener: socket.socket, workers: int) -> None:
    """Keep so many processes going; one that dies is replaced."""
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)

    def started() -> SpawnProcess:
        process = context.Process(target=_serve, args=(settings, listener))
        process.start()
        return process

    running = [started() for _ in range(workers)]
    while not stopping.wait(0.5):
        running = [process if process.is_alive() else started() for process in running]
    for process in running:
        process.terminate()
    for process in running:
        process.join()
