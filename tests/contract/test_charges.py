"""What a device charges and keeps, and which level a lot gives it, as vectors.

`docs/vectors/keyed/charges.json` has the people of `docs/vectors/reports`, one after the other:

    entries     what each entry costs that rests on no permanent answer
    permanent   the permanent answers that the report rests on: the name that a ledger knows each
                by, what it costs, and in spells what is kept, hidden (nonce: 0, 1, ..., 15)
    cost        what this ledger is charged now: what was paid for costs nothing again

`docs/vectors/keyed/levels.json` has levels by lot.

`python -m tests.contract.test_charges` writes the files.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document
from murmuration.device.words import DeviceWords, as_octets, owned, remembered
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import uniform
from tests.contract.test_vectors import FOLDER, NAMES, ORIGIN, encoded
from tests.support.vectors import KEYED

CHARGES, LEVELS = KEYED / "charges.json", KEYED / "levels.json"
CAMPAIGNS = [name for name in NAMES if not name.startswith("broken")]
NONCE = bytes(range(16))
DIGEST = hashlib.sha256(b"a campaign").hexdigest()


def permanent(
    campaign: SurveyCampaign, person: dict[str, Any], words: DeviceWords
) -> list[dict[str, Any]]:
    """The permanent answers that a report rests on, and those that are paid for in advance."""
    questions = [question.name for question in campaign.questions]
    raw = person.get("begun", person["answers"])
    columns = encoded(campaign, raw, words.spread(questions))
    levels = None if person["level"] is None else [list(person["level"].values())]
    asked = campaign.asked(columns, words.which(person["round"]), levels)
    spell = None if campaign.every is None else campaign.spell_of(period_of(campaign, person))
    found = [_entry(campaign, one, words, spell) for one in asked]
    if campaign.prepays_none:
        none = [question.no_answers(1) for question in campaign.questions]
        for cell, group in enumerate(campaign.frame.group_of.tolist()):
            law = campaign.frame.cells[cell]
            written = owned(law, law.domain.written(law.domain.checked(none[group])))
            found.append({"name": words.paid(cell, written).hex(), "charge": law.charge})
    return [one for one in found if one]


def _entry(campaign: SurveyCampaign, one: Any, words: DeviceWords, spell: int | None) -> Any:
    law = campaign.frame.cells[one.cell]
    if not law.memoised:
        return {}
    if spell is None:
        written = owned(law, law.domain.written(law.domain.checked(one.values)))
        return {"name": words.paid(one.cell, written).hex(), "charge": law.charge}
    answer = as_octets(remembered(one, law, words, spell)).tobytes()
    place = (words.origin, words.digest, "mask", str(one.cell), str(spell))
    mask = words.key.name(*place, NONCE)
    hidden = NONCE + bytes(a ^ b for a, b in zip(answer, mask, strict=False))
    return {"name": words.kept(one.cell, spell).hex(), "charge": law.charge, "kept": hidden.hex()}


def period_of(campaign: SurveyCampaign, person: dict[str, Any]) -> int:
    return campaign.period_named(person["round"])


def charges_of(name: str) -> list[dict[str, Any]]:
    """What the devices of a file are charged, one report after the other."""
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    campaign = document.read(golden["document"].encode())
    paid: dict[str, set[str]] = {}
    return [_charged(campaign, person, paid) for person in golden["people"]]


def _charged(
    campaign: SurveyCampaign, person: dict[str, Any], paid: dict[str, set[str]]
) -> dict[str, Any]:
    words = DeviceWords(Key(bytes.fromhex(person["secret"])), ORIGIN, campaign.digest)
    laws = [campaign.frame.cells[entry[0]] for entry in person["entries"]]
    entries = [law.charge for law in laws if not law.memoised]
    rests = permanent(campaign, person, words)
    known = paid.setdefault(person["secret"], set())
    new = {one["name"]: one["charge"] for one in rests if one["name"] not in known}
    known |= set(new)
    cost = sum((Fraction(repr(charge)) for charge in [*entries, *new.values()]), Fraction(0))
    if not new and not campaign.repeated:
        cost = min(cost, Fraction(repr(campaign.epsilon)))
    return {
        "id": person["id"],
        "entries": entries,
        "permanent": rests,
        "cost": decimal(cost),
    }


def decimal(cost: Fraction) -> str:
    """A sum of decimals, written out.

    >>> decimal(Fraction("0.30000000000000004") + 1)
    '1.30000000000000004'
    """
    places = 0
    while (cost * 10**places).denominator > 1:
        places += 1
    digits = f"{int(cost * 10**places):0{places + 1}d}"
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def levels() -> list[dict[str, Any]]:
    """The place of the level that a lot gives a device: uniform, from the words `level`."""
    found = []
    for number in range(12):
        secret = hashlib.sha256(f"level {number}".encode()).digest()
        rng = Key(secret).rng(ORIGIN, DIGEST, "level")
        many = 2 + number % 3
        place = int(uniform(rng, 1, many)[0])
        found.append(
            {
                "secret": secret.hex(),
                "origin": ORIGIN,
                "digest": DIGEST,
                "levels": many,
                "level": place,
            }
        )
    return found


def charges() -> dict[str, list[dict[str, Any]]]:
    return {name: charges_of(name) for name in CAMPAIGNS}


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_devices_charge_what_the_file_says(name: str) -> None:
    assert json.loads(CHARGES.read_text())[name] == charges_of(name)


def test_a_permanent_answer_is_paid_for_once() -> None:
    """Two reports of one device rest on the same answers where its value stayed."""
    spells = charges_of("spells")
    assert [one["cost"] for one in spells[:2]] == ["4", "0"]
    assert spells[0]["permanent"] == spells[1]["permanent"]
    assert {one["cost"] for one in charges_of("rounds")} > {"0"}


def test_a_lot_gives_the_level_that_the_file_says() -> None:
    found = json.loads(LEVELS.read_text())
    assert found == levels()
    assert {one["level"] for one in found} == {0, 1, 2}


def rows(values: list[Any]) -> str:
    return "[\n" + ",\n".join(f"  {json.dumps(value)}" for value in values) + "\n ]"


if __name__ == "__main__":
    parts = [f" {json.dumps(name)}: {rows(values)}" for name, values in charges().items()]
    CHARGES.write_text("{\n" + ",\n".join(parts) + "\n}\n")
    LEVELS.write_text(rows(levels()).replace("\n ]", "\n]") + "\n")
