"""One file says what all languages must agree on; none of them has a list of its own."""

from __future__ import annotations

import json
import re

from murmuration.wire import protocol
from tests.support.places import ROOT, SUPPORT
from tests.support.vectors import VECTORS

CLIENT = ROOT / "web" / "client"
WRITTEN = "protocol.ts"
SOURCES = [path for path in (CLIENT / "src").rglob("*.ts") if path.name != WRITTEN]
HOW = "run: .venv/bin/python -m murmuration.wire.protocol docs/vectors/protocol.json; make web"


def test_the_file_is_current() -> None:
    assert (VECTORS / "protocol.json").read_text(encoding="utf-8") == protocol.written(), HOW


def test_no_language_has_a_list_of_its_own() -> None:
    """No list of keys or of reasons outside the file that is generated."""
    found = protocol.protocol()
    texts = [path.read_text(encoding="utf-8") for path in SOURCES]
    texts.append((SUPPORT / "java" / "Device.java").read_text(encoding="utf-8"))
    for keys in found["keys"].values():
        names = r"[^a-z]{1,12}".join(key for key, *_ in keys[:4])
        assert not [text for text in texts if len(keys) > 4 and re.search(rf'"{names}\b', text)]
    for reason in set(found["final"]) - {"duplicate"}:
        lists = rf'"{reason}"[:,\]]'
        assert not [text for text in texts if re.search(lists, text)]


def test_every_key_whose_numbers_have_a_point_is_listed() -> None:
    """As the published campaigns of the vectors write them."""
    texts = [path.read_text() for path in (VECTORS / "reports").glob("*.json")]
    documents = [json.loads(json.loads(text)["document"])["collection"] for text in texts]
    number = r'"(\w+)":\[*-?\d+\.\d'
    levels = {name for text in documents for name in json.loads(text).get("levels", ())}
    written = {key for text in documents for key in re.findall(number, text)} - levels
    assert written
    assert written <= set(protocol.floats())
