"""More than a collector can take: what it takes stays as much, and others are served.

A small `benchmarks/run_overload.py`. Bounds are ratios within one run, as the machine may be busy:
processor time for goodput, and the load's own waiting for that of somebody else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.wire import report
from tests.support import load
from tests.support.accounts import campaign_of, made
from tests.support.collectors import Collector, one, running

CAMPAIGN = campaign_of(one("phone"))
PATH = "/v1/campaigns/phone/reports"
SECONDS = 1.5
KINDS = {
    "columns": (1000, report.BINARY, 48, 900_000),
    "JSON": (100, report.JSON, 96, 250_000),
    "single reports": (1, report.JSON, 96, 12_000),
}
"""Reports in an upload, its form, connections at 1 times the load, reports to have ready."""
LOADS = ((1, 1), (3, 1), (10, 1), (10, 960), (1, 1))
"""How many times the load, and from how many addresses."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Collector]:
    with running(tmp_path / "store.db", one("phone"), measured=False) as found:
        yield found


def uploads(campaign: SurveyCampaign, batch: int, kind: str, n: int) -> list[bytes]:
    return load.requests(campaign, made(campaign, n)[1], batch, kind, "", PATH)


def processor(server: Collector) -> float:
    """The seconds of processor that it has had."""
    fields = Path(f"/proc/{server.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_goodput_stays_and_others_are_served(server: Collector, name: str) -> None:
    batch, kind, connections, n = KINDS[name]
    costs = []
    for times, addresses in LOADS:
        before, start = server.status("phone")["people"], processor(server)
        singles = uploads(CAMPAIGN, 1, report.JSON, int(SECONDS / load.EVERY))
        with load.somebody_else(server.port, singles, SECONDS) as other:
            found = load.run(
                server.port,
                uploads(CAMPAIGN, batch, kind, n),
                times * connections,
                SECONDS,
                addresses,
            )
        costs.append((processor(server) - start) / found.good(batch))
        assert (found.refused, other.refused) == ({}, {})  # nobody else wants so much
        sent = found.good(batch) + other.good(1)
        assert server.status("phone")["people"] == before + sent
        if times == 10 and batch > 1:
            assert np.median(other.latencies) < 0.7 * np.median(found.latencies)
        # Nine of ten: one stall of the machine is not the queue.
        assert np.quantile(other.latencies, 0.9) < 1.5 * max(found.latencies)
    assert max(costs) < 1.5 * max(costs[0], costs[-1])
