"""The npm package: packed, installed somewhere else, and used by node against a real collector."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

import murmuration
from tests.support import collectors
from tests.support.places import ROOT
from tests.support.tools import require_tool

WEB = ROOT / "web" / "client"
SCRIPT = """
import { Client, MemoryStore } from "murmuration-ldp";
import { ENGLISH } from "murmuration-ldp/element";
const [at] = process.argv.slice(2);
const refusal = await Client.open(at).catch((problem) => problem.kind);
const client = await Client.open(at, { store: new MemoryStore() });
const receipt = await client.report({ phone: "ios" });
const again = await client.report({ phone: "android" });
const spending = await client.spending();
console.log(JSON.stringify([refusal, receipt.outcome, again.fresh, spending, ENGLISH.send]));
"""

TYPED = """
import { Client, type Receipt } from "murmuration-ldp";
import { MurmurCampaign, type Texts } from "murmuration-ldp/element";
export async function told(at: string): Promise<Receipt> {
  const client = await Client.open(at, { limits: { lifetime: 4 } });
  const texts: Partial<Texts> = { send: "Go" };
  Object.assign(new MurmurCampaign(), { texts });
  return await client.report({ phone: "ios", age: 41, home: null });
}
// @ts-expect-error: an outcome is a text
export const wrong: Receipt["outcome"] = 1;
"""


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package in it, as anyone would have it."""
    folder = tmp_path / "app"
    folder.mkdir()
    npm = require_tool("npm")
    if not (WEB / "node_modules" / ".package-lock.json").exists():
        run(WEB, npm, "ci", "--silent", "--no-audit", "--no-fund")
    run(WEB, npm, "pack", "--silent", "--pack-destination", str(folder))
    (packed,) = folder.glob("*.tgz")
    (folder / "package.json").write_text('{"type": "module"}')
    run(folder, npm, "install", "--silent", "--offline", "--no-audit", "--no-fund", packed.name)
    return folder


@pytest.mark.slow
def test_node_takes_part_with_the_packed_client(installed: Path, tmp_path: Path) -> None:
    """It has its types; and without a store it refuses: nothing is forgotten in silence."""
    (installed / "app.ts").write_text(TYPED)
    options = ["--strict", "--noEmit", "--module", "nodenext", "--target", "es2022"]
    tsc = str(WEB / "node_modules" / ".bin" / "tsc")
    run(installed, tsc, *options, "--lib", "es2022,dom,dom.iterable", "app.ts")
    (installed / "device.js").write_text(SCRIPT)
    with collectors.running(tmp_path / "store.db", collectors.one("phones")) as collector:
        at = collector.collection("phones").url
        said = json.loads(run(installed, require_tool("node"), "device.js", at))
        assert collector.collection("phones").received == 1
    refusal, outcome, fresh, spending, send = said
    assert (refusal, outcome, fresh, send) == ("ledger", "stored", False, "Send")
    assert (spending["campaign"], spending["limits"]["lifetime"]) == (1, 16)
    names = {path.name for path in (installed / "node_modules/murmuration-ldp").iterdir()}
    assert names == {"dist", "docs", "README.md", "package.json"}
    kept = json.loads((installed / "node_modules/murmuration-ldp/package.json").read_text())
    assert "dependencies" not in kept
    assert kept["version"] == murmuration.__version__


def test_the_training_file_has_nothing_that_the_client_has() -> None:
    """It imports the client's: a page with both loads the ledger, the laws and the errors once."""
    static = ROOT / "src" / "murmuration" / "server" / "static"
    client, training = (
        (static / f"murmuration-{name}.js").read_text(encoding="utf-8")
        for name in ("client", "training")
    )
    imported = set(re.findall(r'from"([^"]+)"', training))
    assert imported == {"./murmuration-client.js"}
    for text in ("indexedDB", "murmuration ledger", "HMAC", "/problems/", "is promised"):
        assert text not in training
    assert "indexedDB" in client
    names = re.findall(r'"[a-z]{3,}(?:-[a-z]+)+"', training)
    assert not [name for name in names if name in client and name != '"no-round"']


def test_no_lock_file_names_a_registry() -> None:
    text = (WEB / "package-lock.json").read_text(encoding="utf-8")
    assert "resolved" not in text
    assert "://" not in text
