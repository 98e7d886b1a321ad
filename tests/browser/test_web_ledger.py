"""The browser's ledger beside Python's: one life of charges, and the same verdict on each."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from murmuration.device import Charge, Ledger, Memo
from murmuration.device.costs import exact_cost
from murmuration.errors import BudgetError, ParameterError
from tests.support.places import ROOT
from tests.support.tools import require_tool

CLIENT = ROOT / "src/murmuration/server/static/murmuration-client.js"
COSTS = [0.1, 0.2, 0.3, 1 / 3, 0.7, 1.0, 2.5, 1e-7, 0.30000000000000004]
SCRIPT = """
import { exact, Ledger, MemoryStore } from "CLIENT";
let text = "";
for await (const part of process.stdin) text += part;
const ledger = new Ledger(new MemoryStore());
const told = [];
for (const { kind, ...given } of JSON.parse(text)) {
  try {
    if (kind === "raise") await ledger.raiseLimit(given.name, given.most);
    if (kind === "lower") await ledger.lower({ [given.name]: given.most });
    if (kind !== "charge") { told.push("done"); continue; }
    const memos = given.memos.map(([name, cost]) => ({ name, cost: exact(cost) }));
    const limit = exact(given.limit ?? Infinity);
    const { fresh } = await ledger.charge({ ...given, cost: exact(given.cost), limit, memos });
    if (fresh && given.answered) await ledger.acknowledge(given.reportId, "stored", false);
    told.push(fresh ? "charged" : "known");
  } catch (problem) {
    told.push(problem.reason || problem.kind);
  }
}
const totals = Object.fromEntries((await ledger.store.read((book) => book.totals))
  .map(({ origin, campaign, cost }) => [`${origin} ${campaign}`, cost]));
const pending = (await ledger.pending()).map((entry) => entry.reportId);
console.log(JSON.stringify([told, totals, pending]));
"""


def life(seed: int, steps: int) -> list[dict[str, Any]]:
    """What a person, an app and some collectors ask of a ledger."""
    chance = random.Random(seed)
    return [_step(chance, number) for number in range(steps)]


def _step(chance: random.Random, number: int) -> dict[str, Any]:
    if chance.random() < 0.1:
        kind, name = chance.choice(["raise", "lower"]), chance.choice(["collector", "lifetime"])
        most = (
            chance.choice([0.5, 1, 3, 8, 16, 30])
            if kind == "lower"
            else chance.choice([0.25, 9, 40])
        )
        return {"kind": kind, "name": name, "most": most}
    origin = f"https://{chance.choice('abc')}.example:443"
    campaign = chance.choice(["phones", "towns", "pets"])
    memos = [
        [chance.choice("pqrstu") * 64, chance.choice(COSTS)]
        for _ in range(chance.choice([0, 0, 2]))
    ]
    return {
        **{"kind": "charge", "origin": origin, "campaign": campaign, "purpose": "To test."},
        **{
            "digest": f"{campaign}-{chance.randrange(3)}",
            "round": chance.choice(["", "", "1", "2"]),
        },
        **{"cost": chance.choice(COSTS), "limit": chance.choice([None, None, 1.0, 2.4])},
        **{"memos": memos, "rounds": chance.choice([1, 2, 3]), "report": f"report {number}"},
        **{"reportId": f"{number:032x}", "answered": chance.random() < 0.7},
    }


def verdict(ledger: Ledger, step: dict[str, Any]) -> str:
    """What Python's ledger says of a step."""
    if step["kind"] != "charge":
        change = ledger.raise_limit if step["kind"] == "raise" else _lowered(ledger)
        change(step["name"], step["most"])
        return "done"
    charge = Charge(
        *(step[name] for name in ("origin", "campaign", "digest", "purpose", "cost")),
        *(step["report"].encode(), bytes.fromhex(step["reportId"]), step["round"]),
        memos=[Memo(name.encode(), cost) for name, cost in step["memos"]],
        limit=step["limit"],
        max_reports=step["rounds"],
    )
    made = ledger.reserve(charge)
    if made.report_id.hex() != step["reportId"]:
        return "known"
    if step["answered"]:
        ledger.acknowledge(made.report_id, "stored")
    return "charged"


def _lowered(ledger: Ledger) -> Any:
    return lambda name, most: ledger.lower(**{name: most})


def told(ledger: Ledger, step: dict[str, Any]) -> str:
    try:
        return verdict(ledger, step)
    except BudgetError as problem:
        return "rounds" if problem.reason == "max_reports" else problem.reason
    except ParameterError:
        return "parameter"


@pytest.mark.filterwarnings("ignore:the .* limit stays")
@pytest.mark.parametrize("seed", range(1, 7))
def test_both_ledgers_say_the_same(seed: int, tmp_path: Path) -> None:
    """Limits, rounds, permanent answers, sums of decimals: step by step, and in the end."""
    steps = life(seed, 120)
    script = SCRIPT.replace("CLIENT", CLIENT.as_uri())
    done = subprocess.run(
        [require_tool("node"), "--input-type=module", "-e", script],
        input=json.dumps(steps),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    theirs, totals, pending = json.loads(done.stdout)
    ledger = Ledger(tmp_path / "ledger.db", secret=bytes(32))
    ours = [told(ledger, step) for step in steps]
    assert theirs == ours
    assert {"charged", "known", "campaign", "rounds"} < set(ours)  # and the person's own limits
    assert pending == [entry.report_id.hex() for entry in ledger.pending()]
    for whose, cost in totals.items():
        origin, campaign = whose.split()
        assert float(exact_cost(float(cost))) == ledger.spent(campaign, origin)
