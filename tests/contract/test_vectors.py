"""Whole campaigns as vectors: what is published, and what devices send, word for word.

`docs/vectors/reports` has a campaign file and a JSON file for each: the published document as text,
and people. Each has raw answers (`begun`: those that its spell began with), and two reports about
them: `drawn` from the words of `words.json` from place `word` on, all purposes from the one list;
and, from a secret on, `id`, `entries` and the JSON that is sent. `columns` are all of these reports
in the other form, in hexadecimal.

`python -m tests.contract.test_vectors` writes what is missing. It never changes a file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.device.words import DeviceWords, answered
from murmuration.exact.arrays import Rows
from murmuration.exact.keyed import Key, context
from murmuration.exact.randomness import Rng, ScriptedRng
from murmuration.mechanisms.frame import Frame
from murmuration.mechanisms.strategy import Together
from murmuration.wire import report
from murmuration.wire.protocol import SPECIFIED
from tests.support.vectors import KEYED, VECTORS

FOLDER = VECTORS / "reports"
ORIGIN = "https://collector.example:443"
PEOPLE = 10
WORDS = np.array(json.loads((VECTORS / "words.json").read_text())["words"], dtype=np.uint64)
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))
NOT_ASKED = {"privunit", "dct", "graded-laplace"}
"""No campaign asks for a vector of length 1; the others are tables, as `hiera` is, and broken."""
RAW = ["  12.5 ", "1e3", "-7", 0, 3.75, "nonsense", "?", "", None, "01"]
"""Raw values that fit no question in particular."""


# --- what a device does --------------------------------------------------------------------------


def drawn(campaign: SurveyCampaign, answers: dict[str, Any], levels: Any, rng: Rng) -> Rows:
    """What is sent, all words from one list."""
    return campaign.privatize(encoded(campaign, answers, rng), rng, levels, 0)


def encoded(campaign: SurveyCampaign, answers: dict[str, Any], rng: Any) -> list[Any]:
    given = {name: [value] for name, value in answers.items()}
    return campaign.encode(given, rng, never_silent=True)


def keyed(
    campaign: SurveyCampaign, answers: dict[str, Any], levels: Any, words: DeviceWords, turn: str
) -> Rows:
    """What a device sends whose words follow from a secret; in a spell, what it began with."""
    columns = encoded(campaign, answers, words.spread([q.name for q in campaign.questions]))
    laws = campaign.frame.cells
    asked = campaign.asked(columns, words.which(turn), levels)
    period = None if campaign.every is None else campaign.period_named(turn)
    spell = campaign.spell_of(period)
    rows = campaign.frame.laid_out(
        [(one, answered(one, laws[one.cell], words, turn, spell=spell)) for one in asked]
    )
    return campaign.form.dated(rows, period)


def turn_of(campaign: SurveyCampaign, person: int) -> str:
    """The occasion of a person's report: over the end of a year, where there are periods."""
    if campaign.every is None:
        return f"2026-W{person:02}" if campaign.repeated else ""
    return campaign.name_of(campaign.period_named("2026-12-20") + person)


# --- what the files say --------------------------------------------------------------------------


def raw_answers(campaign: SurveyCampaign, person: int) -> dict[str, Any]:
    """Answers as people give them: most of them fit."""
    found: dict[str, Any] = {}
    for place, question in enumerate(campaign.given):
        turn = person + 3 * place
        if question.missing and turn % 4 == 3:
            if turn % 8 == 3:  # said, or left out
                found[question.name] = None
        elif turn % 7 == 6 and (question.missing or question.kind == "category"):
            known = [one for one in RAW if question.missing or one not in (None, "")]
            found[question.name] = known[turn % len(known)]
        elif question.labels:
            found[question.name] = question.labels[5 * turn % len(question.labels)]
        else:
            low, high = question.range
            found[question.name] = low + (turn % 9 - 0.5) * (high - low) / 7
    return found


def chosen(campaign: SurveyCampaign, person: int) -> dict[str, str] | None:
    """The level of each attribute."""
    if campaign.levels is None:
        return None
    names = campaign.levels.names
    return {q.name: names[(person + i) % len(names)] for i, q in enumerate(campaign.given)}


