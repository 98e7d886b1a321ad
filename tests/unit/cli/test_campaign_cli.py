"""The life of a campaign on the command line, from `murmur init` to `murmur merge`."""

from __future__ import annotations

import csv
import json
import os
import socket
import subprocess
import time
import tomllib
import urllib.request
from pathlib import Path

import msgspec
import numpy as np
import pytest

from murmuration.analysis import read
from murmuration.cli import status as status_command
from murmuration.cli.init import nice_range
from murmuration.collector import publish
from murmuration.collector.commit import Batch, commit
from murmuration.collector.files import export
from murmuration.collector.merging import key_file, known
from murmuration.collector.merging import tallies as merging
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.definition.schema import (
    AttributeTable,
    CampaignTable,
    CheckFitTable,
    RepeatTable,
)
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.tally import Tally
from murmuration.wire import parquet, report
from murmuration.wire.ids import new_ids
from murmuration.wire.report import Incoming, Upload
from tests.support import command
from tests.support.between import free_port
from tests.support.command import process

CAMPAIGN = """\
name = "survey"
purpose = "How people are"
epsilon = 2.0
people = 5000
cohort = 500

[[attributes]]
name = "age"
low = 18
high = 98
unit = "years"

[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios", "other"]
"""
SCRUBBED = CAMPAIGN.replace("cohort = 500", "cohort = 500\nkeep_reports = false")
SPLIT = CAMPAIGN.replace("epsilon = 2.0", "epsilon = 2.0\nstrategy = 'split'") + (
    "[[attributes]]\nname = 'city'\nkind = 'category'\n"
    f"labels = {[f'c{i}' for i in range(40)]}\n[[attributes]]\nname = 'shape'\n"
    "kind = 'distribution'\nlow = 0\nhigh = 1\nbins = 16\n"
)


@pytest.fixture
def murmur(tmp_path):
    """Run the command in a folder of its own; a mistake returns what it said as one line, too."""

    def run(*arguments: object, code: int = 0, **options) -> str:
        done = command.murmur(*arguments, folder=tmp_path, code=code, columns=120, **options)
        return done.stdout if code == 0 else done.stdout + done.problem

    return run


def reports_of(campaign, people: int, seed: int):
    """Return ids and rows of some people."""
    rng = np.random.default_rng(seed + 2000)  # not the words that the devices draw
    answers = {}
    for question in campaign.questions:
        if question.k is None:
            low, high = question.range
            answers[question.name] = rng.uniform(low, (low + high) / 2, people)
        else:
            answers[question.name] = rng.choice(question.labels, people)
    rows = campaign.privatize(campaign.encode(answers, seeded_rng(seed)), seeded_rng(seed))
    return new_ids(people, seeded_rng(seed + 1000)), rows


def fill(path: Path, text: str, *batches) -> None:
    """Collect reports in a store, as a collector does."""
    store = open_store(path)
    served = serve(store, campaign_file.parse(text))
    for ids, rows in batches:
        upload = Upload(ids, rows, np.zeros(len(ids), dtype=np.uint8))
        commit(store, [Batch(served, Incoming([], upload))])
    store.close()


def crowd(text: str, people: int, seed: int):
    return reports_of(campaign_file.parse(text), people, seed)


def tallies_of(path: Path, name: str = "survey") -> list[bytes]:
    store = open_store(path)
    found = known.total(store, publish.served(store, name).campaign)
    store.close()
    return [tally.to_bytes() for tally in found]


# --- init ----------------------------------------------------------------------------------------


def people_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(["id", "age", "city", "smokes", "empty", "same", 'quo"te'])
        for i in range(300):
            city = ["Łódź", 'a "b"', "c\\d"][i % 3]
            writer.writerow([f"p{i}", 20.5 + i % 60, city, i % 2, "", "x", i % 97])


@pytest.mark.slow
def test_init_from_a_data_file(murmur, tmp_path) -> None:
    people_csv(tmp_path / "people.csv")
    murmur("init", "--data", "people.csv", "--yes")
    text = (tmp_path / "campaign.toml").read_text(encoding="utf-8")
    found = {one["name"]: one for one in tomllib.loads(text)["attributes"]}
    assert set(found) == {"age", "city", "smokes", 'quo"te'}
    assert (found["age"]["low"], found["age"]["high"]) == (20, 80)
    assert found["city"]["labels"] == ['a "b"', "c\\d", "Łódź"]
    assert found["smokes"]["labels"] == ["0", "1"]
    assert "must come from public knowledge" in text
    assert "Column id was left out: nearly all rows differ" in text
    assert "Column empty was left out: it is empty" in text
    for table in (CampaignTable, AttributeTable, RepeatTable, CheckFitTable):
        for field in msgspec.structs.fields(table):
            assert f"{field.name} = " in text or f"[{field.name}]" in text, field.name
    assert "digest" in murmur("check")
    assert "exists already" in murmur("init", "--data", "people.csv", "--yes", code=2)
    murmur("init", "--data", "people.csv", "--yes", "--force")


