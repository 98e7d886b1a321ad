"""Tables on narrow terminals: lines are broken, and no column, mark or name is lost.

Each command runs on a terminal that is wide enough for anything, then on narrower ones: every word
of the first is on the others too, whole.
"""

from __future__ import annotations

import io
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table

from murmuration.cli.output import Screen, fitted
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import load as campaign_file
from murmuration.device import Charge, Ledger
from murmuration.exact.randomness import seeded_rng
from murmuration.wire.ids import new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support import collectors
from tests.support.command import murmur

WIDTHS = (60, 80, 120)
WIDE = 1000
LINES = str.maketrans(dict.fromkeys("│┃┌┐└┘├┤┬┴┼─━┏┓┗┛┡┩┳┻╇╈┿╞╡", " "))
SURVEY = """
name = "how-people-get-to-work-and-back"
purpose = "Which lines need more trains in the early morning and late at night"
epsilon = 2.0
people = 5000
cohort = 300

[levels]
cautious = 0.25
usual = 0.5
generous = 1.0

[[attributes]]
name = "minutes-on-the-way-to-work"
low = 0
high = 120
unit = "minutes"

[[attributes]]
name = "means_of_transport_most_often_used"
kind = "category"
labels = ["underground or tram", "bicycle", "car, shared with others", "car, alone"]
missing = true

[[attributes]]
name = "Donaudampfschifffahrtsgesellschaft"
kind = "category"
labels = ["yes", "no"]
"""
NAMES = ("minutes-on-the-way-to-work", "means_of_transport_most_often_used")


def words(text: str) -> list[str]:
    return text.translate(LINES).split()


def lost(*arguments: object, code: int = 0, folder: Path | None = None) -> dict[int, set[str]]:
    """Return which words of a command's output are not whole on narrow terminals."""

    def run(columns: int) -> str:
        return murmur(*arguments, code=code, columns=columns, folder=folder).stdout

    expected = set(words(run(WIDE)))
    assert len(expected) > 10
    found = {}
    for width in WIDTHS:
        text = run(width)
        assert "…" not in text
        table = [line for line in text.splitlines() if set(line) & set("│┃")]
        assert max(map(len, table), default=0) <= width
        found[width] = expected - set(words(text))
    return found


NONE: dict[int, set[str]] = {width: set() for width in WIDTHS}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with a campaign that has levels and long names; one attribute is hidden."""
    campaign, people = campaign_file.parse(SURVEY), 4000
    answers = {
        NAMES[0]: [30] * people,
        NAMES[1]: ["bicycle", None] * (people // 2),
        "Donaudampfschifffahrtsgesellschaft": ["yes"] * people,
    }
    picked = np.array(["cautious", "usual", "generous"])[np.arange(people) % 3]
    columns = campaign.encode(answers, seeded_rng(1))
    rows = campaign.privatize(columns, seeded_rng(2), picked)
    assert min(tally.n for tally in campaign.tally(rows)) > 0
    with closing(open_store(tmp_path / "survey.db")) as opened:
        fine = np.zeros(people, dtype=np.uint8)
        upload = Upload(new_ids(people, seeded_rng(3)), rows, fine)
        commit(opened, [Batch(serve(opened, campaign), Incoming([], upload))])
    return tmp_path / "survey.db"


def test_estimate_and_status(store: Path) -> None:
    wide = murmur("estimate", store, columns=WIDE).stdout
    for name in ("attribute", "value", "interval", "answers", *NAMES, "bicycle"):
        assert name in wide
    assert lost("estimate", store) == NONE
    assert "generous" in murmur("status", store, columns=WIDE).stdout
    assert lost("status", store) == NONE


@pytest.mark.slow
def test_check(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(SURVEY)
    assert lost("check", tmp_path / "campaign.toml") == NONE


def test_tokens(store: Path) -> None:
    name = "the-analyst-of-the-transport-office"
    murmur("token", "add", store, "analyst", "--name", name)
    assert name in murmur("token", "list", store, columns=WIDE).stdout
    assert lost("token", "list", store) == NONE


def test_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = Ledger(path, lifetime=5.0)
    head = ("https://collector.example:443", "how-people-get-to-work-and-back", "digest")
    ledger.reserve(Charge(*head, "Which lines need more trains", 0.5, b"bytes", b"id", "2026-11"))
    missing = lost("ledger", path)
    assert {width: some - {str(path)} for width, some in missing.items()} == NONE
    title = "".join(words(murmur("ledger", path, columns=WIDTHS[0]).stdout))
    assert str(path) in title  # on two lines: it is longer than the terminal is wide


@pytest.mark.slow
def test_plan() -> None:
    names = ("--numeric", "minutes-on-the-way-to-work", "--categorical", "means_of_transport=40")
    assert lost("plan", "--epsilon", "1", "--people", "10000", *names) == NONE


@pytest.mark.slow
def test_mechanisms() -> None:
    assert lost("mechanisms") == NONE


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", "--epsilon", "1", "--people", "300", "--runs", "5"),
        ("compare", "levels", "--epsilon", "2", "--shift", "10", "--people", "500", "--runs", "3"),
        ("compare", "graded", "--epsilon", "0.5", "--people", "500", "--runs", "2"),
        ("plan", "graded", "--epsilon", "0.5,0.4", "--edges", "0", "--people", "1000"),
        ("audit", "duchi", "--epsilon", "1"),
        ("audit", "grr", "--epsilon", "1", "--set", "k=8", "--levels", "high=1/3,medium=1/2,low=1"),
        ("audit", "graded-bit", "--epsilon", "1,0.5", "--set", "edges=0.3"),
        ("learn", "--people", "5000", "--epsilon", "4"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_simulations_and_audits(arguments: tuple[str, ...]) -> None:
    assert lost(*arguments) == NONE


@pytest.mark.slow
def test_send(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("phone\n" + "ios\nandroid\n" * 30)
    with collectors.running(tmp_path / "store.db", collectors.one("phones")) as collector:
        url = collector.collection("phones").url
        missing = lost("send", url, "people.csv", folder=tmp_path)
    assert _names(missing) == NONE


@pytest.mark.slow
def test_tuples() -> None:
    assert _names(lost("tuples", "--people", "2000", "--epsilon", "2")) == NONE


def _names(missing: dict[int, set[str]]) -> dict[int, set[str]]:
    """Leave out numbers, where they are others each time."""
    return {width: {word for word in some if word.isalpha()} for width, some in missing.items()}


@pytest.mark.parametrize("width", [30, *WIDTHS])
def test_a_table_that_is_too_wide_is_laid_out_cell_by_cell(width: int) -> None:
    headings, cells = ([f"{word}{place}" for place in range(12)] for word in ("heading", "cell"))
    table = Table(*headings, title="wide")
    table.add_row(*cells)
    screen = Screen(width=width, file=io.StringIO())
    screen.print(table)
    assert set(words(screen.file.getvalue())) == {"wide", *headings, *cells}  # type: ignore[attr-defined]


def test_a_table_that_fits_is_left_alone() -> None:
    table = Table("a", "b")
    table.add_row("1", "2")
    assert [column.width for column in fitted(table, 80).columns] == [None, None]
