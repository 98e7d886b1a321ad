"""The client in a browser: how long a report takes for six attributes, and how large everything is.

python -m benchmarks.run_browser

Needs Debian's chromium. The first times are those of a page that was just opened; later ones are
averages.
"""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path
from typing import Any

from tests.support import browser as browsers
from tests.support import collectors

ROOT = Path(__file__).parents[1]

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
  const bytes = new Uint8Array(await (await fetch(at)).arrayBuffer());
  const each = async (many, work) => {
    const start = performance.now();
    for (let turn = 0; turn < many; turn++) await work();
    return (performance.now() - start) / many;
  };
  const read = () => readDocument(bytes, { address: at });
  const firstRead = await each(1, read);
  const campaign = await read();
  const raw = { age: 41, commute: 12, income: 50, sleep: 7, phone: "ios", home: "home 3" };
  const report = () => {
    const secret = crypto.getRandomValues(new Uint8Array(32));
    return draw(campaign, encode(campaign, raw), { secret, origin: "https://a.example:443" });
  };
  const first = await each(1, report);
  return [bytes.length, firstRead, await each(20, read), first, await each(n, report)];
}
"""


def timed(page: Any, collector: collectors.Collector, strategy: str) -> str:
    """Return a line about the campaign of that strategy."""
    home = collector.collection(strategy).url.partition("/v1/")[0]
    given = [home + browsers.CLIENT, collector.collection(strategy).url, 1000]
    size, first_read, read, first, later = page.evaluate(TIMED, given)
    return (
        f"{strategy:7} document of {size:,} bytes: checked in {first_read:.1f} ms, again in "
        f"{read:.1f} ms; the first report is drawn in {first:.1f} ms, later ones in {later:.2f} ms"
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
            for strategy in ("sample", "split"):
                page = browser.new_page()
                page.goto(site.add("/", "<!doctype html><title>Time</title>"))
                print(timed(page, collector, strategy))


if __name__ == "__main__":
    main()