@pytest.mark.slow
def test_init_examples_are_right_when_the_comment_is_taken_away(murmur, tmp_path) -> None:
    people_csv(tmp_path / "people.csv")
    murmur("init", "--data", "people.csv", "--yes")
    text = (tmp_path / "campaign.toml").read_text(encoding="utf-8")
    head, _, examples = text.partition("# A number whose whole distribution")
    graded, _, rest = examples.partition("# Levels of privacy")
    levels, _, _ = rest.partition("# The same question again")

    def opened(part: str) -> str:
        lines = part.splitlines()[1:]
        return "\n".join(line.removeprefix("# ") for line in lines if "=" in line or "[" in line)

    settings = [line for line in head.splitlines() if line.startswith("# ") and " = " in line]
    keys = (
        *("opens", "closes", "strategy", "sample", "lifetime", "keep_reports", "upload"),
        "origins",
    )
    wanted = [line[2:] for line in settings if line[2:].startswith(keys)]
    assert len(wanted) == len(keys)
    top, _, rest_of_head = head.partition("[[attributes]]")
    whole = "\n".join([top, *wanted, "[[attributes]]" + rest_of_head])
    assert campaign_file.parse(whole).limit == 1
    assert len(campaign_file.parse(head + opened(graded)).questions) == 7
    assert campaign_file.parse(head + opened(levels)).levels.names == ("high", "medium", "low")


@pytest.mark.slow
def test_init_from_parquet_and_mistakes(murmur, tmp_path) -> None:
    arrow = parquet.arrow()
    table = arrow.table({"height": [1.5, 2.01, None], "sport": ["run", "swim", None]})
    arrow.parquet.write_table(table, tmp_path / "people.parquet")
    murmur("init", "sub/c.toml", "--data", "people.parquet", "--yes")
    found = campaign_file.load(tmp_path / "sub" / "c.toml")
    assert [question.name for question in found.questions] == ["height", "sport"]
    assert "needs --data" in murmur("init", "--yes", code=2)
    assert "no file" in murmur("init", "--data", "nobody.csv", "--yes", code=2)
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    assert "not a Parquet file" in murmur("init", "--data", "bad.parquet", "--yes", code=2)
    (tmp_path / "empty.csv").write_text("a,b\n")
    assert "no rows" in murmur("init", "--data", "empty.csv", "--yes", code=2)
    (tmp_path / "names.csv").write_text("a\n" + "".join(f"p{i}\n" for i in range(99)))
    assert "nothing to ask" in murmur("init", "--data", "names.csv", "--yes", code=2)
    assert not (tmp_path / "campaign.toml").exists()
    (tmp_path / "unclear.csv").write_text("age;phone\n30;ios\n40;other;x\n")
    assert "say --delimiter" in murmur("init", "--data", "unclear.csv", "--yes", code=2)


@pytest.mark.parametrize(
    ("low", "high"), [(0.001, 0.0013), (-5, 17), (3, 3), (1e9, 3.3e9), (-1e-9, 0), (99, 101)]
)
def test_a_nice_range_is_outside_and_not_much_larger(low: float, high: float) -> None:
    bottom, top = nice_range(low, high)
    assert bottom <= low <= high <= top
    assert top - bottom <= max(4 * (high - low), 2)


def test_init_asks(murmur, tmp_path) -> None:
    answers = ["Bad Name", "survey", "Why we ask", "0", "1.5", "many", "2,000"]
    answers += ["age", "", "18", "10", "98", "years", "age", "phone", "ios", "ios, android", ""]
    murmur("init", "c.toml", stdin="\n".join(answers) + "\n")
    found = campaign_file.load(tmp_path / "c.toml")
    assert (found.name, found.epsilon, found.terms.people) == ("survey", 1.5, 2000)
    assert found.questions[0].range == (18, 98)
    assert found.questions[1].labels == ("ios", "android")


