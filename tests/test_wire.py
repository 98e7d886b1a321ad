"""docs/wire.md as a program that uses nothing of ours, held against the library word for word."""

from __future__ import annotations

import bisect
import hashlib
import json
import math

import numpy as np

from murmuration.campaign import document as campaign_document
from murmuration.campaign.file import load as campaign_file
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
"""
ANSWERS = {"age": 41.5, "weight": 250, "phone": "other"}


def entry(document: bytes, answers: dict, words: list[int]) -> list[int]:
    """What a device sends, from the document and 64-bit words."""
    outer = json.loads(document)
    assert hashlib.sha256(outer["collection"].encode()).hexdigest() == outer["digest"]
    campaign = json.loads(outer["collection"])
    asked = bisect.bisect_right(campaign["ends"], words[0] >> 12)
    question, cell = campaign["attributes"][asked], campaign["cells"][asked]
    value = answers[question["name"]]
    if question.get("kind") == "category":
        return [asked, response(cell["law"], question["labels"].index(value), words[1] >> 12)]
    low, high = question["low"], question["high"]
    x = 2 * ((min(max(value, low), high) - low) / (high - low)) - 1
    return [asked, symbol(cell["law"]["weights"], x, words[1], words[2])]


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
        words = np.random.PCG64(seed).random_raw(3).tolist()
        rows = campaign.privatize(columns, ScriptedRng(words))
        assert report.entries_of(campaign, rows[0]) == [entry(document, ANSWERS, words)]
