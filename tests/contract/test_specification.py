"""docs/wire.md: its tables say what the code does, and a device in Java that was written from it.

Each table that is read here stands behind `<!-- table: NAME -->`.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from murmuration.campaign.answers import BLANKS, FOLDS
from murmuration.campaign.periods import name_of, period_of
from murmuration.campaign.question import Question
from murmuration.definition import document as campaign_document
from murmuration.definition import survey_text
from murmuration.device import Client
from murmuration.device.words import DeviceWords
from murmuration.exact.keyed import Key
from murmuration.server.problems import PROBLEMS
from murmuration.training import round as round_document
from murmuration.training.algorithm.questions import ROLES, ItemQuestion, VectorQuestion
from murmuration.wire import protocol, report
from murmuration.wire.protocol import specified
from murmuration.wire.report import BUSY, FINAL
from tests.support.collectors import Collection, running
from tests.support.places import SUPPORT
from tests.support.tools import require_tool
from tests.support.vectors import DOCS, VECTORS

PAGE = (DOCS / "wire.md").read_text(encoding="utf-8")
DEVICE = SUPPORT / "java" / "Device.java"


def table(name: str) -> list[list[str]]:
    """The rows of a table of the page, without its head."""
    after = PAGE.split(f"<!-- table: {name} -->\n", 1)[1].lstrip("\n")
    lines = after.split("\n\n", 1)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def codes(cell: str) -> list[str]:
    """What is shown as code."""
    return re.findall(r"`([^`]+)`", cell)


# --- the document --------------------------------------------------------------------------------


def test_the_keys_of_a_document() -> None:
    named = [key for keys, *_ in table("document") for key in codes(keys)]
    assert named == list(campaign_document.KEYS)


def defaults() -> dict[str, dict[str, Any]]:
    """The keys of each part of a collection, with their defaults; "-" where there is none."""
    parts: dict[str, list[tuple[str, Any]]] = {
        "collection": _fields(survey_text.SurveyCollection),
        "an attribute": [
            (field.name, "-" if field.default is dataclasses.MISSING else field.default)
            for field in dataclasses.fields(Question)
        ],
        "a cell": _fields(survey_text.Cell),
    }
    return {part: dict(found) for part, found in parts.items()}


def _fields(kind: type[msgspec.Struct]) -> list[tuple[str, Any]]:
    return [
        (field.name, "-" if field.default is msgspec.NODEFAULT else field.default)
        for field in msgspec.structs.fields(kind)
    ]


def test_the_keys_of_a_collection_and_their_defaults() -> None:
    found: dict[str, dict[str, Any]] = {}
    part = ""
    for where, keys, _, default, _ in table("collection"):
        part = where or part
        shown = default.strip("`")
        value = "-" if shown == "-" else json.loads(shown)
        usual = tuple(value) if isinstance(value, list) else value
        found.setdefault(part, {}).update(dict.fromkeys(codes(keys), usual))
    assert found == defaults()


def test_the_order_of_the_keys_of_a_collection() -> None:
    """In a published text, keys stand as they do in the table."""
    order = [key for where, keys, *_ in table("collection")[:16] for key in codes(keys)]
    for path in (VECTORS / "reports").glob("*.json"):
        document = json.loads(json.loads(path.read_text())["document"])
        places = [order.index(key) for key in json.loads(document["collection"])]
        assert places == sorted(places), path.name


def test_periods() -> None:
    """Each example is the name of the 18th of November 2026."""
    for every, _, name in table("periods"):
        number = period_of(codes(every)[0], date(2026, 11, 18))
        assert name_of(codes(every)[0], number) == codes(name)[0]


SAID = ("least_cohort", "least_epsilon", "epsilon", "compared_per_pair", "report_bytes_per_number")
"""Limits that the page says in other places, or inside a row."""
TRAININGS = ("columns", "training_laws", "round_bytes", "roles", "rounds", "deadline")


def test_limits() -> None:
    limits = protocol.limits()
    assert f"{limits['report_bytes_per_number']} for each number" in PAGE
    rows = [int(number.replace(",", "")) for _, number in table("limits")]
    assert rows == [limits[name] for name in limits if name not in {*SAID, *TRAININGS}]


# --- answers and words ---------------------------------------------------------------------------


def test_letters_that_are_folded_and_blanks() -> None:
    rows = re.findall(r"^\| ([0-9A-F]{4}) .*$", PAGE, flags=re.M)
    lines = [
        line.strip("| ").split("|") for line in PAGE.splitlines() if line[:6].strip("| ") in rows
    ]
    found = set()
    for line in lines:
        cells = [cell.strip() for cell in line]
        for first, last, step, add in (cells[:4], cells[5:9]):
            found.add((int(first, 16), int(last, 16), int(step), int(add)))
    assert found == set(FOLDS)
    (listed,) = re.findall(r"removes: ((?:U\+[0-9A-F]{4}[^.]*?)+)\. Nothing", PAGE, flags=re.S)
    blanks = set()
    for part in listed.split(","):
        ends = [int(point, 16) for point in re.findall(r"U\+([0-9A-F]{4})", part)]
        blanks |= set(map(chr, range(ends[0], ends[-1] + 1)))
    assert blanks == set(BLANKS)


STANDS = {
    "cell": "7",
    "answer": b"an answer",
    "round": "monday",
    "attribute": "Größe",
    "spell": "3",
    "nonce": b"a nonce",
}
"""What the page's words for parts stand for here."""