# --- check ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_check_says_what_is_revealed(murmur, tmp_path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    campaign = campaign_file.parse(CAMPAIGN)
    text = murmur("check")
    for words in ("How people are", "18 to 98 years", "2 bytes", "at most 88.1% sure", "passed"):
        assert words in text
    assert "500 answers" in text
    assert campaign.digest in text
    found = json.loads(murmur("check", "--json"))
    assert found["passed"]
    assert found["loss"] <= found["epsilon"] == 2
    assert sum(one["share"] for one in found["attributes"]) == pytest.approx(1)
    murmur("check", "--document", "out.json", "--json")
    assert campaign_document.read((tmp_path / "out.json").read_bytes()).digest == campaign.digest
    assert json.loads(murmur("check", "--document", "-"))["collection"]["epsilon"] == 2
    assert "leave --json out" in murmur("check", "--document", "-", "--json", code=2)


@pytest.mark.slow
def test_check_says_which_sites_may_take_part(murmur, tmp_path) -> None:
    named = 'cohort = 500\norigins = ["https://app.example"]'
    (tmp_path / "campaign.toml").write_text(CAMPAIGN.replace("cohort = 500", named))
    assert "pages of https://app.example may take part" in " ".join(murmur("check").split())
    assert json.loads(murmur("check", "--json"))["origins"] == ["https://app.example"]


@pytest.mark.slow
def test_expected_errors_are_those_that_come_out(murmur, tmp_path) -> None:
    (tmp_path / "campaign.toml").write_text(SPLIT)
    expected = json.loads(murmur("check", "--json"))["attributes"]
    campaign = campaign_file.parse(SPLIT)
    figures = read.figures(campaign, campaign.tally(reports_of(campaign, 5000, 3)[1]))
    for one in expected:
        errors = [f.stderr for f in figures if f.attribute == one["name"] and f.stderr]
        measured = float(np.sqrt(np.mean(np.square(errors))))
        assert 0.6 * one["laws"][0]["stderr"] < measured < 1.05 * one["laws"][0]["stderr"]


@pytest.mark.slow
def test_check_of_levels_ranges_and_repeats(murmur, tmp_path) -> None:
    path = tmp_path / "campaign.toml"
    path.write_text(CAMPAIGN + "[levels]\nhigh = '1/4'\nlow = 1\n")
    text = " ".join(murmur("check").split())
    assert "high: a report at most 1.65 times as likely as with any other answers" in text
    graded = "kind = 'graded'\nedges = [50]\nbudgets = [2, 0.5]\nunit ="
    path.write_text(CAMPAIGN.replace("unit =", graded))
    text = murmur("check")
    assert "18 to 50" in text
    assert "2 / 2" in text
    assert "0.5 / 0.5" in text
    repeated = CAMPAIGN[: CAMPAIGN.index("[[")] + CAMPAIGN[CAMPAIGN.rindex("[[") :]
    path.write_text(repeated + "[repeat]\npermanent = 3\nvalues = 2\nrounds = 9\n")
    text = murmur("check")
    assert "any number of reports about a value that stays 3 together" in text
    assert "6 over the whole campaign" in text
    for strategy in ("harmony", "hybrid-composition", "sampled"):
        path.write_text(CAMPAIGN.replace("people =", f"strategy = '{strategy}'\npeople ="))
        assert strategy in murmur("check")


@pytest.mark.slow
def test_check_tells_mistakes_from_broken_promises(murmur, tmp_path) -> None:
    path = tmp_path / "campaign.toml"
    dct = CAMPAIGN.replace('unit = "years"', "mechanism = 'dct'")
    path.write_text(dct)
    refused = murmur("check", code=1)
    assert "campaign.toml, line 11: dct is refused" in refused
    said = json.loads(murmur("check", "--json", code=1).split("\n}")[0] + "\n}")
    assert (said["passed"], said["refused"], said["line"]) == (False, True, 11)
    assert "dct is refused" in murmur("serve", path, code=1)
    sentence = "an infinite loss where 2.0 is promised"
    path.write_text(dct.replace("people =", f'accept_loss = "{sentence}"\npeople ='))
    assert "possibly everything" in murmur("check")
    path.write_text(CAMPAIGN.replace("cohort = 500", "cohort = 5"))
    assert "campaign.toml, line 5: a cohort is 100 people" in murmur("check", code=2)
    assert "no such file" in murmur("check", "nothing.toml", code=2)


# --- estimate and status -------------------------------------------------------------------------


