"""What pages read is what the server sends: the same names in TypeScript as in Python."""

from __future__ import annotations

import re

import msgspec
import pytest

from murmuration.collector.training import model
from murmuration.server import live
from murmuration.server.planner import PlannedAttribute, Planning
from tests.support.places import ROOT

SOURCES = ROOT / "web" / "pages" / "src"
UNUSED = {
    "Session": {"expires"},
    "Planned": {"epsilon", "people", "wanted", "delta", "malicious"},
    "Row": {"parameters", "people", "n_mse", "stderr", "bytes", "malicious_shift"}
    | {"central_epsilon"},
}
"""What a page has no use for."""


def interface(file: str, name: str) -> set[str]:
    """The names of an interface's own fields."""
    text = (SOURCES / file).read_text(encoding="utf-8")
    (body,) = re.findall(rf"interface {name} \{{\n(.*?)\n\}}", text, flags=re.S)
    return set(re.findall(r"^  readonly (\w+)", body, flags=re.M))


@pytest.mark.parametrize(
    ("file", "name", "sent"),
    [
        ("live.ts", "Live", live.Live),
        ("live.ts", "Card", live.Card),
        ("live.ts", "Shown", live.Shown),
        ("live.ts", "Bin", live.Bin),
        ("live.ts", "Running", live.Running),
        ("live.ts", "Trails", live.Trails),
        ("live.ts", "TrainingState", live.TrainingState),
        ("live.ts", "RoundState", live.RoundState),
        ("live.ts", "Asking", live.Asking),
        ("live.ts", "Point", model.Point),
        ("live.ts", "Score", model.Score),
        ("live.ts", "Coefficient", model.Coefficient),
        ("operator.ts", "Session", live.SessionState),
        ("plan.ts", "Planned", Planning),
        ("plan.ts", "Row", PlannedAttribute),
    ],
)
def test_pages_know_every_field(file: str, name: str, sent: type[msgspec.Struct]) -> None:
    fields = {one.name for one in msgspec.structs.fields(sent)}
    read = interface(file, name)
    assert read <= fields
    assert fields - read <= UNUSED.get(name, set())
