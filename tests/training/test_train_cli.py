"""`murmur train` and `murmur model`: a training from a file, over real HTTP, to a model in hand."""

from __future__ import annotations

import csv
import io
import json
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import murmuration
from murmuration.cli import train
from murmuration.collector.publish import serve
from murmuration.collector.store import open_store, rounds
from murmuration.errors import ParameterError
from murmuration.sources.onnx_file import written
from murmuration.sources.open import open_source
from tests.support.collectors import Collector, running
from tests.support.command import murmur
from tests.support.training_cases import LOANS, loans

ROWS = 6_100
LINEAR = LOANS.replace('model = "logistic"', 'model = "linear"').replace(
    'kind = "category"\nlabels = ["no", "yes"]', 'low = 0\nhigh = 1000\nunit = "EUR"'
)


def people(path: Path, rows: int = ROWS, number: bool = False) -> Path:
    """A file of people; the target is a label, or a number."""
    rng = np.random.default_rng(4)
    age, home = rng.uniform(18, 98, rows).round(2), rng.choice(["rent", "own"], rows)
    score = (age - 58) / 20 + (home == "own") - 0.5
    paid = np.where(score + rng.logistic(size=rows) > 0, "yes", "no")
    if number:
        paid = np.clip(500 + 100 * score + rng.normal(0, 30, rows), 0, 1000).round(1)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["age", "home", "paid"])
        out.writerows(zip(age, home, paid, strict=True))
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that is over: its files and its store."""
    found = tmp_path_factory.mktemp("train")
    (found / "loans.toml").write_text(LOANS)
    people(found / "people.csv")
    done = murmur(
        "train", "loans.toml", "--devices", "people.csv", "--json", "--port", "0", folder=found
    )
    (found / "out.json").write_text(done.stdout)
    return found


def table(folder: Path) -> dict[str, list[Any]]:
    with (folder / "people.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {"age": [float(row["age"]) for row in rows], "home": [row["home"] for row in rows]}


@pytest.mark.slow
def test_a_file_becomes_a_model(folder: Path) -> None:
    found = json.loads((folder / "out.json").read_text())
    assert found["over"]
    assert (found["rounds"], found["refused"], found["unsent"]) == (11, {}, 0)
    assert found["stored"] == found["model"]["people"] == ROWS - found["left"]
    assert found["simulation"]
    shown = murmur("model", "loans.db", "--json", folder=folder)
    assert json.loads(shown.stdout) == found["model"]
    assert [one["name"] for one in found["model"]["coefficients"]] == ["age", "home=rent"]
    text = murmur("model", "loans.db", folder=folder)
    for word in ("noise alone", "private test score", "learning curve", "'yes'"):
        assert word in text.stdout
    status = murmur("status", "loans.db", folder=folder)
    assert "training is over" in status.stdout
    again = murmur("train", "loans.toml", "--devices", "people.csv", folder=folder, code=2)
    assert "it is over" in again.problem


@pytest.mark.slow
@pytest.mark.parametrize("command", [("estimate", "loans.db"), ("export", "loans.db", "x.parquet")])
def test_what_a_training_has_not_is_said_in_words(folder: Path, command: tuple[str, ...]) -> None:
    done = murmur(*command, folder=folder, code=2)
    assert "trains a model" in done.problem
    assert "Traceback" not in done.problem


@pytest.mark.slow
def test_an_estimator_predicts_from_raw_tables(folder: Path) -> None:
    opened = murmuration.open(folder / "loans.db")
    found, model, raw = opened.trained(), opened.model(), table(folder)
    scores = np.full(len(raw["age"]), found.intercept)
    values = {one.name: one.value for one in found.coefficients}
    scores += values["age"] * np.array(raw["age"])
    scores += values["home=rent"] * (np.array(raw["home"]) == "rent")
    assert np.allclose(model.decision_function(raw), scores)
    assert model.predict(raw).tolist() == np.where(scores > 0, "yes", "no").tolist()
    assert list(model.classes_) == ["no", "yes"]
    rows = {row["name"]: row for row in model.coefficients()}
    assert rows["age"]["value"] == pytest.approx(values["age"])
    assert rows["age"]["stderr"] == pytest.approx(found.coefficients[0].stderr)
    assert model.score_.value == found.score.value  # type: ignore[union-attr]
    with pytest.warns(UserWarning, match="moved to its end: age 1 of 1"):
        beyond = model.predict_proba({"age": [200.0], "home": ["own"]})
    assert beyond.tolist() == model.predict_proba({"age": [98.0], "home": ["own"]}).tolist()


@pytest.mark.slow
def test_an_onnx_file_says_the_same(folder: Path, tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    place = tmp_path / "model.onnx"
    murmur("model", "loans.db", "--out", str(place), folder=folder)
    onnx.checker.check_model(onnx.load(place))
    raw, model = table(folder), murmuration.open(folder / "loans.db").model()
    given = {
        "age": np.array(raw["age"])[:, None],
        "home": np.array(raw["home"], dtype=object)[:, None],
    }
    label, score, chance = ReferenceEvaluator(str(place)).run(
        ["label", "score", "probability"], given
    )
    assert np.allclose(score[:, 0], model.decision_function(raw))
    assert np.allclose(chance[:, 0], model.predict_proba(raw)[:, 1])
    assert label[:, 0].tolist() == model.predict(raw).tolist()


@pytest.mark.slow
def test_files_by_their_ending(folder: Path, tmp_path: Path) -> None:
    murmur("model", "loans.db", "--out", str(tmp_path / "m.csv"), folder=folder)
    rows = list(csv.DictReader(io.StringIO((tmp_path / "m.csv").read_text())))
    assert [row["name"] for row in rows] == ["intercept", "age", "home=rent"]
    murmur("model", "loans.db", "--out", str(tmp_path / "m.json"), folder=folder)
    assert json.loads((tmp_path / "m.json").read_text())["rounds"] == 11
    wrong = murmur("model", "loans.db", "--out", str(tmp_path / "m.pickle"), folder=folder, code=2)
    assert ".onnx" in wrong.problem


@pytest.mark.slow
def test_a_linear_model_in_euros(tmp_path: Path) -> None:
    """At a collector that is there, with tokens, from another process; the target is a number."""
    (tmp_path / "loans.toml").write_text(LINEAR)
    people(tmp_path / "people.csv", number=True)
    with running(tmp_path / "store.db", LINEAR, measured=False) as collector:
        url = f"http://127.0.0.1:{collector.port}"
        args = ("train", "loans.toml", "--devices", "people.csv", "--collector", url)
        done = murmur(*args, "--secret", "key", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["model"] is None  # no token: only devices' part is open
        refused = murmur("model", url, folder=tmp_path, code=2)
        assert "MURMUR_TOKEN" in refused.problem
        token = {"MURMUR_TOKEN": collector.token("analyst")}
        shown = murmur("model", url, "--json", folder=tmp_path, environment=token)
        found = json.loads(shown.stdout)
        estimate = murmur("estimate", url, folder=tmp_path, environment=token, code=2)
        assert "trains a model" in estimate.problem
        model = murmuration.open(url, token=token["MURMUR_TOKEN"]).model()
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert found["labels"] == []
    assert found["score"]["unit"] == "EUR²"
    age, rent = (one["value"] for one in found["coefficients"])  # which noise may have made
    told = model.predict({"age": [90.0, 30.0], "home": ["own", "rent"]})
    assert told.tolist() == pytest.approx(
        [found["intercept"] + 90 * age, found["intercept"] + 30 * age + rent]
    )


@pytest.mark.parametrize("scheme", ["", "sqlite:///"])
def test_a_training_that_is_over_is_not_begun_again_however_its_store_is_named(
    tmp_path: Path, scheme: str
) -> None:
    with closing(open_store(tmp_path / "x.db")) as store:
        rounds.finish(store, serve(store, loans()).key, b"{}")
    collector = train._collector(loans(), tmp_path / "no", "", f"{scheme}{tmp_path / 'x.db'}", 0)
    with pytest.raises(ParameterError, match="it is over"), collector:
        pass


@pytest.mark.parametrize(
    ("unsent", "said"), [(70, "70 reports could not be sent, and 900 devices"), (0, "nobody is")]
)
def test_why_a_training_is_not_over(unsent: int, said: str) -> None:
    sent = SimpleNamespace(stored=30, duplicates=0, refused={}, problem="", unsent=unsent)
    trainees: Any = SimpleNamespace(sent=sent, rounds=1, left=900 if unsent else 0)
    people: Any = SimpleNamespace(skipped=0)
    assert said in train._words(loans(), trainees, people, False, None)[-1]


def test_too_few_devices_are_said_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "loans.toml").write_text(LOANS)
    people(tmp_path / "people.csv", 500)
    done = murmur(
        "train", "loans.toml", "--devices", "people.csv", "--port", "0", folder=tmp_path, code=2
    )
    assert "people = 500" in done.problem
    assert "Traceback" not in done.problem


def test_values_that_do_not_fit_are_counted_first(tmp_path: Path) -> None:
    (tmp_path / "loans.toml").write_text(LOANS)
    place = people(tmp_path / "people.csv", 200)
    place.write_text(place.read_text().replace("rent", "hire"))
    done = murmur("train", "loans.toml", "--devices", "people.csv", folder=tmp_path, code=2)
    assert "do not fit: home" in done.problem
    assert not (tmp_path / "loans.db").exists()


def test_a_training_that_goes_on_has_no_model(going: Collector, tmp_path: Path) -> None:
    done = murmur("model", going.store, folder=tmp_path, code=2)
    assert "training goes on" in done.problem
    with (
        closing(open_source(f"http://127.0.0.1:{going.port}", "", going.admin)) as source,
        pytest.raises(ParameterError, match="training goes on"),
    ):
        source.model()
    assert "training goes on" in murmur("status", going.store, folder=tmp_path).stdout


@pytest.fixture(scope="module")
def going(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with running(tmp_path_factory.mktemp("going") / "store.db", LOANS) as found:
        yield found


def test_an_ordinary_campaign_is_not_trained(tmp_path: Path) -> None:
    from tests.support.accounts import COMMUTE

    (tmp_path / "c.toml").write_text(COMMUTE)
    done = murmur("train", "c.toml", "--devices", "c.toml", folder=tmp_path, code=2)
    assert "murmur send" in done.problem


def test_onnx_is_an_extra(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    from murmuration.sources import onnx_file

    def gone(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(onnx_file, "import_module", gone)
    with pytest.raises(ParameterError, match=r"murmuration-ldp\[onnx\]"):
        written(loans(), murmuration.open(folder / "loans.db").trained())