def person_of(campaign: SurveyCampaign, person: int) -> dict[str, Any]:
    """What a file says about a person."""
    answers, level = raw_answers(campaign, person), chosen(campaign, person)
    levels = None if level is None else [list(level.values())]
    who = person // 2 if campaign.repeated else person  # asked again, the same one
    secret = hashlib.sha256(f"{campaign.name} {who}".encode()).digest()
    turn = turn_of(campaign, person)
    words = DeviceWords(Key(secret), ORIGIN, campaign.digest)
    start = 300 * person
    begun = {} if campaign.spells is None else {"begun": raw_answers(campaign, person // 2 * 2)}
    rows = keyed(campaign, begun.get("begun", answers), levels, words, turn)
    ids = np.frombuffer(words.report_id(turn), dtype=np.uint8)[None]
    return {
        "answers": answers,
        **begun,
        "level": level,
        "word": start,
        "drawn": report.entries_of(
            campaign.form, drawn(campaign, answers, levels, ScriptedRng(WORDS[start:]))[0]
        ),
        "secret": secret.hex(),
        "round": turn,
        "id": ids.tobytes().hex(),
        "entries": report.entries_of(campaign.form, rows[0]),
        "report": report.to_json(campaign.form, ids, rows).decode(),
        "row": rows.tobytes().hex(),
    }


def vectors_of(document: str) -> dict[str, Any]:
    """What a file says about a published campaign."""
    campaign = campaign_document.read(document.encode())
    people = [person_of(campaign, person) for person in range(PEOPLE)]
    ids = np.frombuffer(bytes.fromhex("".join(p["id"] for p in people)), dtype=np.uint8)
    rows = np.frombuffer(bytes.fromhex("".join(p["row"] for p in people)), dtype=np.uint8)
    shaped = ids.reshape(PEOPLE, -1), rows.reshape(PEOPLE, -1)
    return {
        "document": document,
        "address": f"https://collector.example/v1/campaigns/{campaign.name}",
        "origin": ORIGIN,
        "digest": campaign.digest,
        "people": people,
        "columns": report.to_binary(campaign.form, *shaped).hex(),
    }


@pytest.mark.parametrize("name", NAMES)
def test_devices_send_what_the_files_say(name: str) -> None:
    golden = json.loads((FOLDER / f"{name}.json").read_text())
    assert vectors_of(golden["document"]) == golden


def test_every_law_that_a_campaign_can_have_is_in_a_vector() -> None:
    found: set[str] = set()
    for name in NAMES:
        text = (FOLDER / f"{name}.json").read_text()
        collection = json.loads(json.loads(json.loads(text)["document"])["collection"])
        found |= {cell["mechanism"] for cell in collection["cells"]}
    assert found == set(SPECIFIED) - NOT_ASKED


# --- words from a secret -------------------------------------------------------------------------

PARTS: dict[str, tuple[str | bytes, ...]] = {
    "id": ("id", ""),
    "which": ("which", ""),
    "answer, a label": ("answer", "3", (2).to_bytes(8, "little"), ""),
    "answer, a number": ("answer", "0", np.float64(-0.25).tobytes(), "2026-W07"),
    "answer, no number": ("answer", "0", np.float64(2).tobytes(), ""),
    "coin": ("coin", "3", ""),
    "permanent": ("permanent", "12", (0).to_bytes(8, "little")),
    "permanent coin": ("permanent coin", "12"),
    "spread": ("spread", "Größe"),
    "paid": ("paid", "12", (0).to_bytes(8, "little")),
}
SECRET, DIGEST = bytes(range(32)), "00" * 32


def words_of(*parts: str | bytes) -> dict[str, Any]:
    """The steps from a context to its first words."""
    whole = (ORIGIN, DIGEST, *parts)
    key = Key(SECRET)
    return {
        "parts": [part if isinstance(part, str) else {"hex": part.hex()} for part in whole],
        "context": context(*whole).hex(),
        "key": key.name(*whole).hex(),
        "words": [str(word) for word in key.rng(*whole).words(9).tolist()],
    }


def test_words_follow_from_a_secret_as_the_file_says() -> None:
    golden = json.loads((KEYED / "words.json").read_text())
    assert golden == keyed_words()


def keyed_words() -> dict[str, Any]:
    return {"secret": SECRET.hex(), **{name: words_of(*parts) for name, parts in PARTS.items()}}


# --- writing -------------------------------------------------------------------------------------


def two_of_them(campaign: SurveyCampaign) -> SurveyCampaign:
    """`sampled` with settings that only a document can have."""
    law = mechanism(
        "sampled",
        epsilon=campaign.epsilon,
        domains=tuple(q.k or 0 for q in campaign.questions),
        **{"sample": 2, "numeric": "duchi", "categorical": "oue"},
    )
    return dataclasses.replace(
        campaign, name="sampled-two", frame=Frame(((law,),), Together())
    ).admitted()


def campaigns() -> dict[Path, SurveyCampaign]:
    found = {FOLDER / f"{p.stem}.json": campaign_file.load(p) for p in FOLDER.glob("*.toml")}
    sampled = found[FOLDER / "sampled.json"]
    return {**found, FOLDER / "sampled-two.json": two_of_them(sampled)}


def lines(golden: dict[str, Any]) -> str:
    """Write JSON with a line for each key and each person."""
    people = ",\n".join(f"    {json.dumps(one)}" for one in golden["people"])
    texts = [
        f'  "people": [\n{people}\n  ]' if key == "people" else f'  "{key}": {json.dumps(value)}'
        for key, value in golden.items()
    ]
    return "{\n" + ",\n".join(texts) + "\n}\n"


def write_missing() -> None:
    write(KEYED / "words.json", json.dumps(keyed_words(), indent=1, ensure_ascii=False) + "\n")
    for path, campaign in campaigns().items():
        if not path.exists():
            path.write_text(lines(vectors_of(campaign_document.publish(campaign).decode())))


def write(path: Path, text: str) -> None:
    if not path.exists():
        path.write_text(text)


if __name__ == "__main__":
    write_missing()
