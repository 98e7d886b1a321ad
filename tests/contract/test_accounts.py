"""Which charges an account allows, as vectors: limits of the person, the campaign's own, set aside.

`docs/vectors/keyed/accounts.json` has accounts of one person each, and what is charged one after
the other (docs/wire.md, section 4.5):

    limits      on one collector and on everything; the limit on one report needs no account
    cost        what the report costs by itself, besides its permanent answers
    permanent   the permanent answers that it rests on: name and cost
    limit       the most that the campaign may cost; inf: no limit of its own
    rounds      how often the question is asked, at most
    aside       what all reports of the question may cost, where that is set aside
    outcome     what is charged, or which limit refuses it: nothing is noted then

`python -m tests.contract.test_accounts` writes the file.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from murmuration.device import Charge, Ledger, Memo
from murmuration.device.costs import Cost
from murmuration.errors import BudgetError
from tests.contract.test_charges import decimal
from tests.support.vectors import KEYED

ACCOUNTS = KEYED / "accounts.json"
USUAL = {"collector": "8", "lifetime": "16"}


def charge(origin: str, campaign: str, cost: str, **more: Any) -> dict[str, Any]:
    """One charge; its question is the campaign's, unless `digest` names another version."""
    one = {"origin": origin, "campaign": campaign, "digest": campaign, "round": "", "cost": cost}
    return {**one, "permanent": [], "limit": "inf", "rounds": 1, "aside": None, **more}


def weekly(round: str, values: str, **more: Any) -> dict[str, Any]:  # noqa: A002
    """A report of a question that comes back, with 4 to set aside; a value costs 2."""
    paid = [{"name": value.encode().hex(), "cost": "2"} for value in values]
    kept = {"round": round, "permanent": paid, "rounds": 9, "limit": "4", "aside": "4"}
    return charge("https://a.example:443", "weekly", "0", **{**kept, **more})


A, A2, B = "https://a.example:443", "http://a.example:8080", "https://b.example:443"
CASES: dict[str, tuple[dict[str, str], list[dict[str, Any]]]] = {
    "sums are exact": (
        {**USUAL, "lifetime": "0.3"},
        [charge(A, name, "0.1") for name in ("x", "y", "z", "more")],
    ),
    "a collector is a host": (
        USUAL,
        [
            *(charge(A, "x", "4"), charge(A2, "x", "4"), charge(A, "y", "0.25")),
            *(charge(B, "x", "8"), charge("https://c.example:443", "x", "0.25")),
        ],
    ),
    "a campaign's own limit": (
        USUAL,
        [
            charge(A, "x", "1", limit="1.5"),
            charge(A, "x", "1", limit="1.5", digest="second version"),
            charge(A, "x", "0.5", limit="1.5", digest="third version"),
            charge(B, "x", "1", limit="1.5"),
        ],
    ),
    "a permanent answer is paid for once": (
        USUAL,
        [
            weekly("1", "g"),
            weekly("2", "g"),
            weekly("3", "b"),
            weekly("4", "n"),
            weekly("5", "g"),
        ],
    ),
    "what is set aside counts as spent": (
        {**USUAL, "lifetime": "5"},
        [
            weekly("1", "g"),
            charge(B, "x", "1.5"),
            charge(B, "x", "1"),
            weekly("2", "b"),
            charge(B, "y", "0.001"),
        ],
    ),
    "set aside at first contact, or never": (
        {**USUAL, "lifetime": "5"},
        [
            charge(B, "x", "1.001"),
            weekly("1", "g"),
            weekly("2", "g", aside=None),
            weekly("3", "g", aside=None),
        ],
    ),
    "two versions set aside twice": (
        {"collector": "8", "lifetime": "inf"},
        [
            weekly("1", "g"),
            weekly("1", "b", digest="second version"),
            weekly("1", "n", digest="third version"),
            charge(A2, "x", "0.1"),
        ],
    ),
    "so often and no more": (
        USUAL,
        [weekly(str(number), "g", rounds=3) for number in range(1, 5)],
    ),
    "no answer for want of budget is free": (
        {**USUAL, "lifetime": "0.5"},
        [
            charge(A, "x", "1"),
            charge(A, "x", "0"),
            weekly("1", "g"),
            weekly("1", "", aside=None, limit="inf"),
            charge(B, "x", "0.5"),
        ],
    ),
    "an infinite loss": (
        {"collector": "inf", "lifetime": "inf"},
        [charge(A, "x", "inf", limit="inf"), charge(A, "y", "1")],
    ),
}


def accounts(folder: Path) -> list[dict[str, Any]]:
    """What becomes of the charges of each account, by this library."""
    found = []
    for number, (name, (limits, charges)) in enumerate(CASES.items()):
        ledger = Ledger(folder / f"{number}.db")
        for limit, most in limits.items():
            change = ledger.set_limit if float(most) <= 8 else ledger.raise_limit
            change(limit, float(most))
        done = [{**one, "outcome": _outcome(ledger, one, i)} for i, one in enumerate(charges)]
        found.append({"name": name, "limits": limits, "charges": done})
    return found


def _outcome(ledger: Ledger, one: dict[str, Any], number: int) -> str:
    wanted = Charge(
        *(one["origin"], one["campaign"], one["digest"], "purpose", _cost(one["cost"])),
        report=b"bytes",
        report_id=number.to_bytes(16, "big"),
        period=one["round"],
        memos=[Memo(bytes.fromhex(m["name"]), _cost(m["cost"])) for m in one["permanent"]],
        limit=None if one["limit"] == "inf" else _cost(one["limit"]),
        max_reports=one["rounds"],
        aside=None if one["aside"] is None else _cost(one["aside"]),
    )
    try:
        cost = ledger.reserve(wanted).cost
    except BudgetError as refused:
        return f"refused: {'rounds' if refused.reason == 'max_reports' else refused.reason}"
    return "inf" if cost == float("inf") else decimal(Fraction(cost))


def _cost(text: str) -> Cost:
    return float("inf") if text == "inf" else Fraction(text)


def test_an_account_allows_what_the_file_says(tmp_path: Path) -> None:
    assert json.loads(ACCOUNTS.read_text()) == accounts(tmp_path)


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("what is set aside counts as spent", ["2", "refused: lifetime", "1", "2"]),
        ("set aside at first contact, or never", ["1.001", "refused: lifetime", "2", "0"]),
        ("a collector is a host", ["4", "4", "refused: collector", "8", "refused: lifetime"]),
        ("no answer for want of budget is free", ["refused: lifetime", "0", "refused: lifetime"]),
    ],
)
def test_what_the_accounts_say(name: str, outcomes: list[str]) -> None:
    """Worked out by hand."""
    (found,) = (one for one in json.loads(ACCOUNTS.read_text()) if one["name"] == name)
    assert [one["outcome"] for one in found["charges"]][: len(outcomes)] == outcomes


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        parts = []
        for one in accounts(Path(place)):
            rows = ",\n".join(f"  {json.dumps(each)}" for each in one["charges"])
            head = f'"name": {json.dumps(one["name"])}, "limits": {json.dumps(one["limits"])}'
            parts.append(f' {{{head}, "charges": [\n{rows}\n ]}}')
    ACCOUNTS.write_text("[\n" + ",\n".join(parts) + "\n]\n")
