"""From a raw file to figures: what a file's values become, and that nothing is wrong in silence.

The files are made here, in the shape of those that people have: Adult with blanks, "?" and an id;
a spreadsheet with semicolons, decimal commas and Latin-1; one without a header.
"""

from __future__ import annotations

import json
import signal
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.cli.fit import Fit, name_unknown
from murmuration.cli.tables import Form, open_table
from murmuration.device.client import Client
from murmuration.errors import ParameterError
from tests.support import collectors, command
from tests.support.between import free_port

PEOPLE = 4000
FAR = 5.0
"""Standard errors that no figure is away from the truth."""


def drawn(seed: int, **labels: dict[str, float]) -> dict[str, np.ndarray]:
    """Texts of people, by name: each label with its probability."""
    draw = np.random.default_rng(seed)
    return {
        name: draw.choice(list(found), PEOPLE, p=list(found.values()))
        for name, found in labels.items()
    }


def adult(path: Path, extra: str = "") -> dict[str, np.ndarray]:
    """A file like Adult: blanks after commas, "?" for nothing, an id, towns in any case."""
    people = drawn(
        13,
        workclass={"Private": 0.7, "State-gov": 0.15, "Self-emp": 0.1, "?": 0.05},
        country={"United-States": 0.9, "Mexico": 0.06, "?": 0.04},
        town={"Rome": 0.4, "rome": 0.3, "Oslo": 0.2, "OSLO": 0.1},
    )
    ages = np.random.default_rng(14).integers(17, 91, PEOPLE)
    lines = ["id, age, workclass, country, town"]
    rows = zip(range(1, PEOPLE + 1), ages, *people.values(), strict=True)
    lines += [", ".join(map(str, row)) + " " for row in rows]
    path.write_text("\n".join(lines) + "\n" + extra)
    return {"age": ages, **people}


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """`murmur serve` of campaign.toml, in a process of its own; its address."""
    port = free_port()
    running = command.process(
        "serve", "campaign.toml", "--port", str(port), "--store", "survey.db", folder=folder
    )
    try:
        ready(port, running)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)


def ready(port: int, running: Any) -> None:
    """Wait until the collector answers."""
    while running.poll() is None:
        with suppress(OSError), closing(collectors.Client(port)) as asking:
            if asking.ask("GET", "/ready").status == 200:
                return
        time.sleep(0.02)
    raise RuntimeError(f"the collector ended: {running.communicate()}")


def collected(folder: Path, *form: str) -> list[dict[str, Any]]:
    """Check, serve, send and estimate what `init` wrote; return the figures."""
    file = folder / "campaign.toml"
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("epsilon = 1\n", "epsilon = 4\n").replace("cohort = 1000", "cohort = 100"),
        encoding="utf-8",
    )
    checked = json.loads(
        command.murmur("check", "--data", "people.csv", *form, "--json", folder=folder).stdout
    )
    assert checked["passed"]
    with served(folder) as url:
        sent = json.loads(
            command.murmur("send", url, "people.csv", *form, "--json", folder=folder).stdout
        )
    assert (sent["stored"], sent["skipped"]) == (PEOPLE, 0)
    assert sent["fit"] == checked["fit"]
    found = command.murmur("estimate", "survey.db", "--json", folder=folder)
    figures: list[dict[str, Any]] = json.loads(found.stdout)["estimates"]
    return figures


def near(figures: list[dict[str, Any]], attribute: str, item: str, truth: float) -> None:
    """The figure is within some standard errors of the truth, and these are not large."""
    (found,) = [one for one in figures if (one["attribute"], one["item"]) == (attribute, item)]
    assert abs(found["value"] - truth) < FAR * found["stderr"], (attribute, item)
    assert found["low"] < found["value"] < found["high"]


@pytest.mark.slow
def test_a_raw_adult_file_from_start_to_end(tmp_path: Path) -> None:
    """Before, every label had a blank and was spread by chance: .019 +- .044 for .896."""
    people = adult(tmp_path / "people.csv")
    done = command.murmur("init", "--data", "people.csv", "--yes", "--ignore-case", folder=tmp_path)
    assert "it numbers the rows" in " ".join(done.stdout.split())
    found = tomllib.loads((tmp_path / "campaign.toml").read_text())
    assert found["people"] == PEOPLE
    asked = {one["name"]: one for one in found["attributes"]}
    assert list(asked) == ["age", "workclass", "country", "town"]
    assert asked["country"]["labels"] == ["Mexico", "United-States"]
    assert (asked["country"]["missing"], asked["country"]["markers"]) == (True, ["?"])
    assert (asked["town"]["case"], asked["town"]["labels"]) == ("ignore", ["Oslo", "Rome"])
    figures = collected(tmp_path)
    near(figures, "age", "mean", people["age"].mean())
    for name in ("workclass", "country"):
        some = people[name][people[name] != "?"]
        near(figures, name, "answered", len(some) / PEOPLE)
        for label in asked[name]["labels"]:
            near(figures, name, label, (some == label).mean())
    near(figures, "town", "Rome", np.isin(people["town"], ["Rome", "rome"]).mean())


