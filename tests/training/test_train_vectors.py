"""Trainings as vectors: what is published, and what devices make of it, in every language.

`docs/vectors/training` has a file for each kind of model: the campaign's document and some rounds'
as texts, and for some devices their secret, raw answers, what these are encoded as, and for each
round the role, the value that goes into the law, and the report. `crowd` has for each round and
role the SHA-256 of the values of 300 more people (`_crowd`), as 64-bit floats, little-endian.
`web/client/test/training.test.ts` reads the same files.

`python -m tests.training.test_train_vectors` writes what is missing. It never changes a file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pytest

from murmuration.definition import document as campaign_document
from murmuration.device.training import answers
from murmuration.device.words import DeviceWords
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import seeded_rng
from murmuration.training import round as rounds
from murmuration.wire import report
from tests.support.trainings import FILES, each_round, people, trained
from tests.support.vectors import VECTORS

FOLDER = VECTORS / "training"
ORIGIN = "https://collector.example:443"
PEOPLE = 40_000
"""So many that training pays, whatever is learnt."""
RAW = [
    ({"age": 44, "home": "own"}, 0.9),
    ({"age": "17.25", "home": " rent "}, 0.1),
    ({"age": 1e9, "home": "else"}, 0.9),
    ({"age": -3, "home": "boat"}, 0.4),  # no label: one by chance
    ({"age": 40.000000000000001, "home": "own"}, 0.1),
    ({"age": 61.7, "home": "rent"}, 0.6),
]


def devices(model: str) -> list[dict[str, Any]]:
    """Secrets and raw answers."""
    found = []
    for number, (features, share) in enumerate(RAW):
        target = 50 * share if model == "linear" else ("no", "yes")[share > 0.5]
        secret = Key(bytes(32)).name("vector", bytes([number])).hex()
        found.append({"secret": secret, "features": features, "target": target})
    return found


def made(document: str, texts: list[str], who: list[dict[str, Any]]) -> dict[str, Any]:
    """All that follows from documents, secrets and raw answers."""
    campaign = campaign_document.read(document.encode())
    found = [rounds.read(text.encode(), campaign) for text in texts]
    return {
        "origin": ORIGIN,
        "document": document,
        "rounds": texts,
        "crowd": [_crowd(campaign, one) for one in found],
        "devices": [_device(campaign, found, one) for one in who],
    }


def _crowd(campaign, one) -> list[str]:
    """The digests of many people's values, for each role.

    Of person i feature j is ((37 i + 101 j + 13 i j) mod 2001)/1000 - 1, and the target 1 or -1, as
    i is odd or even; where it is a number (53 i mod 2001)/1000 - 1.
    """
    i, j = np.arange(300)[:, None], np.arange(campaign.width)
    x = ((37 * i + 101 * j + 13 * i * j) % 2001) / 1000 - 1
    i = i[:, 0]
    y = (53 * i % 2001) / 1000 - 1 if campaign.model == "linear" else np.where(i % 2, 1.0, -1.0)
    roles = range(len(one.questions))
    values = [np.ascontiguousarray(one.values(role, x, y) + 0.0, dtype="<f8") for role in roles]
    return [hashlib.sha256(found.tobytes()).hexdigest() for found in values]


def _device(campaign, found, one) -> dict[str, Any]:
    key = Key(bytes.fromhex(one["secret"]))
    words = DeviceWords(key, ORIGIN, campaign.digest)
    given = {name: [value] for name, value in one["features"].items()}
    rngs = words.spread(question.name for question in campaign.questions)
    x, y = campaign.encode(given, [one["target"]], rngs, never_silent=True)
    name = np.frombuffer(words.report_id(""), dtype=np.uint8)[None]
    sent = []
    for each in found:
        rows = answers(each, DeviceWords(key, ORIGIN, each.digest), x, y)
        role = int(rows[0, 0])
        value = np.ravel(each.values(role, x, y)).tolist()
        body = report.to_json(each.form, name, rows).decode()
        sent.append({"role": role, "value": value, "report": body})
    return {
        **{key: one[key] for key in ("secret", "features", "target")},
        "x": x[0].tolist(),
        "y": float(y[0]),
        "rounds": sent,
    }


def chosen(model: str) -> tuple[str, list[str]]:
    """A campaign's document, and one round of each kind of role."""
    campaign = trained(FILES[model], people=str(PEOPLE))
    x, y = campaign.encode(*people(campaign, PEOPLE), seeded_rng(1))
    seen: set[str] = set()
    texts = []
    for one in each_round(campaign, x, y, seeded_rng(2)):
        asks = {question.ask for question in one.questions}
        if not asks <= seen or one.number in (8, 20):
            texts.append(rounds.publish(one).decode())
        seen |= asks
    return campaign_document.publish(campaign).decode(), texts


@pytest.mark.parametrize("model", FILES)
def test_devices_make_what_is_written(model: str) -> None:
    golden = json.loads((FOLDER / f"{model}.json").read_text())
    assert made(golden["document"], golden["rounds"], golden["devices"]) == golden


@pytest.mark.parametrize("model", FILES)
def test_every_role_is_there(model: str) -> None:
    golden = json.loads((FOLDER / f"{model}.json").read_text())
    campaign = campaign_document.read(golden["document"].encode())
    found = [rounds.read(text.encode(), campaign) for text in golden["rounds"]]
    asks = {question.ask for one in found for question in one.questions}
    last = {"gain"} if model == "linear" else {"right"}
    first = {"column", *({"bin", "spread"} if model == "linear" else {"target"})}
    among = {"gradient", "leftover", "size", "offset", "agreement"}
    assert asks == first | among | last


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for model in FILES:
        path = FOLDER / f"{model}.json"
        if not path.exists():
            path.write_text(json.dumps(made(*chosen(model), devices(model)), indent=1) + "\n")