@pytest.mark.slow
def test_estimate_from_a_store(murmur, tmp_path) -> None:
    few, many = crowd(SPLIT, 499, 1), crowd(SPLIT, 4000, 2)
    fill(tmp_path / "a.db", SPLIT, few)
    assert "fewer than 500" in murmur("estimate", "a.db", code=2)
    fill(tmp_path / "a.db", SPLIT, many)
    text = murmur("estimate", "a.db", "survey", "--confidence", "0.9")
    assert "4,499 people" in text
    assert "±" in text
    found = json.loads(murmur("estimate", "a.db", "--json", "--about", "population"))
    assert found["people"] == 4499
    age = next(one for one in found["estimates"] if one["attribute"] == "age")
    assert abs(age["value"] - 38) < 5 * age["stderr"]
    options = ("--csv", "out.csv", "--parquet", "out.parquet", "--plot", "out.png")
    murmur("estimate", "a.db", *options)
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text(encoding="utf-8").splitlines()))
    assert float(rows[0]["value"]) == age["value"]
    assert parquet.arrow().parquet.read_table(tmp_path / "out.parquet").num_rows == len(rows)
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert murmur("estimate", "a.db", "--csv", "-").startswith("attribute,item,value")


def test_status_of_a_store(murmur, tmp_path) -> None:
    ids, rows = crowd(CAMPAIGN, 300, 1)
    bad = rows.copy()
    bad[:5, 0] = 99
    fill(tmp_path / "a.db", CAMPAIGN, (ids, bad), (ids, rows))
    found = json.loads(murmur("status", "a.db", "--json"))
    assert found["received"] == 600
    assert found["outcomes"] == {"bad-symbol": 5, "duplicate": 295, "stored": 300}
    assert found["balanced"]
    text = murmur("status", "a.db")
    for words in ("survey, version 1, open", "they add up", "refused, bad-symbol", "295"):
        assert words in text
    assert "leave --json out" in murmur("status", "a.db", "--json", "--watch", code=2)


