"""docs/wire.md as a program that uses nothing of ours, held against the library word for word."""

from __future__ import annotations

import bisect
import hashlib
import hmac
import json
import math
import struct
from collections.abc import Callable

import numpy as np

from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.device.words import DeviceWords
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import ScriptedRng, seeded_rng
from murmuration.wire import report

CAMPAIGN = """
name = "wire"
purpose = "To be answered by another program."
epsilon = 2.0
[[attributes]]
name = "age"
low = 18
high = 98
[[attributes]]
name = "weight"
low = 30
high = 200
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other", "none"]
[[attributes]]
name = "sleep"
low = 0
high = 12
missing = true
[[attributes]]
name = "work"
kind = "distribution"
low = 0
high = 24
missing = true
"""
ANSWERS = {"age": 41.5, "weight": 250, "phone": "other", "sleep": 7.25, "work": None}


Words = Callable[..., list[int]]
"""What a device's words for a purpose are: the purpose, and its parts."""


def entry(document: bytes, answers: dict, words: Words) -> list[int]:
    """What a device sends, from the document and 64-bit words."""
    outer = json.loads(document)
    assert hashlib.sha256(outer["collection"].encode()).hexdigest() == outer["digest"]
    campaign = json.loads(outer["collection"])
    asked = which(campaign, words("which", "")[0] >> 12)
    question, cell = campaign["attributes"][asked], campaign["cells"][asked]
    value = answers[question["name"]]
    if question.get("kind") == "category":
        item = question["labels"].index(value)
        noise = words("answer", str(asked), struct.pack("<q", item), "")
        return [asked, response(cell["law"], item, noise[0] >> 12)]
    low, high = question["low"], question["high"]
    if value is None:  # what no answer is written as, and drawn from
        noise = words("answer", str(asked), struct.pack("<d", 2.0), "")
        return [asked, bisect.bisect_right(np.cumsum(cell["law"]["none"]).tolist(), noise[1] >> 12)]
    x = 2 * ((min(max(value, low), high) - low) / (high - low)) - 1
    noise = words("answer", str(asked), struct.pack("<d", x), "")
    if question.get("missing") and noise[2] >> 12 < cell["law"]["hush"]:
        return [asked, len(cell["law"]["none"]) - 1]
    return [asked, symbol(cell["law"]["weights"], x, noise[0], noise[1])]


def which(campaign: dict, word: int) -> int:
    """The attribute that is asked."""
    return bisect.bisect_right(campaign["ends"], word) if "ends" in campaign else word % 5


def keyed(secret: bytes, *parts: str | bytes) -> bytes:
    """The key of a purpose."""
    octets = [part.encode() if isinstance(part, str) else part for part in parts]
    context = b"".join(struct.pack(">I", len(part)) + part for part in octets)
    return hmac.new(secret, context, hashlib.sha256).digest()


def first_words(key: bytes) -> list[int]:
    """The first four words of a key."""
    block = hmac.new(key, struct.pack(">Q", 0), hashlib.sha256).digest()
    return list(struct.unpack("<4Q", block))


def response(law: dict, item: int, word: int) -> int:
    k = (2**52 - law["truth"]) // law["lie"] + 1
    beyond = word - (2**52 - (k - 1) * law["lie"])
    if beyond < 0:
        return item
    other = beyond // law["lie"]
    return other + (other >= item)


def symbol(weights: list[list[int]], x: float, first: int, second: int) -> int:
    c = 52 - int(math.log2(len(weights) - 1))
    place = int(((x + 3.0) - 2.0) * 2**51)
    row = weights[(place + (first >> (64 - c))) >> c]
    return bisect.bisect_right(np.cumsum(row).tolist(), second >> 12)


def test_another_program_sends_the_same() -> None:
    document = campaign_document.publish(campaign_file.parse(CAMPAIGN))
    campaign = campaign_document.read(document)
    columns = campaign.encode({name: [value] for name, value in ANSWERS.items()}, seeded_rng(1))
    for seed in range(60):
        words = np.random.PCG64(seed).random_raw(4).tolist()
        rows = campaign.privatize(columns, ScriptedRng(words))
        purposes = {"which": words[:1], "answer": words[1:]}
        wanted = entry(document, ANSWERS, lambda purpose, *_, found=purposes: found[purpose])
        assert report.entries_of(campaign.form, rows[0]) == [wanted]


def test_another_program_has_the_same_words() -> None:
    """Section 3: from the secret to the words, and from them to the id and the report."""
    document = campaign_document.publish(campaign_file.parse(CAMPAIGN))
    campaign = campaign_document.read(document)
    columns = campaign.encode({name: [value] for name, value in ANSWERS.items()}, seeded_rng(1))
    origin, digest = "https://collector.example:443", campaign.digest
    for person in range(30):
        secret = hashlib.sha256(b"%d" % person).digest()

        def words(*parts: str | bytes, secret: bytes = secret) -> list[int]:
            return first_words(keyed(secret, origin, digest, *parts))

        device = DeviceWords(Key(secret), origin, digest)
        (asked,) = campaign.asked(columns, device.which(""))
        law = campaign.frame.cells[asked.cell]
        written = law.domain.written(asked.values)[0].tobytes()
        sent = asked.answered(law, device.answer(asked.cell, written, ""))
        rows = campaign.frame.laid_out([(asked, sent)])
        assert report.entries_of(campaign.form, rows[0]) == [entry(document, ANSWERS, words)]
        assert device.report_id("") == keyed(secret, origin, digest, "id", "")[:16]
