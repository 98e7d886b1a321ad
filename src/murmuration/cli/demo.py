"""`murmur demo`: a whole collection on this machine, from campaign file to estimates.

A collector runs in a process of its own, with a SQLite file; simulated devices fetch the campaign,
randomise their answers and send them over HTTP; the estimates come back over HTTP too and stand
beside the truth, which in a real collection nobody would know.
"""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray
from rich.table import Table

from murmuration import sentences
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.extras import require
from murmuration.cli.local_collector import collecting
from murmuration.cli.options import Json, PeopleSeed
from murmuration.cli.output import console, emit_json, errors, progress_bar, remark, say
from murmuration.collector.store import open_store
from murmuration.definition.document import read
from murmuration.errors import MurmurationError, ParameterError
from murmuration.exact.randomness import system_rng
from murmuration.lab.fleet import Sent, send_all
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.http import Connection
from murmuration.wire.ids import new_ids

CAMPAIGN = """\
# A campaign as an engineer writes it: `murmur check` explains it, `murmur serve` collects it.
name = "commute"
purpose = "How people get to work, and with which phone they read this."
epsilon = 2.0        # what one person's report may reveal, exactly audited
people = 200_000     # how many are expected: the planner chooses by it
cohort = 1000        # nothing is shown about fewer people

[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"

[[attributes]]
name = "commute"
low = 0
high = 100
unit = "km"

[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
"""
PHONES = ("android", "ios", "other", "none")
PHONE_SHARES = (0.62, 0.31, 0.05, 0.02)
STEPS = 4
"""A second, in which devices arrive that do not come all at once."""
Values = dict[str, NDArray[Any]]
Truths = dict[str, dict[str, float]]


@dataclass(frozen=True)
class Running:
    """A collector that answers."""

    process: subprocess.Popen[bytes]
    port: int
    token: str
    code: str
    """It signs a browser in, once."""

    @property
    def url(self) -> str:
        """The campaign's address."""
        return f"http://127.0.0.1:{self.port}/v1/campaigns/commute"

    def get(self, path: str) -> bytes:
        """Ask the collector, as its admin."""
        with Connection(Address.parse(self.url)) as connection:
            answer = connection.request("GET", path, token=self.token)
        if answer.status != 200:
            raise ParameterError(f"the collector answered {answer.status} to {path}")
        return answer.data