@pytest.mark.slow
def test_a_semicolon_file_in_latin_1_from_start_to_end(tmp_path: Path) -> None:
    """Before, `init` said: put commas between columns."""
    people = drawn(15, ort={"Zürich": 0.5, "Genève": 0.3, "Bern": 0.2})
    sizes = np.random.default_rng(16).integers(1400, 2100, PEOPLE)
    rows = zip(people["ort"], sizes, strict=True)
    lines = ["Ort;Größe", *(f"{ort};{size // 1000},{size % 1000:03}" for ort, size in rows)]
    (tmp_path / "people.csv").write_bytes("\r\n".join(lines).encode("latin-1"))
    init = ("init", "--data", "people.csv", "--yes")
    refused = command.murmur(*init, folder=tmp_path, code=2).problem
    assert "is not UTF-8 text: say its --encoding, as latin-1" in refused
    said = command.murmur(*init, "--encoding", "latin-1", folder=tmp_path).stderr
    assert "semicolon between fields, latin-1, a comma in numbers" in said
    figures = collected(tmp_path, "--encoding", "latin-1")
    near(figures, "Größe", "mean", sizes.mean() / 1000)
    for ort in ("Zürich", "Genève", "Bern"):
        near(figures, "Ort", ort, (people["ort"] == ort).mean())