@pytest.mark.slow
def test_other_questions_are_other_reports(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", SPLIT, crowd(SPLIT, 600, 1))
    other = SPLIT.replace("98", "99")
    fill(tmp_path / "a.db", other, crowd(other, 20, 2))
    text = " ".join(murmur("status", "a.db").replace("│", " ").split())
    assert "600" in text.split("stored for earlier")[1].split("received =")[0]
    assert "too few people have answered version 2 of" in murmur("estimate", "a.db", code=2)


def test_serving_that_cannot_be_leaves_nothing_behind(murmur, tmp_path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN, encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        text = murmur("serve", "campaign.toml", "--port", port, code=2)
        assert "already in use; choose another with --port" in text
        assert "token" not in text
    assert "writer" in murmur("serve", "campaign.toml", "--workers", "2", code=2)
    pems = ("--certificate", "no.pem", "--key", "no.pem")
    assert "there is no file no.pem" in murmur("serve", "campaign.toml", *pems, code=2)
    assert not list(tmp_path.glob("*.db"))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["estimate", "status"])
def test_sources_that_are_none(murmur, tmp_path, command: str) -> None:
    fill(tmp_path / "a.db", CAMPAIGN)
    assert "there is no campaign 'other'" in murmur(command, "a.db", "other", code=2)
    assert "no store" in murmur(command, "b.db", code=2)
    (tmp_path / "c.db").write_bytes(b"no database" * 100)
    assert "not a store" in murmur(command, "c.db", code=2)
    fill(tmp_path / "a.db", CAMPAIGN.replace("survey", "second"))
    assert "say which campaign" in murmur(command, "a.db", code=2)
    assert "cannot be reached" in murmur(command, f"http://127.0.0.1:{free_port()}", code=3)
    gone = f"postgresql://nobody@127.0.0.1:{free_port()}/none"
    assert "database cannot be reached" in murmur(command, gone, code=3)
    far = murmur(command, "http://example.org", "survey", "--token", "t", code=2)
    assert "plain HTTP" in far


@pytest.mark.slow
def test_a_collector_by_its_address(murmur, tmp_path) -> None:
    (tmp_path / "campaign.toml").write_text(CAMPAIGN)
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    running = process("serve", "campaign.toml", "--port", str(port), folder=tmp_path)
    try:
        wait_for(f"{address}/ready")
        token = murmur("token", "add", "survey.db", "analyst").strip()
        assert "MURMUR_TOKEN" in murmur("status", address, code=2)
        known = {"environment": {"MURMUR_TOKEN": token}}
        assert "500" in murmur("estimate", address, code=2, **known)
        send(address, *crowd(CAMPAIGN, 2000, 4))
        by_address = json.loads(
            murmur("estimate", address, "--json", "--confidence", "0.8", **known)
        )
        by_file = json.loads(murmur("estimate", "survey.db", "--json", "--confidence", "0.8"))
        assert by_address == by_file
        whole = f"{address}/v1/campaigns/survey"
        assert json.loads(murmur("status", whole, "--json", **known))["people"] == 2000
        assert "no campaign of that name" in murmur("status", address, "other", code=2, **known)
        watch(murmur, address, **known)
        wrong = {"MURMUR_TOKEN": "murmur_wrong"}
        assert "token" in murmur("estimate", address, code=2, environment=wrong)
    finally:
        running.terminate()
        running.communicate(timeout=20)


def wait_for(url: str) -> None:
    for _ in range(1200):  # a busy machine takes long to start a process
        try:
            with urllib.request.urlopen(url):
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def send(address: str, ids, rows) -> None:
    body = report.to_binary(campaign_file.parse(CAMPAIGN).form, ids, rows)
    request = urllib.request.Request(
        f"{address}/v1/campaigns/survey/reports", body, {"content-type": report.BINARY}
    )
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["stored"] == len(ids)


def watch(murmur, address: str, **known) -> None:
    """Look until Ctrl-C, which comes while it waits for the third look."""
    waits = iter([None, KeyboardInterrupt])

    def wait(seconds: float) -> None:
        if (problem := next(waits)) is not None:
            raise problem

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(status_command, "sleep", wait)
        assert "they add up" in murmur("status", address, "--watch", **known)


# --- export --------------------------------------------------------------------------------------

MANY = CAMPAIGN[: CAMPAIGN.index("[[")] + "".join(
    f'[[attributes]]\nname = "n{i}"\nlow = 0\nhigh = 1\nmechanism = "duchi"\n' for i in range(300)
)


@pytest.mark.slow
@pytest.mark.parametrize("text", [CAMPAIGN, SPLIT, MANY], ids=["sample", "split", "many"])
def test_an_export_counts_to_the_same_tallies(murmur, tmp_path, text: str) -> None:
    ids, rows = crowd(text, 700, 1)
    fill(tmp_path / "a.db", text, (ids, rows))
    assert "700 reports" in murmur("export", "a.db", "out.parquet")
    path = tmp_path / "out.parquet"
    campaign = export.campaign_of(path)
    read = list(export.rows(path))
    order = np.lexsort(ids.T[::-1])
    assert (np.concatenate([part for part, _ in read]) == ids[order]).all()
    again = np.concatenate([part for _, part in read])
    assert (again == rows[order]).all()
    assert [tally.to_bytes() for tally in campaign.tally(again)] == tallies_of(tmp_path / "a.db")
    assert "--force" in murmur("export", "a.db", "out.parquet", code=2)
    done = json.loads(murmur("export", "a.db", "out.parquet", "--force", "--json"))
    assert done["written"] == 700


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_scrubbed_report_is_counted_once(tmp_path, kind: str, request) -> None:
    where = tmp_path / "a.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    some = crowd(SCRUBBED, 100, 1)
    fill(where, SCRUBBED, some, some)
    found = books(where)
    assert (found["people"], found["outcomes"]["duplicate"]) == (100, 100)


def test_exports_that_cannot_be(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", SCRUBBED, crowd(SCRUBBED, 100, 1))
    assert "keep_reports = false" in murmur("export", "a.db", "out.parquet", code=2)
    assert not list(tmp_path.glob("*.parquet*"))
    assert not list(tmp_path.glob(".*.part"))
    (tmp_path / "x.parquet").write_bytes(b"nothing")
    with pytest.raises(export.FormatError, match="not a Parquet"):
        export.campaign_of(tmp_path / "x.parquet")
    arrow = parquet.arrow()
    arrow.parquet.write_table(arrow.table({"id": [1]}), tmp_path / "y.parquet")
    with pytest.raises(export.FormatError, match="not written by"):
        export.campaign_of(tmp_path / "y.parquet")


def test_only_its_owner_reads_an_export(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 20, 1))
    before = os.umask(0)
    try:
        murmur("export", "a.db", "out.parquet")
        (tmp_path / "open.parquet").write_bytes(b"for all to read")
        (tmp_path / "open.parquet").chmod(0o666)
        murmur("export", "a.db", "open.parquet", "--force")
    finally:
        os.umask(before)
    for name in ("out.parquet", "open.parquet"):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600


def test_a_link_in_the_place_of_an_export_is_replaced_and_not_followed(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 20, 1))
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    for number, name in enumerate((".out.parquet.part", "out.parquet")):
        (tmp_path / name).symlink_to(victim)
        if number:
            assert "--force" in murmur("export", "a.db", "out.parquet", code=2)
        murmur("export", "a.db", "out.parquet", *["--force"] * number)
        assert victim.read_bytes() == b"precious"
        assert not (tmp_path / "out.parquet").is_symlink()
        assert sum(len(ids) for ids, _ in export.rows(tmp_path / "out.parquet")) == 20
        (tmp_path / "out.parquet").unlink()
    (tmp_path / "out.parquet").symlink_to(tmp_path / "nowhere")  # would be made by whoever follows
    murmur("export", "a.db", "out.parquet", "--force")
    assert not (tmp_path / "nowhere").exists()


