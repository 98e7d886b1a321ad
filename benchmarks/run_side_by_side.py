"""One SQLite collector, and two on one PostgreSQL behind HAProxy: reports a second of each.

    python -m benchmarks.run_side_by_side

The same uploads as `run_collector.py`, the same machine, in turn. PostgreSQL and HAProxy are those
of the tests (tests/support); the proxy's configuration is docs/haproxy.cfg.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

from benchmarks.run_collector import CAMPAIGN, KINDS, free_port, made, running
from murmuration.campaign.survey import SurveyCampaign
from murmuration.collector.access.tokens import new_token
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import load as campaign_file
from tests.support import haproxy, load, postgres

MURMUR = str(Path(sys.executable).with_name("murmur"))


def main() -> None:
    """Start everything, then put each kind of load on each in turn; the best round counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    campaign = campaign_file.parse(CAMPAIGN, SurveyCampaign)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=Path(__file__).parent)))
        (folder / "bench.toml").write_text(CAMPAIGN)
        shared = stack.enter_context(
            postgres.fresh_database(stack.enter_context(postgres.server()))
        )
        stores = {"sqlite": str(folder / "bench.db"), "one": shared, "two": shared}
        tokens, ports = {}, {name: free_port() for name in stores}
        for name, store in stores.items():
            with closing(open_store(store)) as opened:
                serve(opened, campaign)
                tokens[name] = new_token(opened, "device")
            command = [MURMUR, "serve", str(folder / "bench.toml"), "--store", store, "--port"]
            behind = [] if name == "sqlite" else ["--forwarded"]
            stack.enter_context(running([*command, str(ports[name]), *behind], ports[name]))
        proxy = stack.enter_context(haproxy.in_front_of(ports["one"], ports["two"]))
        targets = {
            "one on SQLite": (ports["sqlite"], tokens["sqlite"]),
            "one on PostgreSQL": (ports["one"], tokens["one"]),
            "two on PostgreSQL behind HAProxy": (proxy.port, tokens["one"]),
        }
        for what, batch, form, connections, most in KINDS:
            best = dict.fromkeys(targets, 0.0)
            for _ in range(args.rounds):
                for target, (port, token) in targets.items():
                    uploads = made(campaign, token, batch, form, int(most * args.seconds))
                    result = load.run(port, uploads, connections, args.seconds)
                    best[target] = max(best[target], result.rate(batch))
                    print(f"{what:<26} {target:<34}{result.line(batch)}", flush=True)
            print(what, {target: f"{rate:,.0f} reports/s" for target, rate in best.items()})
        print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
