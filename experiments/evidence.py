"""Run what takes longer than tests may, and write what was measured to evidence/.

    python -m experiments.evidence                     every piece, in full
    python -m experiments.evidence lives coverage      some of them
    python -m experiments.evidence --sample            the parts of each that `make test` runs
    python -m experiments.evidence --list              what there is

A piece consists of parts. A part is a function of its number, which is its seed. Parts that are
done are noted in out/evidence, so a run that was stopped goes on where it was; when the code
changes, a piece begins anew. A full run writes evidence/PIECE.json (the figures, the seeds, the
commit), and renews what pages quote of it. `experiments/pieces.py` has the list.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from experiments.piece import Figures, Row
from experiments.pieces import PIECES
from murmuration.files import ANYBODY, write_file

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "evidence"
NOTES = ROOT / "out" / "evidence"
CODE = ("src", "experiments", "tests/support")


def code() -> str:
    """Return a digest of the Python code that evidence is about."""
    digest = hashlib.sha256()
    for path in sorted(path for room in CODE for path in (ROOT / room).rglob("*.py")):
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def commit() -> str:
    """Return the commit, marked if the working tree has other code."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


@dataclass
class Notes:
    """The parts of a piece that are done, one to a line of a file."""

    name: str
    code: str

    @property
    def path(self) -> Path:
        """Return the file, which is named after the code, too."""
        return NOTES / f"{self.name}-{self.code}.jsonl"

    def rows(self) -> dict[int, Row]:
        """Return what was measured, by number of the part; a line that was cut off is left out."""
        if not self.path.exists():
            return {}
        lines = self.path.read_text(encoding="utf-8").split("\n")[:-1]
        notes = (json.loads(line) for line in lines)
        return {note["part"]: note["row"] for note in notes}

    def add(self, part: int, row: Row) -> None:
        """Write down one part."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"part": part, "row": row}) + "\n")


def measured(name: str, part: int) -> tuple[Row, float]:
    """Measure one part, in whatever process; return it with the seconds that it took."""
    start = time.perf_counter()
    row = PIECES[name].part(part)
    return row, time.perf_counter() - start


def run(name: str, parts: Sequence[int], jobs: int, notes: Notes) -> list[Row]:
    """Measure what is not yet noted; return the rows of all parts, in their order."""
    rows = notes.rows()
    todo = [part for part in parts if part not in rows]
    _say(f"{name}: {len(parts)} parts, {len(parts) - len(todo)} of them done before")
    for done, (part, row, seconds) in enumerate(_all(name, todo, jobs), start=1):
        notes.add(part, row)
        rows[part] = row
        _say(f"{name}: {done} of {len(todo)}, part {part} took {seconds:.1f} s")
    return [rows[part] for part in parts]


def _all(name: str, parts: Sequence[int], jobs: int) -> Iterator[tuple[int, Row, float]]:
    """Yield parts as they are done; a failure ends all."""
    jobs = 1 if PIECES[name].alone else jobs
    if jobs == 1 or len(parts) < 2:
        yield from ((part, *measured(name, part)) for part in parts)
        return
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        asked = {pool.submit(measured, name, part): part for part in parts}
        for future in as_completed(asked):
            yield asked[future], *future.result()


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def written(name: str, figures: Figures, parts: Sequence[int]) -> Path:
    """Write the evidence of a piece that was measured in full."""
    document = {
        "piece": name,
        "what": PIECES[name].what,
        "figures": {figure: float(f"{value:.6g}") for figure, value in figures.items()},
        "seeds": [parts[0], parts[-1]],
        "commit": commit(),
        "code": code(),
        "when": f"{datetime.now(UTC):%Y-%m-%d}",
        "python": platform.python_version(),
    }
    path = EVIDENCE / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    write_file(path, json.dumps(document, indent=1) + "\n", ANYBODY)
    return path


# --- what pages quote ----------------------------------------------------------------------------

NUMBER = re.compile(r"([\d.,]+)(%?)<!-- ([\w-]+): ([^<>]+?) -->")
"""A number on a page, and after it where it is from: 0.981<!-- coverage: items, coverage -->."""
TABLE = re.compile(r"<!-- evidence: ([\w-]+) -->\n(?:\|.*\n)*")


def figures_of(name: str) -> Figures:
    """Return what a piece has measured."""
    document = json.loads((EVIDENCE / f"{name}.json").read_text(encoding="utf-8"))
    found: Figures = document["figures"]
    return found


def renewed(text: str) -> str:
    """Return a page with each number and table as evidence/ has it."""
    text = NUMBER.sub(lambda match: _as_shown(*match.groups()), text)
    return TABLE.sub(lambda match: f"<!-- evidence: {match[1]} -->\n{_table(match[1])}\n", text)


def _as_shown(number: str, percent: str, piece: str, figure: str) -> str:
    """Return a figure with the decimals, and the thousands, that the number has."""
    value = figures_of(piece)[figure] * (100 if percent else 1)
    decimals = len(number.rpartition(".")[2]) if "." in number else 0
    shown = f"{value:{',' if ',' in number else ''}.{decimals}f}"
    shown = shown.removeprefix("0") if number.startswith(".") else shown
    return f"{shown}{percent}<!-- {piece}: {figure} -->"


def _table(name: str) -> str:
    table = PIECES[name].table
    assert table is not None, f"{name} has no table"
    return table(figures_of(name))


def renew_pages() -> None:
    """Write the figures of evidence/ into the pages that quote them."""
    for page in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]:
        text = page.read_text(encoding="utf-8")
        if (new := renewed(text)) != text:
            write_file(page, new, ANYBODY)
            _say(f"renewed: {page.relative_to(ROOT)}")


# --- the command ---------------------------------------------------------------------------------


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pieces", nargs="*", metavar="PIECE", help="which; all if left out")
    parser.add_argument("--sample", action="store_true", help="some parts of each; writes nothing")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--list", action="store_true", help="name the pieces")
    asked = parser.parse_args()
    if unknown := set(asked.pieces) - set(PIECES):
        parser.error(f"no piece is called {sorted(unknown)}; there are {', '.join(PIECES)}")
    for name in asked.pieces or PIECES:
        piece = PIECES[name]
        if asked.list:
            print(
                f"{name:12} {len(piece.sample)} of {piece.parts} parts in make test: {piece.what}"
            )
            continue
        parts = piece.sample if asked.sample else range(piece.parts)
        figures = piece.figures(run(name, parts, asked.jobs, Notes(name, code())))
        print(json.dumps({"piece": name, "figures": figures}, indent=1), flush=True)
        if not asked.sample:
            _say(f"written: {written(name, figures, parts).relative_to(ROOT)}")
            renew_pages()


if __name__ == "__main__":
    main()