def test_an_export_is_what_its_name_says(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 20, 1))
    for name in ("x.csv", "x.parquet.csv"):
        assert "ends in .parquet, or a folder" in murmur("export", "a.db", name, code=2)
        assert not (tmp_path / name).exists()
    (tmp_path / "file").touch()
    assert "or a folder" in murmur("export", "a.db", "file", code=2)
    murmur("export", "a.db", "x.PARQUET")
    assert (tmp_path / "x.PARQUET").is_file()
    murmur("export", "a.db", "x")
    assert (tmp_path / "x" / "survey").is_dir()


# --- merge ---------------------------------------------------------------------------------------


def books(path: Path) -> dict[str, object]:
    store = open_store(path)
    found = publish.served(store, "survey").status(store)
    store.close()
    assert found.balanced
    return msgspec.to_builtins(found)


@pytest.mark.slow
def test_merged_reports_are_counted_once(murmur, tmp_path) -> None:
    one, two, three = (crowd(CAMPAIGN, n, n) for n in (500, 400, 300))
    fill(tmp_path / "a.db", CAMPAIGN, one, two)
    fill(tmp_path / "b.db", CAMPAIGN, two, three, two)
    fill(tmp_path / "all.db", CAMPAIGN, one, two, three)
    found = json.loads(murmur("merge", "a.db", "b.db", "--json"))
    assert (found[0]["new"], found[0]["known"]) == (300, 400)
    assert tallies_of(tmp_path / "a.db") == tallies_of(tmp_path / "all.db")
    before = books(tmp_path / "a.db")
    assert (before["received"], before["people"]) == (1200, 1200)
    assert "0 new reports, 700 were here already" in murmur("merge", "a.db", "b.db")
    assert books(tmp_path / "a.db") == before
    fill(tmp_path / "a.db", CAMPAIGN, three)  # a device tries again elsewhere
    assert books(tmp_path / "a.db")["outcomes"]["duplicate"] == 300
    assert books(tmp_path / "b.db")["received"] == 1100


@pytest.mark.slow
def test_scrubbed_stores(murmur, tmp_path) -> None:
    one, two, three = (crowd(SCRUBBED, n, n) for n in (500, 400, 300))
    fill(tmp_path / "a.db", CAMPAIGN, one)
    fill(tmp_path / "b.db", SCRUBBED, two)
    fill(tmp_path / "all.db", SCRUBBED, one, two)
    murmur("merge", "a.db", "b.db")
    assert tallies_of(tmp_path / "a.db") == tallies_of(tmp_path / "all.db")
    murmur("merge", "a.db", "b.db")
    before = books(tmp_path / "a.db")
    assert before["people"] == before["received"] == 900
    fill(tmp_path / "b.db", SCRUBBED, three)
    text = murmur("merge", "a.db", "b.db", code=2)
    assert "400 are counted here already and 300 are not" in text
    assert books(tmp_path / "a.db") == before
    # The other way round the reports are there, and only the new ones are counted.
    fill(tmp_path / "c.db", CAMPAIGN, one, two, three)
    murmur("merge", "b.db", "c.db")
    fill(tmp_path / "all.db", SCRUBBED, three)
    assert tallies_of(tmp_path / "b.db") == tallies_of(tmp_path / "all.db")
    assert "keep_reports" in murmur("export", "b.db", "out.parquet", code=2)


