"""Many devices from one file: each row has a key, and sends what that key alone would send."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import load as campaign_file
from murmuration.device.words import CrowdWords, DeviceWords
from murmuration.exact.keyed import SECRET_BYTES, Key
from murmuration.lab.fleet import keys_of, made
from murmuration.wire import report
from tests.support import collectors, command
from tests.support.vectors import CAMPAIGNS, KEYED

SECRET = Key(bytes(range(32)))
ORIGIN = "https://collector.example:443"
PEOPLE = 25


def row_key(row: int) -> Key:
    """Row i's key, as the page says it."""
    return Key(SECRET.name("row", row.to_bytes(8, "big")))


def alone(
    campaign: SurveyCampaign, words: DeviceWords, answers: dict, levels: Any, turn: str
) -> bytes:
    """What one device makes, by the contexts of `device.words` and nothing else."""
    rngs = words.spread([q.name for q in campaign.questions])
    columns = [q.encode([answers[q.name]], rngs[q.name]) for q in campaign.questions]
    parts = []
    for asked in campaign.asked(columns, words.which(turn), levels):
        law = campaign.frame.cells[asked.cell]
        written = law.domain.written(asked.values)[0].tobytes()
        rng = words.answer(asked.cell, written, turn)
        if law.memoised:
            kept = law.remember(asked.values, words.permanent(asked.cell, written))
            parts.append((asked, law.to_rows(law.repeat(kept, rng))))
        else:
            parts.append((asked, law.to_rows(law.privatize(asked.values, rng))))
    return words.report_id(turn) + campaign.frame.laid_out(parts).tobytes()


GOLDEN = KEYED / "reports.json"


def golden(name: str) -> list[dict[str, Any]]:
    """What some devices send, from their secret on: for every language."""
    campaign = campaign_file.load(CAMPAIGNS / f"{name}.toml", SurveyCampaign)
    people = json.loads((CAMPAIGNS / f"{name}.json").read_text())["people"]
    turn, found = "monday" if campaign.repeated else "", []
    for person in people:
        secret = Key(SECRET.name(name, str(person["word"]))).name("golden")
        words = DeviceWords(Key(secret), ORIGIN, campaign.digest)
        answers = {key: value for key, (value,) in person["answers"].items()}
        whole = alone(campaign, words, answers, person["levels"], turn)
        found.append(
            {
                **{"campaign": name, "origin": ORIGIN, "digest": campaign.digest, "round": turn},
                **{"answers": answers, "levels": person["levels"], "secret": secret.hex()},
                **{"id": whole[:16].hex(), "row": whole[16:].hex()},
            }
        )
    return found


GOLDEN_CAMPAIGNS = ("levels", "repeat", "sample", "split", "together")


def test_a_secret_makes_the_reports_that_it_always_made() -> None:
    """A device that is restored under a later release sends the same report, too."""
    wanted = json.loads(GOLDEN.read_text())
    assert [one for name in GOLDEN_CAMPAIGNS for one in golden(name)] == wanted
    assert golden("missing") == json.loads(GOLDEN.with_name("missing.json").read_text())


def crowd(campaign: SurveyCampaign) -> dict[str, list]:
    """Answers of some people, some of them outside the list or the range, some none."""
    draw = np.random.default_rng(3)
    given = {
        q.name: draw.choice([*q.labels, "none of these"], PEOPLE).tolist()
        if q.labels
        else draw.uniform(q.range[0] - 5, q.range[1] + 5, PEOPLE).tolist()
        for q in campaign.questions
    }
    for question in campaign.questions:
        if question.missing:
            given[question.name][::4] = [None] * len(given[question.name][::4])
    return given


@pytest.mark.parametrize("name", sorted(path.stem for path in CAMPAIGNS.glob("*.toml")))
def test_a_row_sends_what_its_key_alone_would(name: str) -> None:
    """Before, all rows drew from one generator: no row's report could be made again."""
    campaign = campaign_file.load(CAMPAIGNS / f"{name}.toml")
    answers, turn = crowd(campaign), "monday" if campaign.repeated else ""
    levels = None
    if campaign.levels is not None:
        shape = (PEOPLE, len(campaign.questions))
        levels = np.random.default_rng(4).integers(0, len(campaign.levels), shape)
    rows = 1000 + 7 * np.arange(PEOPLE)
    words = CrowdWords(keys_of(SECRET, rows), ORIGIN, campaign.digest)
    ids, sent = made(
        campaign, words, campaign.encode(answers, words.spread(list(answers))), levels, turn
    )
    for person, row in enumerate(rows.tolist()):
        own = {key: column[person] for key, column in answers.items()}
        level = None if levels is None else levels[person : person + 1]
        device = DeviceWords(row_key(row), ORIGIN, campaign.digest)
        wanted = alone(campaign, device, own, level, turn)
        assert ids[person].tobytes() + sent[person].tobytes() == wanted