def test_contexts() -> None:
    """Each purpose's words follow from the parts of the page, in its order."""
    key = Key(bytes(range(32)))
    words = DeviceWords(key, "origin", "digest")
    noise, kept = words.answer(7, b"an answer", "monday"), words.permanent(7, b"an answer")
    made = {
        "id": words.report_id("monday"),
        "which": words.which("monday").words(2).tobytes(),
        "answer": noise.words(2).tobytes(),
        "coin": noise.public().words(2).tobytes(),
        "permanent": kept.words(2).tobytes(),
        "level": key.rng("origin", "digest", "level").words(2).tobytes(),  # a browser's alone
        "spread": words.spread(["Größe"])["Größe"].words(2).tobytes(),
        "paid": words.paid(7, b"an answer"),
        "spell": words.permanent(7, b"an answer", 3).words(2).tobytes(),
        "kept": words.kept(7, 3),
        "mask": words.masked(7, 3, b"a nonce", bytes(8)),
    }
    found = {}
    for what, cells in table("contexts"):
        (purpose,) = codes(cells)
        parts = [STANDS[part.strip()] for part in cells.split(",")[1:]]
        context = ("origin", "digest", purpose, *parts)
        whole = key.name(*context)
        drawn = whole if "key itself" in what else key.rng(*context).words(2).tobytes()
        cut = re.search(r"first (\d+) bytes", what)
        found[purpose] = drawn[: int(cut[1])] if cut else drawn
    assert found == made


# --- laws ----------------------------------------------------------------------------------------

TAKES = {
    "Number": "a number",
    "Graded": "a graded number",
    "NumberOrNone": "a number or none",
    "Items": "an item",
    "Box": "all",
}


def published_laws() -> dict[str, dict[str, Any]]:
    """A published cell of each mechanism."""
    found: dict[str, dict[str, Any]] = {}
    for path in (VECTORS / "reports").glob("*.json"):
        document = json.loads(json.loads(path.read_text())["document"])
        found |= {cell["mechanism"]: cell for cell in json.loads(document["collection"])["cells"]}
    return found


def test_every_law_of_a_campaign_is_in_the_table_with_its_keys() -> None:
    rows = {codes(row[0])[0]: row for row in table("laws")}
    kinds = {name: kind for name, kind in specified().items() if name != "privunit"}
    assert set(rows) == set(kinds)
    laws = published_laws()
    for name, (_, takes, parameters, law, _) in rows.items():
        kind = kinds[name]
        again = ", again" if kind.memoised else ""
        assert takes == TAKES[kind.takes.__name__] + again, name
        fields = [field.name for field in dataclasses.fields(kind)]
        assert codes(parameters) == fields, name
        if name in laws:
            shown = [key for key in laws[name]["law"] if name != "or-none" or key in codes(law)]
            assert codes(law) == shown, name
            assert list(laws[name]["parameters"]) == fields, name


def test_the_types_of_parameters() -> None:
    rows = {name: kind for names, kind in table("parameters") for name in codes(names)}
    for name, law in protocol.protocol()["laws"].items():
        for parameter, kind in law["parameters"].items() if name != "privunit" else ():
            if (name, parameter) != ("hiera", "factor"):  # its text is a number when it is made
                assert kind in rows[parameter], (name, parameter)


def test_every_law_has_steps_and_a_loss() -> None:
    steps = {row[4] for row in table("laws")}
    losses = {name.strip() for names, _ in table("losses") for name in names.split(",")}
    assert steps == losses
    described = set(re.findall(r"^\*([a-z -]+)\*", PAGE, flags=re.M))
    assert steps <= described


# --- trainings -----------------------------------------------------------------------------------


