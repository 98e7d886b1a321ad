"""ARCHITECTURE.md: short, and its tables are the code's."""

from __future__ import annotations

import re
import tomllib

from murmuration.collector.store import schema
from tests.support.places import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
LONGEST = 120


def table(title: str) -> list[str]:
    """The first cells of the table below a title."""
    part = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return [
        line.split(" | ")[0].removeprefix("| ") for line in part.splitlines()[3:] if "| " in line
    ]


def test_it_can_be_read_in_ten_minutes() -> None:
    assert len(PAGE.splitlines()) <= LONGEST


def test_the_rooms_are_those_of_the_import_contract() -> None:
    """In its order, from the room that imports nothing on."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    contract = [set(layer.split(" | ")) for layer in reversed(layers)]
    shown = [set(re.findall(r"`(\w+)(?:/|\.py)`", row)) for row in table("The rooms") if "`" in row]
    assert shown == [contract[0] | contract[1], *contract[2:]]


def test_the_tables_are_those_of_the_store() -> None:
    made = set(re.findall(r"CREATE TABLE (\w+)", "\n".join(schema.TABLES)))
    shown = {name for row in table("The tables") for name in re.findall(r"`(\w+)`", row)}
    assert shown == made - {"collector"}


def test_every_page_of_decisions_is_linked() -> None:
    for page in (ROOT / "docs/decisions").iterdir():
        assert f"(docs/decisions/{page.name})" in PAGE, page