def test_a_changed_answer_changes_neither_id_nor_what_is_asked() -> None:
    """Which attribute and the id follow from no answer: they could not tell that it changed."""
    campaign = campaign_file.load(CAMPAIGNS / "sample.toml")
    words = CrowdWords(keys_of(SECRET, np.arange(PEOPLE)), ORIGIN, campaign.digest)
    low = {q.name: [q.labels[0] if q.labels else q.range[0]] * PEOPLE for q in campaign.questions}
    high = {q.name: [q.labels[1] if q.labels else q.range[1]] * PEOPLE for q in campaign.questions}
    (ids, before), (again, after) = (
        made(campaign, words, campaign.encode(one, words.spread(list(one)))) for one in (low, high)
    )
    assert (ids == again).all()
    assert (before != after).any()
    for (cells, _), (others, _) in zip(
        campaign.frame.entries(before), campaign.frame.entries(after), strict=True
    ):
        assert (cells == others).all()


# --- the command ---------------------------------------------------------------------------------


def people(path: Path, n: int) -> None:
    with path.open("w", newline="") as file:
        rows = [["ios" if i % 3 else "android"] for i in range(n)]
        csv.writer(file).writerows([["phone"], *rows])


@pytest.mark.slow
def test_a_second_run_with_the_secret_sends_the_same_reports(tmp_path: Path) -> None:
    """Before, another run sent fresh noise on everybody's answer, as new devices."""
    people(tmp_path / "people.csv", 60)
    with collectors.running(tmp_path / "store.db", collectors.one("phones")) as collector:
        phones = collector.collection("phones")

        def send(*more: str) -> dict[str, Any]:
            done = command.murmur(
                *("send", phones.url, "people.csv", "--json", *more), folder=tmp_path
            )
            assert (tmp_path / "secret").read_text().strip() not in done.stdout + done.stderr
            found: dict[str, Any] = json.loads(done.stdout)
            return found

        (tmp_path / "secret").write_text(bytes(range(32)).hex())
        (tmp_path / "secret").chmod(0o600)
        campaign = campaign_file.parse(collectors.one("phones"))
        words = [
            DeviceWords(row_key(row), f"http://127.0.0.1:{collector.port}", campaign.digest)
            for row in range(10)
        ]
        bodies = [
            alone(campaign, one, {"phone": "ios" if row % 3 else "android"}, None, "")
            for row, one in enumerate(words)
        ]
        reports = np.frombuffer(b"".join(bodies), dtype=np.uint8).reshape(10, -1)
        body = report.to_binary(campaign.form, reports[:, :16].copy(), reports[:, 16:].copy())
        path = "/v1/campaigns/phones/reports"
        assert collector.ask("POST", path, body, {"content-type": report.BINARY}).status == 200
        first, second = send("--secret", "secret"), send("--secret", "secret")
        assert (first["stored"], first["duplicates"]) == (50, 10)
        assert (second["stored"], second["duplicates"]) == (0, 60)
        assert send()["stored"] == 60  # without it: new devices


def test_the_secret_is_made_once_and_kept_from_others(tmp_path: Path) -> None:
    people(tmp_path / "people.csv", 3)
    (tmp_path / "campaign.toml").write_text(collectors.one("phones"))
    url = f"http://127.0.0.1:{collectors.free_port()}/v1/campaigns/phones"
    to = ("send", "campaign.toml", "people.csv", "--to", url, "--secret", "secret")
    lost = command.murmur(*to, folder=tmp_path, code=3)  # nobody is there
    assert "sends the same reports" in lost.stdout
    secret = tmp_path / "secret"
    kept = secret.read_text()
    assert secret.stat().st_mode & 0o777 == 0o600
    assert len(bytes.fromhex(kept)) == SECRET_BYTES
    command.murmur(*to, folder=tmp_path, code=3)
    assert secret.read_text() == kept
    secret.chmod(0o640)
    assert "chmod 600" in command.murmur(*to, folder=tmp_path, code=2).problem
    secret.chmod(0o600)
    for text in ("", "00" * 31, "not a secret " + kept):
        secret.write_text(text)
        refused = command.murmur(*to, folder=tmp_path, code=2).problem
        assert "does not hold a secret" in refused
        assert kept.strip() not in refused
    secret.unlink()
    secret.symlink_to("elsewhere")
    assert "cannot be used" in command.murmur(*to, folder=tmp_path, code=2).problem
    assert not (tmp_path / "elsewhere").exists()
