"""The planner chooses from its own list: a mechanism that is added changes no campaign."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.definition import load
from murmuration.mechanisms import item, number
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.planning import candidates
from murmuration.planning.choose import choose_frequency, choose_numeric
from tests.contract.test_specification import published_laws, table
from tests.support.places import ROOT
from tests.support.vectors import CAMPAIGNS, VECTORS

BETTER = '''
"""A mechanism that claims to beat all others, and has the first name of the alphabet."""

from dataclasses import dataclass
from typing import ClassVar

from murmuration.mechanisms.{module} import {kind}


@dataclass(frozen=True)
class Better({kind}):
    name: ClassVar[str] = "{name}"
    memoised: ClassVar[bool] = {memoised}

    def cost(self, share: float = 1.0) -> float:
        return 1e-9
'''
ADDED = {
    "aa_item": (item, "item.grr", "Grr", False),
    "aa_number": (number, "number.duchi", "Duchi", False),
    "aa_again": (item, "item.grr", "Grr", True),
}
PLANNED = """
name = "planned"
purpose = "Everything that the planner may choose."
epsilon = 2.0
[[attributes]]
name = "age"
low = 18
high = 98
[[attributes]]
name = "income"
low = 0
high = 1
missing = true
[[attributes]]
name = "town"
kind = "category"
labels = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
missing = true
"""
REPEATED = """
name = "repeated"
purpose = "A question that comes back."
epsilon = 1.0
[repeat]
permanent = 2.0
rounds = 10
values = 2
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""


@pytest.fixture
def better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files of mechanisms that are there for a while, as if somebody had added them."""
    for name, (room, module, kind, memoised) in ADDED.items():
        folder = tmp_path / name
        folder.mkdir()
        text = BETTER.format(
            module=module, kind=kind, memoised=memoised, name=name.replace("_", "-")
        )
        (folder / f"{name}.py").write_text(text)
        monkeypatch.setattr(room, "__path__", [*room.__path__, str(folder)])
    list_mechanisms.cache_clear()
    yield
    list_mechanisms.cache_clear()
    for name, (room, *_) in ADDED.items():
        sys.modules.pop(f"{room.__name__}.{name}", None)
        vars(room).pop(name, None)


def digests(folder: Path) -> dict[str, str]:
    """The digest of every campaign file of the golden vectors, and of two that leave all open."""
    paths = [*CAMPAIGNS.glob("*.toml"), *(VECTORS / "reports").glob("*.toml")]
    for text in (PLANNED, REPEATED):
        name = text.split('"')[1]
        paths.append(folder / f"{name}.toml")
        paths[-1].write_text(text)
    return {str(path): load.load(path).digest for path in sorted(paths)}


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    folder = tmp_path_factory.mktemp("campaigns")
    return folder, digests(folder)


@pytest.mark.usefixtures("better")
def test_a_better_mechanism_changes_no_campaign(before: tuple[Path, dict[str, str]]) -> None:
    folder, known = before
    assert {name.replace("_", "-") for name in ADDED} <= set(list_mechanisms())
    assert digests(folder) == known
    for path in CAMPAIGNS.glob("*.toml"):
        golden = json.loads(path.with_suffix(".json").read_text())["digest"]
        assert load.load(path).digest == golden
    for epsilon in (0.5, 1.0, 4.0):
        chosen = [choose_numeric(epsilon), choose_numeric(epsilon, 0.2, missing=True)]
        chosen += [choose_frequency(epsilon, k) for k in (2, 30, 5000)]
        assert not any("aa" in choice.mechanism.title + choice.reason for choice in chosen)


def test_what_the_planner_may_choose_is_specified() -> None:
    """Each name is in docs/wire.md, in the browser's laws and in the vectors."""
    described = {row[0].strip("`") for row in table("laws")}
    laws = (ROOT / "web/client/src/laws/index.ts").read_text()
    published = published_laws()
    for name in candidates.LISTED:
        assert name in described, f"{name} is not in docs/wire.md"
        made = re.search(rf'^  "?{name}"?: ', laws, flags=re.M)
        assert made, f"{name} is not in web/client/src/laws/index.ts"
        assert name in published, f"no campaign of docs/vectors/reports has {name}"
        assert list(VECTORS.glob(f"{name}*.json")), f"{name} has no docs/vectors/{name}.json"


def test_the_planner_chooses_what_keeps_its_promise() -> None:
    for domain, listed in candidates.ASKED_ONCE.items():
        kinds = [list_mechanisms()[candidate.name] for candidate in listed]
        assert all(kind.takes is domain and kind.keeps_promise for kind in kinds)
        assert not any(kind.memoised for kind in kinds)
    for domain, name in candidates.ASKED_AGAIN.items():
        kind = list_mechanisms()[name]
        assert kind.memoised
        assert kind.takes is domain