@pytest.mark.slow
def test_a_store_that_scrubs_since_yesterday(murmur, tmp_path) -> None:
    one, two, three = (crowd(CAMPAIGN, n, n) for n in (500, 400, 300))
    fill(tmp_path / "b.db", CAMPAIGN, one)
    fill(tmp_path / "b.db", SCRUBBED, two)
    fill(tmp_path / "a.db", CAMPAIGN, one, three)
    murmur("merge", "a.db", "b.db")
    fill(tmp_path / "all.db", CAMPAIGN, one, two, three)
    assert tallies_of(tmp_path / "a.db") == tallies_of(tmp_path / "all.db")
    assert "500 reports of survey; 400 are known by their id only" in murmur(
        "export", "b.db", "out.parquet"
    )


@pytest.mark.slow
def test_stores_that_do_not_belong_together(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 10, 1))
    other = CAMPAIGN.replace("98", "99")
    fill(tmp_path / "b.db", other, crowd(other, 10, 2))
    assert "another campaign, or of a version" in murmur("merge", "a.db", "b.db", code=2)
    fill(tmp_path / "c.db", CAMPAIGN.replace("survey", "second"))
    assert "does not have the campaign second" in murmur("merge", "a.db", "c.db", code=2)
    assert "into itself" in murmur("merge", "a.db", "./a.db", code=2)
    assert "no store" in murmur("merge", "a.db", "d.db", code=2)
    open_store(tmp_path / "e.db").close()
    assert "no campaign" in murmur("merge", "a.db", "e.db", code=2)
    assert books(tmp_path / "a.db")["people"] == 10


