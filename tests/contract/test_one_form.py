"""Section 1 of docs/wire.md: how to check a document's one form with an ordinary JSON parser.

Such a parser loses the order of keys and tells 1 from 1.0 in no language but a few: so parts are
compared. This is the recipe, without the library; `protocol.json` has keys and floats.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.support.vectors import VECTORS

PROTOCOL = json.loads((VECTORS / "protocol.json").read_text())
FLOATS = set(PROTOCOL["floats"])
PART = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[{}\[\],:]')
LISTS = {"attributes": "attribute", "cells": "cell"}


def one_form(text: str) -> bool:
    """Whether a collection is written in its one form."""
    parts = PART.findall(text)
    return "".join(parts) == text and all(map(plain, parts)) and Walk(parts).fine()


def plain(part: str) -> bool:
    """Whether a text is written in ASCII, with the escapes that there are."""
    return not part.startswith('"') or json.dumps(json.loads(part)) == part


class Walk:
    """A walk along the parts, with a stack of what is open: each a key, and the keys so far."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        self.open: list[tuple[str, list[str]]] = []
        self.key = ""

    def fine(self) -> bool:
        return all(self.step(place) for place in range(len(self.parts)))

    def step(self, place: int) -> bool:
        part, after = self.parts[place], self.parts[place + 1 : place + 2]
        if part in "{[":
            self.open.append((self.key, []))
        elif part in "}]":
            self.key, keys = self.open.pop()
            return part == "]" or self.ordered(keys)
        elif part.startswith('"') and after == [":"]:
            self.open[-1][1].append(json.loads(part))
            self.key = self.open[-1][0] if self.open[-1][0] == "levels" else json.loads(part)
        elif part.startswith('"') and self.key == "settings":
            self.key = json.loads(part)  # the name of a pair, for the number behind it
        elif part[0] in "-0123456789":
            return number(part, self.key in FLOATS)
        return True

    def ordered(self, keys: list[str]) -> bool:
        """Whether the keys of an object are those of its list, each once, in its order."""
        if len(set(keys)) < len(keys) or not self.open or self.key in LISTS:
            return len(set(keys)) == len(keys) and self.listed(keys)
        return True

    def listed(self, keys: list[str]) -> bool:
        what = LISTS[self.key] if self.open else "collection"
        order = [name for name, *_ in PROTOCOL["keys"][what]]
        return keys == [name for name in order if name in keys]


def number(part: str, point: bool) -> bool:
    if not point:
        return re.fullmatch(r"0|-?[1-9][0-9]*", part) is not None
    return re.search(r"[.e]", part) is not None and repr(float(part)) == part


REPORTS = sorted((VECTORS / "reports").glob("*.json"))
REFUSED = json.loads((VECTORS / "refused.json").read_text())


def collection(document: str) -> str:
    return str(json.loads(document)["collection"])


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_what_is_published_is_in_its_one_form(path: Any) -> None:
    assert one_form(collection(json.loads(path.read_text())["document"]))


@pytest.mark.parametrize("one", REFUSED, ids=lambda one: one["name"])
def test_another_form_is_found_and_nothing_else(one: dict[str, str]) -> None:
    """A default that is written, and a 0 with a sign, are in a form: other rules refuse them."""
    written = one["name"] in ("a default", "a zero with a sign")
    wrong = one["rule"] == "form" and not written
    assert one_form(collection(one["document"])) != wrong or one["name"] == "unknown key"
