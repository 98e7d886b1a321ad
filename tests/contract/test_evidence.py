"""Evidence: a sample of each piece runs here; what takes longer is `make evidence`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments import evidence
from experiments.piece import Piece
from experiments.pieces import PIECES
from tests.support.places import ROOT

PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
WRITTEN = [ROOT / "evidence" / f"{name}.json" for name in PIECES]
OTHERS = {"mutation", "mutation-judged"}
"""Written by `tests.support.mutation`, which has a form of its own."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PIECES)
def test_a_sample_of_each_piece(name: str) -> None:
    """A part fails where a promise is broken, and so do the figures."""
    piece = PIECES[name]
    assert piece.figures([json.loads(json.dumps(piece.part(part))) for part in piece.sample])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_quotes_what_was_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert evidence.renewed(text) == text


def test_every_file_is_written_by_a_program() -> None:
    assert {path.stem for path in (ROOT / "evidence").iterdir()} <= PIECES.keys() | OTHERS


def test_evidence_is_of_a_whole_piece() -> None:
    for path in filter(Path.exists, WRITTEN):
        document = json.loads(path.read_text(encoding="utf-8"))
        assert path.stem == document["piece"]
        assert document["seeds"] == [0, PIECES[path.stem].parts - 1], path
        assert document["commit"], path
        assert document["figures"], path


def test_all_that_is_quoted_is_about_a_piece() -> None:
    for page in PAGES:
        for _, _, piece, figure in evidence.NUMBER.findall(page.read_text(encoding="utf-8")):
            assert figure in evidence.figures_of(piece), (page, piece, figure)


# --- the runner ----------------------------------------------------------------------------------


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[int]:
    """A piece of three parts, and the parts that were measured."""
    measured: list[int] = []

    def part(number: int) -> dict[str, int]:
        measured.append(number)
        return {"square": number * number}

    toy = Piece(
        "squares",
        part,
        parts=3,
        sample=(0,),
        figures=lambda rows: {"sum": sum(row["square"] for row in rows), "share": 0.96349},
        table=lambda found: f"| sum |\n|---|\n| {found['sum']:g} |",
    )
    monkeypatch.setitem(PIECES, "toy", toy)
    monkeypatch.setattr(evidence, "NOTES", tmp_path / "out")
    monkeypatch.setattr(evidence, "EVIDENCE", tmp_path / "evidence")
    monkeypatch.setattr(evidence, "ROOT", tmp_path)
    return measured


def test_a_run_goes_on_where_it_was_stopped(toy: list[int]) -> None:
    notes = evidence.Notes("toy", "code")
    evidence.run("toy", [0, 1], 1, notes)
    with notes.path.open("a") as file:
        file.write('{"part": 2, "ro')  # it was killed while it wrote
    rows = evidence.run("toy", range(3), 1, notes)
    assert toy == [0, 1, 2]
    assert rows == [{"square": 0}, {"square": 1}, {"square": 4}]
    evidence.run("toy", range(3), 1, evidence.Notes("toy", "other code"))
    assert toy == [0, 1, 2, 0, 1, 2]


def test_pages_are_renewed(toy: list[int], tmp_path: Path) -> None:
    del toy
    evidence.written("toy", PIECES["toy"].figures([{"square": 5000}]), range(3))
    page = tmp_path / "README.md"
    page.write_text(
        "1,234<!-- toy: sum --> squares, 12.3%<!-- toy: share -->, .1<!-- toy: share -->\n"
        "<!-- evidence: toy -->\n| old |\n|---|\n\nafter\n"
    )
    evidence.renew_pages()
    assert page.read_text() == (
        "5,000<!-- toy: sum --> squares, 96.3%<!-- toy: share -->, 1.0<!-- toy: share -->\n"
        "<!-- evidence: toy -->\n| sum |\n|---|\n| 5000 |\n\nafter\n"
    )