@pytest.mark.slow
def test_a_store_whose_books_were_changed_is_refused(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 10, 1))
    fill(tmp_path / "b.db", CAMPAIGN, crowd(CAMPAIGN, 20, 2))
    store = open_store(tmp_path / "b.db")
    ((ids, rows),) = store.execute("SELECT ids, rows FROM blocks")
    store.execute("UPDATE blocks SET ids = ?, rows = ?", (ids[48:], rows[3 * len(rows) // 20 :]))
    store.close()
    assert "do not agree" in murmur("merge", "a.db", "b.db", code=2)
    assert books(tmp_path / "a.db")["people"] == 10


@pytest.mark.slow
def test_tallies_that_were_sent_and_reports_are_not_counted_twice(murmur, tmp_path) -> None:
    """Collector b has sent its tally to a, and c its tally to b; then b's store is merged."""
    for name, people in (("a", 100), ("b", 200), ("c", 400)):
        fill(tmp_path / f"{name}.db", CAMPAIGN, crowd(CAMPAIGN, people, people))
    send_tally(tmp_path / "b.db", tmp_path / "a.db")
    send_tally(tmp_path / "c.db", tmp_path / "b.db")
    assert books(tmp_path / "a.db")["people"] == 300
    for _ in range(2):
        murmur("merge", "a.db", "b.db")
        found = books(tmp_path / "a.db")
        assert (found["people"], found["merged_collectors"], found["received"]) == (700, 1, 300)
    send_tally(tmp_path / "b.db", tmp_path / "a.db")
    assert books(tmp_path / "a.db") == found
    murmur("merge", "a.db", "c.db")  # now c's reports too: its tally no longer counts
    found = books(tmp_path / "a.db")
    assert (found["people"], found["merged_collectors"], found["received"]) == (700, 0, 700)
    murmur("merge", "a.db", "b.db")  # which still has c's tally
    assert books(tmp_path / "a.db") == found
    fill(tmp_path / "d.db", CAMPAIGN)
    murmur("merge", "d.db", "a.db", "b.db", "c.db")
    assert books(tmp_path / "d.db")["people"] == 700
    assert tallies_of(tmp_path / "d.db") == tallies_of(tmp_path / "a.db")


def send_tally(one: Path, other: Path) -> None:
    source, target = open_store(one), open_store(other)
    served = publish.served(target, "survey")
    for store in (source, target):
        key_file.take_key(store, bytes(32))
    found = known.exported(source, served.campaign)
    try:
        merging.merge_tallies(target, served, found)
    finally:
        source.close()
        target.close()


def test_merging_into_postgres(murmur, tmp_path, postgres_url) -> None:
    one, two = (crowd(SPLIT, n, n) for n in (300, 200))
    store = open_store(postgres_url)
    serve(store, campaign_file.parse(SPLIT))
    fill(tmp_path / "a.db", SPLIT, one)
    fill(tmp_path / "b.db", SPLIT, one, two)
    for _ in range(2):
        murmur("merge", postgres_url, "a.db", "b.db")
        found = known.total(store, publish.served(store, "survey").campaign)
        assert [tally.to_bytes() for tally in found] == tallies_of(tmp_path / "b.db")
    assert "500 reports" in murmur("export", postgres_url, "out.parquet")
    assert "into itself" in murmur("merge", postgres_url, postgres_url, code=2)
    fill(tmp_path / "c.db", SPLIT)
    murmur("merge", "c.db", postgres_url)
    assert tallies_of(tmp_path / "c.db") == tallies_of(tmp_path / "b.db")
    assert all(isinstance(tally, Tally) for tally in found)
    store.close()


# --- token ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_tokens(murmur, tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN)
    text = murmur("token", "add", "a.db", "analyst", "--name", "ada", "--campaign", "survey")
    assert text.startswith("murmur_")
    data = json.loads(murmur("token", "add", "a.db", "device", "--days", "1", "--json"))
    assert data["token"].startswith("murmur_")
    listed = murmur("token", "list", "a.db")
    assert "ada" in listed
    assert text.strip() not in listed
    assert "murmur_" not in murmur("token", "list", "a.db", "--json")
    new = murmur("token", "rotate", "a.db", "ada", "--overlap", "1", "--days", "7").strip()
    assert new != text.strip()
    ada = [t for t in json.loads(murmur("token", "list", "a.db", "--json")) if t["name"] == "ada"]
    assert [one["role"] for one in ada] == ["analyst", "analyst"]
    assert {one["campaign"] for one in ada} == {"survey"}
    assert len({one["expires"] for one in ada}) == 2
    assert murmur("token", "end", "a.db", "ada").strip() == "2 ended"
    assert "no valid token" in murmur("token", "end", "a.db", "ada", code=2)
    assert "no valid token" in murmur("token", "rotate", "a.db", "ada", code=2)
    assert json.loads(murmur("token", "end", "a.db", "device", "--json"))["ended"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["add", "a.db", "king"], "a role is"),
        (["add", "a.db", "admin", "--days", "-1"], "ten years"),
        (["add", "a.db", "admin", "--campaign", "other"], "no campaign 'other'"),
        (["add", "b.db", "admin"], "no store"),
        ([], "say what to do"),
    ],
)
def test_tokens_that_cannot_be(murmur, tmp_path, arguments, words) -> None:
    fill(tmp_path / "a.db", CAMPAIGN)
    assert words in murmur("token", *arguments, code=2)


def test_a_watched_status_is_in_a_log_at_each_look_and_ends_with_sigterm(tmp_path) -> None:
    fill(tmp_path / "a.db", CAMPAIGN, crowd(CAMPAIGN, 50, 1))
    log = tmp_path / "log"
    with log.open("w") as file:
        running = subprocess.Popen(
            [*command.COMMAND, "status", tmp_path / "a.db", "--watch"], stdout=file
        )
        for _ in range(200):
            if "they add up" in log.read_text():
                break
            time.sleep(0.1)
        running.terminate()
        assert running.wait(timeout=20) == 0
    assert "they add up" in log.read_text()


def test_status_and_model_name_only_the_sources_that_they_take(murmur) -> None:
    assert "murmur tally" not in murmur("status", "--help")
    assert "murmur tally" not in murmur("model", "--help")
    assert "murmur tally" in murmur("estimate", "--help")


def test_check_says_that_more_mistakes_may_follow(murmur, tmp_path) -> None:
    """Values and laws are looked at when the keys are right."""
    (tmp_path / "c.toml").write_text(CAMPAIGN.replace("name = ", "nmae = ", 1))
    assert "More mistakes may follow" in murmur("check", "c.toml", code=2)


def test_check_says_why_all_are_asked_alike(murmur, tmp_path) -> None:
    """One distribution, and shares no longer follow what is harder to estimate."""
    both = CAMPAIGN.partition("[[attributes]]")[0] + (
        "[[attributes]]\nname = 'a'\nlow = 0\nhigh = 9\n"
        "[[attributes]]\nname = 'b'\nkind = 'category'\nlabels = ['x', 'y', 'z', 'w']\n"
    )
    (tmp_path / "c.toml").write_text(both)
    assert "more people are asked what is harder" in " ".join(murmur("check", "c.toml").split())
    more = "[[attributes]]\nname = 'c'\nkind = 'distribution'\nlow = 0\nhigh = 1\nbins = 16\n"
    (tmp_path / "c.toml").write_text(both + more)
    assert "How often each is asked: all alike" in " ".join(murmur("check", "c.toml").split())
