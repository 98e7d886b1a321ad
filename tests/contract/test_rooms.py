"""What one room decides, no other room decides again. Read off the source."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator, Set
from pathlib import Path

import murmuration
from murmuration import mechanisms
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Domain

SRC = Path(murmuration.__file__).parent
ROOM = SRC / "mechanisms"


@functools.cache
def kinds() -> frozenset[str]:
    """The names of all classes of mechanisms and of what they take."""
    found = set()
    for module in pkgutil.walk_packages(mechanisms.__path__, f"{mechanisms.__name__}."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if issubclass(kind, Mechanism | Domain) or kind.__name__.endswith("Mechanism"):
                found.add(kind.__name__)
    return frozenset(found)


def imported(tree: ast.AST) -> set[str]:
    """What a module imports from the room of mechanisms."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(mechanisms.__name__)
        for alias in node.names
    }


ASKS = re.compile(r"\bisinstance\(|\bissubclass\(|\btype\(|^\s*case ", re.M)
"""What a text has that asks for a class at all."""


def asked_kinds(tree: ast.AST, ours: Set[str]) -> Iterator[tuple[int, str]]:
    """Where a module asks of which class something is: isinstance, issubclass, or a pattern."""
    for node in ast.walk(tree):
        asked: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                asked = node.args[1:]
        elif isinstance(node, ast.MatchClass):
            asked = [node.cls]
        elif isinstance(node, ast.Compare) and "type(" in ast.unparse(node.left):
            asked = list(node.comparators)
        for part in asked:
            for name in ast.walk(part):
                if isinstance(name, ast.Name) and name.id in ours:
                    yield name.lineno, name.id


def test_a_test_for_a_kind_is_seen() -> None:
    text = """
from murmuration.mechanisms.number.duchi import Duchi as Coin, Duchi
from murmuration.mechanisms.domain import Items, Number
isinstance(law, Duchi); isinstance(domain, Items | Number); type(domain) is Items
isinstance(law, str)
match law:
    case Duchi(): pass
"""
    tree = ast.parse(text)
    seen = [name for _, name in asked_kinds(tree, kinds() & imported(tree))]
    assert sorted(seen) == ["Duchi", "Duchi", "Items", "Items", "Number"]


def test_no_other_room_asks_for_the_class_of_a_mechanism() -> None:
    """It asks the mechanism, or its domain: a new one then needs no change outside its room."""
    assert {"Mechanism", "OrNone", "NumericMechanism", "PrivUnit", "Items"} <= kinds()
    texts = {path: path.read_text() for path in SRC.rglob("*.py") if ROOM not in path.parents}
    places = [
        f"{path.relative_to(SRC)}:{line} asks for {name}"
        for path, text in sorted(texts.items())
        if mechanisms.__name__ in text and ASKS.search(text)
        for tree in [ast.parse(text)]
        for line, name in asked_kinds(tree, kinds() & imported(tree))
    ]
    assert not places, "; ".join(places)


def test_nothing_asks_for_the_kind_of_a_campaign() -> None:
    """It asks the campaign; a program that needs one kind says so: `of_kind`."""
    kinds_of_campaigns = frozenset({"SurveyCampaign", "TrainingCampaign"})
    texts = {path: path.read_text() for path in SRC.rglob("*.py")}
    places = [
        f"{path.relative_to(SRC)}:{line} asks for {name}"
        for path, text in sorted(texts.items())
        if ASKS.search(text) and any(name in text for name in kinds_of_campaigns)
        for line, name in asked_kinds(ast.parse(text), kinds_of_campaigns)
    ]
    assert not places, "; ".join(places)
    twice = [path.name for path, text in texts.items() if re.search(r"\bdef \w+_any\(", text)]
    assert not twice, "one reader for campaigns of all kinds"
