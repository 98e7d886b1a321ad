"""The client in a browser: how long a report takes for six attributes, and how large everything is.

python benchmarks/run_browser.py

Needs Debian's chromium. The numbers are medians, in Chromium on this machine.
"""

from __future__ import annotations

import gzip
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import browser as browsers  # noqa: E402
import collectors  # noqa: E402

CLIENT = ROOT / "src/murmuration/server/static/murmuration-client.js"
SIX = """
name = "{strategy}"
purpose = "Six attributes."
epsilon = 4
strategy = "{strategy}"
cohort = 100
origins = ["{origin}"]
[[attributes]]
name = "age"
low = 18
high = 98
[[attributes]]
name = "commute"
low = 0
high = 60
[[attributes]]
name = "income"
low = 0
high = 200
[[attributes]]
name = "sleep"
kind = "distribution"
low = 0
high = 12
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
[[attributes]]
name = "home"
kind = "category"
labels = {homes}
"""
TIMED = """
async ([library, at, n]) => {
  const { draw, encode, readDocument } = await import(library);
  const median = (found) => found.sort((a, b) => a - b)[found.length >> 1];
  const bytes = new Uint8Array(await (await fetch(at)).arrayBuffer());
  const read = [], drawn = [];
  let campaign;
  for (let turn = 0; turn < 9; turn++) {
    const start = performance.now();
    campaign = await readDocument(bytes, { address: at });
    read.push(performance.now() - start);
  }
  const raw = { age: 41, commute: 12, income: 50, sleep: 7, phone: "ios", home: "home 3" };
  for (let turn = 0; turn < n; turn++) {
    const secret = crypto.getRandomValues(new Uint8Array(32));
    const start = performance.now();
    await draw(campaign, encode(campaign, raw), { secret, origin: "https://a.example:443" });
    drawn.push(performance.now() - start);
  }
  return [bytes.length, median(read), median(drawn), Math.max(...drawn)];
}
"""


def timed(page: Any, collector: collectors.Collector, strategy: str) -> str:
    """Return a line about the campaign of that strategy."""
    home = collector.collection(strategy).url.partition("/v1/")[0]
    given = [home + browsers.CLIENT, collector.collection(strategy).url, 500]
    size, read, drawn, longest = page.evaluate(TIMED, given)
    document = collector.get(f"/v1/campaigns/{strategy}").body
    packed = len(gzip.compress(document, 9, mtime=0))
    return (
        f"{strategy:7} document {size:>9,} bytes, {packed:>7,} gzipped; read and checked in "
        f"{read:6.1f} ms; a report is drawn in {drawn:.2f} ms ({longest:.2f} at most)"
    )


def main() -> None:
    """Print the size of the client, and a line for each strategy."""
    client = CLIENT.read_bytes()
    print(f"client  {len(client):,} bytes, {len(gzip.compress(client, 9, mtime=0)):,} gzipped")
    homes = [f"home {number}" for number in range(50)]
    with tempfile.TemporaryDirectory() as folder, browsers.Site() as site:
        texts = [
            SIX.format(strategy=strategy, origin=site.origin, homes=homes)
            for strategy in ("sample", "split")
        ]
        store = Path(folder) / "store.db"
        with (
            collectors.running(store, *texts, measured=False) as collector,
            browsers.chromium() as browser,
        ):
            page = browser.new_page()
            page.goto(site.add("/", "<!doctype html><title>Time</title>"))
            for strategy in ("sample", "split"):
                print(timed(page, collector, strategy))


if __name__ == "__main__":
    main()