def demo(
    people: Annotated[int, typer.Option(min=3000, help="How many simulated devices.")] = 200_000,
    seed: PeopleSeed = 7,
    folder: Annotated[Path, typer.Option(help="For the campaign file and the store.")] = Path(
        "out/demo"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free.")] = 8750,
    seconds: Annotated[
        float, typer.Option(min=0, help="How long they take to arrive, so that it can be watched.")
    ] = 60,
    once: Annotated[
        bool, typer.Option("--once", help="All arrive at once; end when the result is printed.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Collect from simulated devices over HTTP; show truth, estimate and interval.

    Open the link that is printed to watch the charts sharpen. The collector goes on until Ctrl-C;
    with --once or --json it ends when the result is printed.
    """
    require("server")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the collector ends too
    values, watched = _crowd(people, seed), not (once or as_json)
    with _collector(folder, port, _truths(values)) as running:
        if watched:
            _invite(running)
        sent = _send(running, values, seconds if watched else 0)
        answer = json.loads(running.get("/v1/campaigns/commute/estimates"))
        status = json.loads(running.get("/v1/campaigns/commute/status"))
        if as_json:
            emit_json(
                {"sent": dict(sent.counts), "status": status, **answer, "truth": _truths(values)}
            )
            return
        _print(answer, _truths(values))
        _account(sent, status)
        if not once:
            _wait(running, folder)


def _crowd(people: int, seed: int) -> Values:
    """Return what the devices know: the one thing that nobody else ever sees."""
    crowd = np.random.default_rng(seed)
    return {
        "age": 18 + 80 * crowd.beta(1.6, 2.6, people),
        "commute": np.minimum(crowd.lognormal(2.2, 0.9, people), 100.0),
        "phone": np.array(PHONES)[crowd.choice(len(PHONES), people, p=PHONE_SHARES)],
    }


def _truths(values: Values) -> Truths:
    phones, counts = np.unique(values["phone"], return_counts=True)
    shares = dict(zip(phones.tolist(), (counts / counts.sum()).tolist(), strict=True))
    means = {name: {"mean": float(values[name].mean())} for name in ("age", "commute")}
    return {**means, "phone": shares}


# --- the collector -------------------------------------------------------------------------------


@contextmanager
def _collector(folder: Path, port: int, truths: Truths) -> Iterator[Running]:
    """Write the campaign file, start a collector on a new store, and end it."""
    from murmuration.collector.access.sessions import new_code
    from murmuration.collector.access.tokens import new_token

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "campaign.toml").write_text(CAMPAIGN)
    (folder / "truths.json").write_text(json.dumps(truths))
    for old in folder.glob("demo.db*"):
        old.unlink()
    with closing(open_store(folder / "demo.db")) as store:
        token, code = new_token(store, "admin"), new_code(store)
    options = ("--demo-truths", str(folder / "truths.json"))
    with collecting(folder / "campaign.toml", str(folder / "demo.db"), port, *options) as (
        process,
        port,
    ):
        yield Running(process, port, token, code)


# --- the devices ---------------------------------------------------------------------------------


def _invite(running: Running) -> None:
    """Say where it can be watched, and where one can take part."""
    home = f"http://127.0.0.1:{running.port}"
    say(
        f"Watch it in a browser (this link works once): {home}/sign-in?code={running.code}\n"
        f"Take part yourself: {home}/c/commute"
    )


def _send(running: Running, values: Values, seconds: float) -> Sent:
    """Fetch the campaign, randomise, send: all at once, or over some seconds.

    The words are the operating system's, for all devices at once: none of them reports again, so
    none needs a key (`murmur send` has one for each row).
    """
    campaign = read(running.get("/v1/campaigns/commute"), SurveyCampaign)
    _introduce(campaign, running.url, len(values["age"]))
    rows = campaign.privatize(campaign.encode(values, system_rng()), system_rng())
    start, steps, sent = time.monotonic(), max(1, round(seconds * STEPS)), Sent()
    with progress_bar() as bar:
        task = bar.add_task("devices", total=len(rows))
        for step, some in enumerate(np.array_split(rows, steps)):
            time.sleep(max(0.0, start + step / STEPS - time.monotonic()))
            sent += send_all(
                running.url,
                campaign.form,
                new_ids(len(some)),
                some,
                batch=100,
                progress=lambda n: bar.advance(task, n),
                form="json",
            )
    if sent.unsent:
        raise MurmurationError(f"{sent.unsent:,} reports were not answered: {sent.problem}")
    return sent


def _introduce(campaign: SurveyCampaign, url: str, people: int) -> None:
    rng, answers = system_rng(), {"age": [41.0], "commute": [12.5], "phone": ["ios"]}
    example = campaign.privatize(campaign.encode(answers, rng), rng)
    remark(
        f"{people:,} devices fetch {url}\n"
        f"each answers one of {len(campaign.questions)} attributes with noise, in "
        f"{campaign.form.row_bytes} bytes; exact loss "
        f"{sentences.reveals(campaign.loss().epsilon, campaign.epsilon)}\n"
        f"someone aged 41, 12.5 km from work, with an iPhone might send "
        f"{report.entries_of(campaign.form, example[0])}"
    )


# --- what comes out ------------------------------------------------------------------------------


def _print(answer: Mapping[str, Any], truths: Mapping[str, Mapping[str, float]]) -> None:
    table = Table(title=f"{answer['people']:,} people, epsilon 2, over HTTP")
    for heading in ("", "truth", "estimate", "95% interval", "answers"):
        table.add_column(heading, justify="left" if not heading else "right")
    for figure in answer["estimates"]:
        truth = truths[figure["attribute"]].get(figure["item"], 0.0)
        digits = 2 if figure["item"] == "mean" else 4
        ends = f"{figure['low']:.{digits}f} to {figure['high']:.{digits}f}"
        missed = not figure["low"] <= truth <= figure["high"]
        table.add_row(
            f"{figure['attribute']}: {figure['item']} ({figure['unit']})",
            f"{truth:.{digits}f}",
            f"{figure['value']:.{digits}f}",
            f"[yellow]* {ends}[/]" if missed else ends,
            f"{figure['n']:,}",
        )
    console.print(table)


def _account(sent: Sent, status: Mapping[str, Any]) -> None:
    counted = ", ".join(f"{outcome} {n:,}" for outcome, n in status["outcomes"].items())
    console.print(
        f"received {status['received']:,} = {counted}; {sent.rate:,.0f} reports per second, each "
        "answered when it was on the disk. A 95% interval misses (*) 1 time in 20.",
        highlight=False,
    )


def _wait(running: Running, folder: Path) -> None:
    """Leave the collector running until someone ends it."""
    try:
        say(
            f"\nThe collector goes on at {running.url} (Ctrl-C ends it).\n"
            f"  curl -H 'authorization: Bearer {running.token}' {running.url}/estimates\n"
            f"  murmur status {folder / 'demo.db'}"
        )
        running.process.wait()
    except KeyboardInterrupt:
        errors.print("ending")
