"""Text that others wrote is only shown: no terminal obeys it, no spreadsheet computes it."""

from __future__ import annotations

import csv
import http.server
import json
import os
import subprocess
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from murmuration.analysis.figures import Attribute, Estimates, rendered
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli.output import UNPRINTABLE, printable
from murmuration.collector.commit import Batch, commit
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import document
from murmuration.errors import FormatError, ParameterError
from murmuration.results.figure import Figure
from murmuration.results.table import csv_cell
from murmuration.sources.open import open_source
from murmuration.wire.report import Incoming, Upload
from tests.support.accounts import campaign_of, made
from tests.support.command import COMMAND, murmur

CLEAR = "\x1b[2J\x1b]0;owned\x07\x9b31m\u202e"
"""What clears a screen, names a window, and turns text around."""
CAMPAIGN = f"""
name = "commute"
purpose = "How {CLEAR!s} people get to work"
epsilon = 2.0
people = 2000
cohort = 100

[[attributes]]
name = "minutes"
low = 0
high = 120
unit = "min{CLEAR}"

[[attributes]]
name = "mode"
kind = "category"
labels = ["=HYPERLINK(1)", "bus", "-5", "@car"]
""".translate({ord(c): f"\\u{ord(c):04x}" for c in CLEAR if not c.isprintable()})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    campaign, path = campaign_of(CAMPAIGN), tmp_path_factory.mktemp("store") / "a.db"
    (path.parent / "campaign.toml").write_text(CAMPAIGN)
    ids, rows = made(campaign, 600)
    with closing(open_store(path)) as opened:
        upload = Upload(ids, rows, np.zeros(len(ids), dtype=np.uint8))
        commit(opened, [Batch(serve(opened, campaign), Incoming([], upload))])
    return path


COMMANDS = [
    ("estimate", "a.db"),
    ("estimate", "a.db", "--json"),
    ("estimate", "a.db", "--where", "minutes"),
    ("status", "a.db"),
    ("status", "a.db", "--json"),
    ("check", "campaign.toml"),
    ("check", "campaign.toml", "--json"),
    ("export", "a.db", "out.parquet", "--force"),
    ("export", "a.db", "reports"),
    ("tally", "reports", "-o", "tallies"),
    ("estimate", "tallies"),
    ("merge", "a.db", "--key", "key"),
    ("token", "add", "a.db", "analyst", "--name", f"ann{CLEAR}"),
    ("token", "list", "a.db"),
]


def test_no_command_prints_what_a_terminal_obeys(store: Path) -> None:
    for arguments in COMMANDS:
        done = murmur(*arguments, folder=store.parent)
        said = done.stdout + done.stderr
        assert UNPRINTABLE.search(said) is None, (arguments, UNPRINTABLE.findall(said))
        if arguments[0] in ("estimate", "check"):
            assert "owned" in said, arguments
    found = json.loads(murmur("estimate", "a.db", "--json", folder=store.parent).stdout)
    assert found["estimates"][0]["unit"] == f"min{CLEAR}", "JSON says the same, in its own escapes"


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers with escape codes wherever text can be."""

    def do_GET(self) -> None:
        listed = self.path.endswith("/campaigns")
        names = [{"campaign": f"{name}{CLEAR}"} for name in ("a", "b")]
        problem = {"type": "/problems/x", "title": f"No{CLEAR}", "detail": f"Never{CLEAR}"}
        body = json.dumps({"campaigns": names} if listed else problem).encode()
        self.send_response(200 if listed else 400)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        pass


def test_a_hostile_collector_does_not_reach_the_terminal() -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        for command in ("estimate", "status"):
            for place in (url, f"{url}/v1/campaigns/commute"):
                done = murmur(command, place, code=2)
                assert "owned" in done.stderr
                assert UNPRINTABLE.search(done.stderr) is None
        server.shutdown()


def test_printable_text_stays_as_it_is() -> None:
    for text in ("Zürich 50 €, naïve", "東京 🚋", "a\tb\nc", "שלום"):
        assert printable(text) == text


# --- spreadsheets --------------------------------------------------------------------------------


def test_no_cell_of_a_spreadsheet_is_a_formula(store: Path) -> None:
    with closing(open_source(str(store))) as source:
        found = source.estimates("participants", 0.95)
    rows = list(csv.DictReader(rendered(found, "csv").decode().splitlines()))
    items = [row["item"] for row in rows if row["attribute"] == "mode"]
    assert [item[:6] for item in items] == ["'=HYPE", "bus", "-5", "'@car"]
    values = [figure.value for figure in found.estimates]
    assert [float(row["value"]) for row in rows] == values, "numbers are numbers, bit for bit"
    murmur("export", "a.db", "reports", folder=store.parent)
    (cells,) = (store.parent / "reports").rglob("_cells.csv")
    assert cells.read_text().startswith("cell,attribute")


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("=1+1", "'=1+1"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("\r=1", "'\r=1"),
        ("-1.5e3", "-1.5e3"),
        ("+7", "+7"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_cells(text: str, cell: str) -> None:
    assert csv_cell(text) == cell


def test_names_of_attributes_are_cells_too() -> None:
    figure = Figure("-x()", "mean", -0.5, 0.1, -0.7, -0.3, 100, 1.0, "=unit", "@note")
    hidden = Attribute("=y", "number", answers=0, needed=100, hidden=True)
    found = Estimates("c", 1, "d", 100, 0.95, "participants", [figure], [hidden])
    lines = rendered(found, "csv").decode().splitlines()
    assert lines[1].startswith("'-x(),mean,-0.5,0.1,-0.7,-0.3,100,1.0,'=unit,'@note")
    assert lines[2].startswith("'=y,")


# --- documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [5, 1.5, True, None, ["age"], {"a": 1}])
@pytest.mark.parametrize("key", ["name", "unit"])
def test_a_document_whose_texts_are_none_is_refused(key: str, name: object) -> None:
    """A device in TypeScript refuses it; this one must, too: both would be asked other things."""
    campaign = campaign_of(CAMPAIGN)
    collection = json.loads(campaign.text)
    collection["attributes"][0][key] = name
    with pytest.raises(FormatError):
        document.read(published(campaign, json.dumps(collection, separators=(",", ":"))))


def published(campaign: SurveyCampaign, text: str) -> bytes:
    import hashlib

    found = json.loads(document.publish(campaign, 1))
    found |= {"collection": text, "digest": hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps(found).encode()


# --- pipes ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("command", ["estimate", "status", "export"])
def test_a_pipe_is_refused_at_once(tmp_path: Path, command: str) -> None:
    """Nobody writes to it: whoever opened it to read would wait for ever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    more = [str(tmp_path / "out")] if command == "export" else []
    done = subprocess.run(
        [*COMMAND, command, str(pipe), *more], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "a pipe" in done.stderr


def test_a_pipe_is_no_file_of_tallies(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ParameterError, match="a pipe"):
        open_source(str(pipe))
