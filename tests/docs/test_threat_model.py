"""docs/threat-model.md: every row names a test, and every test that is named is there."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.support.places import ROOT

PAGE = (ROOT / "docs/threat-model.md").read_text()


def rows() -> list[list[str]]:
    """The rows of the tables of threats: who, what, what stops it, tests."""
    found = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")]
    return [cells for cells in found if len(cells) == 4 and cells[0] != "who"]


@cache
def functions_of(path: str) -> set[str]:
    (file,) = (ROOT / "tests").rglob(path)
    tree = ast.parse(file.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_row_names_tests_that_exist() -> None:
    assert len(rows()) > 50
    for cells in rows():
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", cells[3])
        assert named, f"no test: {cells[:2]}"
        for path, name in named:
            assert name in functions_of(path), f"{path} has no {name}"