@pytest.mark.slow
def test_a_file_without_a_header_from_start_to_end(tmp_path: Path) -> None:
    """Before, the first person became the names of the columns."""
    people = drawn(17, home={"rent": 0.3, "own": 0.6, "n/a": 0.1})
    ages = np.random.default_rng(18).integers(18, 99, PEOPLE)
    lines = [f"{age}\t{home}" for age, home in zip(ages, people["home"], strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(lines))
    init = ("init", "--data", "people.csv", "--yes", "--force")
    refused = command.murmur(*init, folder=tmp_path, code=2).problem
    assert "say --no-header" in refused
    assert str(ages[0]) not in refused
    command.murmur(*init, "--no-header", folder=tmp_path)
    text = (tmp_path / "campaign.toml").read_text()
    assert [one["name"] for one in tomllib.loads(text)["attributes"]] == ["c1", "c2"]
    form = ("--no-header", "--columns", "age,home")
    command.murmur(*init, *form, folder=tmp_path)
    figures = collected(tmp_path, *form)
    near(figures, "age", "mean", ages.mean())
    some = people["home"][people["home"] != "n/a"]
    near(figures, "home", "own", (some == "own").mean())


# --- nothing is sent in silence -------------------------------------------------------------------

TOWNS = """
name = "towns"
purpose = "Where people live."
epsilon = 2.0
cohort = 100
{rest}
[[attributes]]
name = "town"
kind = "category"
labels = ["Rome", "Oslo"]
[[attributes]]
name = "age"
low = 18
high = 98
"""


def towns(path: Path) -> None:
    rows = ["Rome,30"] * 80 + ["rome,30"] * 12 + ["Bonn,30"] * 6 + [",200", "Oslo,old"]
    path.write_text("\n".join(["town,age", *rows]))


@pytest.mark.slow
def test_send_stops_before_anything_is_sent(tmp_path: Path) -> None:
    """Before, 18 of 100 towns became towns by chance, and it said: rows left out 0."""
    towns(tmp_path / "people.csv")
    (tmp_path / "campaign.toml").write_text(TOWNS.format(rest=""))
    with collectors.running(tmp_path / "store.db", TOWNS.format(rest="")) as collector:
        url = collector.collection("towns").url
        stopped = command.murmur("send", url, "people.csv", folder=tmp_path, code=2)
        assert "town: unknown are 'rome' 12, 'Bonn' 6" in stopped.problem
        assert "town 19.00%, age 2.00%. Nothing was sent." in stopped.problem
        assert "--allow-misfits 0.2" in stopped.problem
        assert collector.status("towns")["received"] == 0
        told = json.loads(
            command.murmur("send", url, "people.csv", "--json", folder=tmp_path, code=2).stdout
        )
        assert told["fit"]["town"] == {"fitted": 81, "clamped": 0, "unknown": 18, "missing": 1}
        assert told["fit"]["age"] == {"fitted": 98, "clamped": 1, "unknown": 1, "missing": 0}
        assert "rome" not in json.dumps(told)
        few = ("send", url, "people.csv", "--allow-misfits", "0.2", "--json")
        sent = json.loads(command.murmur(*few, folder=tmp_path).stdout)
        assert (sent["stored"], sent["skipped"]) == (98, 2)
        for log in (collector.log, collector.dump()):
            assert "Bonn" not in log
    checked = command.murmur("check", "--data", "people.csv", folder=tmp_path, code=2)
    assert "more than 1% of the values do not fit" in checked.problem
    assert "Nothing was sent" not in checked.problem
    assert "town 19.00%" in checked.problem
    assert "'Bonn' 6" in checked.problem


def test_a_value_can_do_nothing_to_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    fit = Fit("town", unknown=Counter({"\x1b[2J\u202e[red]": 3, "x" * 99: 1}))
    name_unknown([fit])
    shown = " ".join(capsys.readouterr().err.split())
    assert "town: unknown are '\\x1b[2J\\u202e[red]' 3, '" in shown
    assert "x" * 41 not in shown


@pytest.mark.slow
def test_a_device_and_send_read_alike(tmp_path: Path) -> None:
    """The rule is the device's: what `send` counts as fitting, a device alone takes."""
    with collectors.running(tmp_path / "store.db", TOWNS.format(rest="")) as collector:
        url = collector.collection("towns").url
        client = Client(url, tmp_path / "ledger.db")
        assert client.report({"town": " Rome\u00a0", "age": " 3.0e1 "}).outcome == "stored"


@pytest.mark.slow
def test_a_closed_campaign_and_a_base_address(tmp_path: Path) -> None:
    """Before, sending to a closed campaign ended with 0, and the base address was refused."""
    (tmp_path / "people.csv").write_text("town,age\n" + "Rome,30\n" * 20)
    closed = TOWNS.format(rest="closes = 2020-01-01T00:00:00Z").replace("towns", "closed")
    opened = TOWNS.format(rest="")
    with collectors.running(tmp_path / "a.db", closed) as collector:
        base = f"http://127.0.0.1:{collector.port}"
        refused = command.murmur("send", base, "people.csv", folder=tmp_path, code=2).problem
        assert "closed has closed at 2020-01-01" in refused
        assert collector.status("closed")["received"] == 0
        # A device's copy that knows nothing of it: the collector refuses, and that is no success.
        (tmp_path / "copy.toml").write_text(opened.replace("towns", "closed"))
        late = command.murmur(
            *("send", "copy.toml", "people.csv", "--to", base), folder=tmp_path, code=2
        )
        assert "The campaign has not opened yet, or it has closed." in late.stdout
    with collectors.running(tmp_path / "b.db", opened) as collector:
        base = f"http://127.0.0.1:{collector.port}"
        sent = command.murmur("send", base, "people.csv", "--json", folder=tmp_path)
        assert json.loads(sent.stdout)["stored"] == 20
    with collectors.running(tmp_path / "c.db", opened, closed) as collector:
        base = f"http://127.0.0.1:{collector.port}"
        several = command.murmur("send", base, "people.csv", folder=tmp_path, code=2).problem
        assert "say which campaign" in several
        assert "has towns, closed" in several


@pytest.mark.slow
def test_a_wrong_token_says_which_role_is_needed(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text("town,age\n" + "Rome,30\n" * 20)
    with collectors.running(tmp_path / "a.db", TOWNS.format(rest='upload = "token"')) as collector:
        url = collector.collection("towns").url
        lost = command.murmur(
            *("send", url, "people.csv"),
            folder=tmp_path,
            code=3,
            environment={"MURMUR_TOKEN": "not-a-token"},
        )
        assert "token of the role device" in " ".join(lost.stdout.split())
        assert "not-a-token" not in lost.stdout + lost.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--target", "town=low|high"), "--model linear predicts a number"),
        (("--target", "age=0:1", "--model", "svm"), "--model svm tells two labels apart"),
        (("--number", "age=a|b", "--target", "x=0:1"), "--number: numbers are written as"),
    ],
)
def test_learn_says_what_a_target_is(options: tuple[str, ...], words: str, tmp_path: Path) -> None:
    """Before, `income=low|high` was said to be no category."""
    towns(tmp_path / "people.csv")
    few = ("learn", "--data", "people.csv", "--category", "town=Rome|Oslo", *options)
    assert words in command.murmur(*few, folder=tmp_path, code=2).problem