def test_the_keys_of_a_training() -> None:
    named = [key for keys, _ in table("training") for key in codes(keys)]
    document = json.loads((VECTORS / "training" / "logistic.json").read_text())["document"]
    collection = json.loads(json.loads(document)["collection"])
    assert [key for key in named if key != "rounds"] == list(collection)


def test_the_roles_of_a_round() -> None:
    rows = [re.split(r"(?<!\\)\|", line)[1:6] for line in role_lines()]
    assert [codes(row[0])[0] for row in rows] == list(ROLES)
    for ask, models, numbers, law, _ in rows:
        name = codes(ask)[0]
        assert tuple(codes(models)) == ROLES[name].models
        kind = ROLES[name]
        assert codes(numbers) == [*kind.wholes, *round_document.numbers_of(kind)]
        item, vector = issubclass(kind, ItemQuestion), issubclass(kind, VectorQuestion)
        assert ("items" if item else "vector" if vector else "number") in law.split()


def role_lines() -> list[str]:
    after = PAGE.split("<!-- table: roles -->\n", 1)[1].lstrip("\n")
    return after.split("\n\n", 1)[0].splitlines()[2:]


# --- reports and answers -------------------------------------------------------------------------


def test_the_keys_of_a_report() -> None:
    fields = [field.name for field in msgspec.structs.fields(report.Report)]
    assert [key for row in table("report") for key in codes(row[0])] == fields


def test_reasons() -> None:
    assert [codes(reason)[0] for reason, _ in table("reasons")] == list(report.REASONS)


def test_which_answers_are_final() -> None:
    final: dict[str, int] = {}
    for status, types, what in table("answers"):
        names = [reason for reason in report.REASONS if reason != report.EARLY]
        names = names if status == "422" else codes(types)
        assert all(PROBLEMS[name][0] == int(status) for name in names)
        assert what.startswith("the same bytes again") == (int(status) in BUSY)
        if what.startswith("final"):
            final |= dict.fromkeys(names, int(status))
    assert final == FINAL


# --- a device in a third language ----------------------------------------------------------------

TOWN = """
name = "town"
purpose = "To be answered by a program in another language."
epsilon = 2.0
[[attributes]]
name = "age"
low = 18
high = 98
missing = true
[[attributes]]
name = "town"
kind = "category"
labels = ["Rome", "Oslo", "Bonn", "Wien", "Bern", "Riga", "Kyiv", "Lima", "Doha", "Nice", "York"]
mechanism = "subset"
"""
ANSWERS = {"age": " 41.5", "town": "Bonn"}


def java(*words: str) -> str:
    """Run the device; it is compiled each time, which takes a second."""
    command = [require_tool("java", "openjdk-17-jdk-headless"), str(DEVICE), str(VECTORS)]
    command += words
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_device_in_java_makes_every_vector() -> None:
    """Documents, reports, refusals, raw values, losses, accounts, hosts, each law by itself."""

    def read(name: str) -> Any:
        return json.loads((VECTORS / name).read_text())

    documents = len(list((VECTORS / "reports").glob("*.json")))
    values = sum(len(read(f"answers/{name}.json")["vectors"]) for name in ("vectors", "values"))
    charges = sum(map(len, read("keyed/charges.json").values()))
    accounts = sum(len(one["charges"]) for one in read("keyed/accounts.json"))
    hosts = len(read("hosts.json")["collectors"])
    files = [read(path.name) for path in VECTORS.glob("*.json")]
    laws = [one for file in files if isinstance(file, list) for one in file if "people" in one]
    people = sum(len(one["people"]) for one in laws if one["mechanism"] != "privunit")
    assert java("vectors").splitlines() == [
        f"{documents} documents, {10 * documents} reports, {len(read('refused.json'))} refused",
        f"{values} raw values, {len(read('losses.json'))} losses, {charges} charges, "
        f"{accounts} of accounts, {hosts} hosts, {people} people of single laws",
    ]


@pytest.mark.slow
def test_a_device_in_java_is_counted(tmp_path: Path) -> None:
    """Its report is stored; the same secret in Python makes the same one, so it is a duplicate."""
    secret = bytes(range(32))
    with running(tmp_path / "store.db", TOWN) as server:
        campaign = Collection(server, "town")
        body, answer = java("send", campaign.url, secret.hex(), json.dumps(ANSWERS)).splitlines()
        assert answer == '200 {"received":1,"stored":1,"failures":[]}'
        client = Client(campaign.url, tmp_path / "ledger.db", secret=secret)
        assert client.report(ANSWERS).outcome == "duplicate"
        assert client.ledger.entries()[0].report == body.encode()
        assert campaign.status()["people"] == 1