# --- how files are written ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "encoding", "wanted"),
    [
        ("a;b\n1,5;x\n2;y\n", "utf-8", {"a": ["1.5", "2"], "b": ["x", "y"]}),
        ("a|b\n1,5|x,y\n", "utf-8", {"a": ["1,5"], "b": ["x,y"]}),
        ("a\tb\n1\tx;y\n", "utf-8-sig", {"a": ["1"], "b": ["x;y"]}),
        ("a, b\n1, x;y\n", "utf-16", {"a": ["1"], "b": ["x;y"]}),
        ('a;b\n"1,5";?\n?;x\n', "utf-8", {"a": ["1.5", "?"], "b": ["?", "x"]}),
        ("a;b\n1,5;x\n1.5;y\n", "utf-8", {"a": ["1,5", "1.5"], "b": ["x", "y"]}),
        ("a\n1\n", "utf-8", {"a": ["1"]}),
    ],
)
def test_what_is_obvious_is_found(
    tmp_path: Path, text: str, encoding: str, wanted: dict[str, list[str]]
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text, encoding=encoding)
    assert open_table(path, Form()).columns() == wanted


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (("ab", "", None, "", ""), "--delimiter is one character"),
        (("", "latin-x", None, "", ""), "--encoding is one that Python knows"),
        (("", "", None, "a,b", ""), "--no-header"),
        (("", "", False, "a,b", ""), "has 1 columns, and --columns names 2"),
        (("", "", None, "", ";"), "--decimal is"),
    ],
)
def test_forms_that_cannot_be(tmp_path: Path, said: tuple[Any, ...], words: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    with pytest.raises(ParameterError, match=words):
        open_table(path, Form.said(*said)).columns()


def test_init_tells_what_became_of_each_column(tmp_path: Path) -> None:
    """Ids, names, many labels, nothing at all: each with its reason, and how to keep it."""
    draw = np.random.default_rng(3)
    head = "row,name,zip,model,empty,score,flag"
    scores = [draw.integers(9) / 2 if i % 9 else "-" for i in range(500)]
    rows = [f"{i},p{i},0{i % 5},m{draw.integers(70)},,{scores[i]},{i % 2}.0" for i in range(500)]
    (tmp_path / "people.csv").write_text("\n".join([head, *rows]))
    done = command.murmur("init", "--data", "people.csv", "--yes", folder=tmp_path, columns=60)
    shown = " ".join(done.stdout.replace("│", " ").split())
    for words in ("it numbers the rows", "nearly all rows differ", "70 different texts"):
        assert words in shown
    assert "public knowledge" in done.stderr
    text = (tmp_path / "campaign.toml").read_text()
    found = {one["name"]: one for one in tomllib.loads(text)["attributes"]}
    assert set(found) == {"zip", "score", "flag"}
    assert found["zip"]["labels"] == ["00", "01", "02", "03", "04"]
    assert found["flag"]["labels"] == ["0", "1"]
    assert (found["score"]["missing"], found["score"]["markers"]) == (True, ["-"])
    kept = text.partition("# To keep it, take these marks away:\n")[2].partition("\n\n")[0]
    opened = "\n".join(line.removeprefix("# ") for line in kept.splitlines())
    (model,) = tomllib.loads(opened)["attributes"]
    assert len(model["labels"]) == 70
    more = ("--max-labels", "70", "--missing", "x", "--force")
    command.murmur("init", "--data", "people.csv", "--yes", *more, folder=tmp_path)
    text = (tmp_path / "campaign.toml").read_text()
    found = {one["name"]: one for one in tomllib.loads(text)["attributes"]}
    assert len(found["model"]["labels"]) == 70
    assert "-" in found["score"]["labels"]  # said otherwise: then it is a text like any other


def test_a_blank_line_of_one_column_is_a_person_without_an_answer(tmp_path: Path) -> None:
    """Elsewhere it is no row: nobody writes a person without anything."""
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    one.write_text("speed\n90\n\n\n107\n")
    two.write_text("speed,seats\n90,2\n\n107,4\n")
    assert [chunk["speed"] for chunk in open_table(one).chunks(["speed"])] == [
        ["90", "", "", "107"]
    ]
    assert [chunk["speed"] for chunk in open_table(two).chunks(["speed"])] == [["90", "107"]]


def test_the_next_command_reads_the_file_in_the_same_way(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("größe;stadt\n1,5;Köln\n1,7;Bonn\n1,6;Köln\n".encode("latin-1"))
    done = command.murmur(
        *("init", tmp_path / "c.toml", "--data", path, "--yes"),
        *("--encoding", "latin-1", "--delimiter", ";"),
    )
    assert "--delimiter ';' --encoding latin-1" in " ".join(done.stdout.split())
