"""A device in a training: one report in all rounds, whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest

from murmuration import Client, Ledger
from murmuration.device import ledger as one_ledger
from murmuration.device import training as device_training
from murmuration.device.misfits import Misfit
from murmuration.device.record import Record
from murmuration.device.sending import Patience
from murmuration.device.training import answers
from murmuration.device.words import CrowdWords, DeviceWords
from murmuration.errors import (
    AnswerError,
    BudgetError,
    MisfitWarning,
    MismatchError,
    NoRoundError,
    ParameterError,
    SendError,
)
from murmuration.exact.keyed import Key, Keys
from murmuration.exact.randomness import seeded_rng
from murmuration.lab.fleet import keys_of, made_for_round
from murmuration.training import round as rounds
from murmuration.training.algorithm.questions import Gain, Model
from murmuration.training.round import Round
from murmuration.wire import report
from tests.support.trainings import FILES, LOGISTIC, Rounds, each_round, people, trained

ANN = {"age": 44, "home": "own"}
ORIGIN = "https://collector.example:443"


@pytest.fixture
def collector():
    found = Rounds(trained())
    yield found
    found.close()


def client(collector: Rounds, folder: Path, ledger: str = "ledger.db", **options) -> Client:
    return Client(collector.url, folder / ledger, patience=Patience(attempts=1), **options)


def next_round(collector: Rounds) -> None:
    """Close the open round with nobody, and open the next one."""
    collector.open = collector.live.close(collector.live.round.frame.empty())


# --- the usual course --------------------------------------------------------------------------


def test_one_report_in_all_rounds(collector, tmp_path) -> None:
    one = client(collector, tmp_path)
    first = one.train(ANN, "yes")
    assert (first.outcome, first.new, first.epsilon) == ("stored", True, 1.0)
    next_round(collector)
    for features, target in ((ANN, "yes"), ({"age": 20, "home": "rent"}, "no")):
        again = client(collector, tmp_path).train(features, target)
        assert (again.report_id, again.outcome, again.new) == (first.report_id, "stored", False)
    assert len(collector.bodies) == 1
    assert one.ledger.spent() == 1.0
    (entry,) = one.ledger.entries()
    assert (entry.digest, entry.period) == (collector.campaign.digest, "")
    sent = json.loads(collector.bodies[0])
    assert sent["digest"] == collector.live.campaign.digest or sent["digest"]
    assert set(sent) == {"wire", "digest", "id", "entries"}


def test_a_training_is_not_answered_by_report_nor_a_campaign_by_train(collector, tmp_path) -> None:
    one = client(collector, tmp_path)
    with pytest.raises(ParameterError, match="train"):
        one.report({"age": 3})
    file = tmp_path / "c.toml"
    file.write_text(
        'name = "a"\npurpose = "b"\nepsilon = 1\n[[attributes]]\nname="x"\nlow=0\nhigh=1'
    )
    other = Client(file, tmp_path / "l2.db", send_to=collector.url)
    with pytest.raises(ParameterError, match="report"):
        other.train(ANN, "yes")


def test_no_round_charges_nothing(collector, tmp_path) -> None:
    collector.open = None
    one = client(collector, tmp_path)
    with pytest.raises(NoRoundError):
        one.train(ANN, "yes")
    assert one.ledger.entries() == []
    assert one.ledger.spent() == 0


@pytest.mark.parametrize(("status", "problem"), [(404, "unknown-campaign"), (503, "no-round")])
def test_another_problem_is_not_that_no_round_is_open(
    collector, tmp_path, monkeypatch, status: int, problem: str
) -> None:
    one, body = client(collector, tmp_path), json.dumps({"type": f"/problems/{problem}"}).encode()
    monkeypatch.setattr(collector, "get", lambda path: (status, body))
    with pytest.raises(SendError, match="no round from") as raised:
        one.train(ANN, "yes")
    assert not isinstance(raised.value, NoRoundError)
    assert one.ledger.entries() == []


@pytest.mark.parametrize("reason", ["stale-round", "round-full"])
def test_a_refused_report_has_left_the_charge_stays(collector, tmp_path, reason: str) -> None:
    collector.refuse = reason
    one = client(collector, tmp_path)
    assert one.train(ANN, "yes").outcome == f"refused:{reason}"
    collector.refuse = None
    next_round(collector)
    again = one.train(ANN, "yes")
    assert (again.outcome, again.new) == (f"refused:{reason}", False)
    assert (len(collector.bodies), one.ledger.spent()) == (1, 1.0)


def test_what_was_not_answered_is_sent_again_as_it_was(collector, tmp_path) -> None:
    collector.status = 500
    one = client(collector, tmp_path)
    with pytest.raises(SendError):
        one.train(ANN, "yes")
    collector.status = 200
    collector.refuse = "stale-round"
    next_round(collector)  # it left for the first round: it is that report for ever
    assert client(collector, tmp_path).train(ANN, "no").outcome == "refused:stale-round"
    assert collector.bodies[0] == collector.bodies[1]
    assert one.ledger.spent() == 1.0


def test_what_does_not_fit_is_told_to_the_app_and_never_sent(collector, tmp_path) -> None:
    one = client(collector, tmp_path)
    with pytest.warns(MisfitWarning, match="age: the answer is outside the range") as told:
        receipt = one.train({**ANN, "age": 1234567}, "yes")
    assert receipt.misfits == (Misfit("age", "outside"),)
    assert "1234567" not in str(told[0].message) + collector.bodies[0].decode()
    assert [row[2:] for row in one.ledger.misfits()] == [("age", "outside", 1)]
    strict = client(collector, tmp_path, "s.db", misfit="error", refuse_outside=True)
    with pytest.raises(AnswerError, match="age: the answer is outside the range"):
        strict.train({**ANN, "age": 1234567}, "yes")
    assert len(collector.bodies) == 1
    assert strict.ledger.spent() == 0


def test_limits_of_the_person(collector, tmp_path) -> None:
    with pytest.raises(BudgetError, match="report"):
        client(collector, tmp_path, per_report=0.5).train(ANN, "yes")
    with pytest.raises(BudgetError, match="lifetime"):
        client(collector, tmp_path, "other.db", lifetime=0.5).train(ANN, "yes")
    assert collector.bodies == []


def test_a_round_that_the_witness_does_not_show(collector, tmp_path) -> None:
    witness = Rounds(collector.campaign)
    try:
        ok = client(collector, tmp_path, witness=witness.url)
        next_round(collector)
        with pytest.raises(MismatchError, match="round 2"):
            ok.train(ANN, "yes")
        next_round(witness)
        assert ok.train(ANN, "yes").outcome == "stored"
        assert ok.ledger.spent() == 1.0
    finally:
        witness.close()


# --- killed at any point -----------------------------------------------------------------------

STOPS = ("draft", "reserved", "post")


class Killed(BaseException):
    """As by kill -9: nothing is caught or tidied up."""


def die(*_: object, **__: object) -> None:
    raise Killed


def stopped(one: Client, where: str, monkeypatch) -> None:
    """Let a device die at a place: its ledger has the draft, its record the report; it was sent."""
    if where == "draft":
        monkeypatch.setattr(one_ledger, "changing", between_commits)
    elif where == "reserved":
        monkeypatch.setattr(one, "_sent", die)
    else:
        monkeypatch.setattr("murmuration.device.client.deliver", _after())
    with pytest.raises(Killed):
        one.train(ANN, "yes")
    monkeypatch.undo()


@contextmanager
def between_commits(account, db):
    """The ledger commits, and the record does not."""
    account.execute("BEGIN IMMEDIATE")
    db.execute("BEGIN IMMEDIATE")
    yield
    db.execute("COMMIT")
    die()


def _after():
    """Send the bytes, then die before anybody has noted the answer."""
    from murmuration.device.sending import deliver as real

    def deliver(*arguments):
        real(*arguments)
        die()

    return deliver


@pytest.mark.parametrize("other_round", [False, True])
@pytest.mark.parametrize("where", STOPS)
def test_killed_at_any_point_there_is_never_a_second_answer(
    collector, tmp_path, monkeypatch, where: str, other_round: bool
) -> None:
    one = client(collector, tmp_path)
    stopped(one, where, monkeypatch)
    assert len(collector.bodies) == (where == "post")
    made = one.ledger.entries()
    assert [entry.outcome for entry in made] == ([] if where == "draft" else [None])
    assert one.ledger.spent() == (0.0 if where == "draft" else 1.0)
    if other_round:
        next_round(collector)
        collector.refuse = None if where == "draft" else "stale-round"
    # Other answers, by another process: what was reserved is what is sent.
    receipt = client(collector, tmp_path).train({"age": 90, "home": "rent"}, "no")
    assert receipt.new == (where == "draft")
    assert where == "draft" or collector.bodies[-1] == made[0].report
    assert len(set(collector.bodies)) == 1
    assert len(one.ledger.entries()) == 1
    assert one.ledger.spent() == 1.0


def test_what_was_not_reserved_has_cost_nothing(collector, tmp_path, monkeypatch) -> None:
    one = client(collector, tmp_path)
    stopped(one, "draft", monkeypatch)
    collector.open = None
    with pytest.raises(NoRoundError):
        client(collector, tmp_path).train(ANN, "yes")
    assert one.ledger.entries() == []
    assert one.ledger.spent() == 0


@pytest.mark.parametrize("where", STOPS)
def test_two_ledgers_of_one_key_have_one_answer(
    collector, tmp_path, monkeypatch, where: str
) -> None:
    """Also by another name of the key's file, and with an old copy of the ledger."""
    key = tmp_path / "person.key"
    stopped(client(collector, tmp_path, secret=key), where, monkeypatch)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "link.key"
    link.symlink_to(key)
    other = client(collector, tmp_path, "two.db", secret=link)
    with suppress(BudgetError):  # unless noise makes the same bytes of both answers
        other.train({"age": 90, "home": "rent"}, "no")
    with suppress(BudgetError):
        assert client(collector, tmp_path, secret=key).train(ANN, "yes").delivered
    assert len(set(collector.bodies)) == 1
    assert other.ledger.spent() == 1.0


def test_an_old_copy_of_the_ledger_brings_no_second_answer(collector, tmp_path) -> None:
    client(collector, tmp_path)  # makes the ledger
    copy = (tmp_path / "ledger.db").read_bytes()
    client(collector, tmp_path).train(ANN, "yes")
    (tmp_path / "ledger.db").write_bytes(copy)
    next_round(collector)
    with pytest.raises(BudgetError):
        client(collector, tmp_path).train({"age": 1, "home": "else"}, "no")
    assert len(collector.bodies) == 1


def test_a_real_kill_between_the_two_commits(collector, tmp_path) -> None:
    program = (
        "import os, sys\n"
        "from murmuration import Client\n"
        "from tests.training import test_train_device as tests\n"
        "client = Client(sys.argv[1], sys.argv[2])\n"
        "tests.die = lambda: os.kill(os.getpid(), 9)\n"
        "tests.one_ledger.changing = tests.between_commits\n"
        "client.train({'age': 44, 'home': 'own'}, 'yes')\n"
    )
    command = [sys.executable, "-c", program, collector.url, str(tmp_path / "ledger.db")]
    assert subprocess.run(command, env=os.environ, check=False, timeout=60).returncode == -9
    next_round(collector)
    assert client(collector, tmp_path).train(ANN, "yes").new
    assert (len(collector.bodies), Ledger(tmp_path / "ledger.db").spent()) == (1, 1.0)


# --- words -------------------------------------------------------------------------------------


def some_rounds(n: int = 3000) -> tuple[list, np.ndarray, np.ndarray]:
    campaign = trained()
    x, y = campaign.encode(*people(campaign, n), seeded_rng(1))
    return each_round(campaign, x, y, seeded_rng(2)), x, y


def test_many_devices_make_what_each_makes_alone() -> None:
    found, x, y = some_rounds()
    keys = keys_of(Key(bytes(32)), np.arange(40))
    for one in found[:: len(found) // 6]:
        ids, rows = made_for_round(one, keys, ORIGIN, x[:40], y[:40])
        for person in range(40):
            key = Key(Key(bytes(32)).name("row", person.to_bytes(8, "big")))
            words = DeviceWords(key, ORIGIN, one.digest)
            alone = answers(one, words, x[person : person + 1], y[person : person + 1])
            assert alone.tobytes() == rows[person].tobytes()
            name = DeviceWords(key, ORIGIN, one.campaign.digest).report_id("")
            assert name == ids[person].tobytes()


def check_role_is_public(one, making=answers) -> None:
    """The role of a device does not change with its answer."""
    keys = Keys(np.random.default_rng(3).integers(0, 256, (300, 32), dtype=np.uint8))
    words = CrowdWords(keys, ORIGIN, one.digest)
    low, high = np.full((300, one.campaign.width), -1.0), np.full((300, one.campaign.width), 1.0)
    first = making(one, words, low, np.full(300, -1.0))
    second = making(one, words, high, np.full(300, 1.0))
    assert first[:, 0].tolist() == second[:, 0].tolist()
    assert set(first[:, 0].tolist()) == set(range(len(one.questions)))


def check_same_bytes(one, x, y, making=answers) -> None:
    """Made again, a report is the same; another answer has other noise."""
    keys = keys_of(Key(bytes(32)), np.arange(len(x)))
    words = [CrowdWords(keys, ORIGIN, one.digest) for _ in range(3)]
    rows = making(one, words[0], x, y)
    assert rows.tobytes() == making(one, words[1], x, y).tobytes()
    assert rows.tobytes() != making(one, words[2], -x, -y).tobytes()


@pytest.mark.parametrize("kind", ["linear", "logistic", "svm"])
def test_gain_is_of_squares_in_every_training(kind: str) -> None:
    """As docs/wire.md has it, whatever the model is: other devices send the same bytes."""
    campaign = trained(FILES[kind])
    x, y = campaign.encode(*people(campaign, 50), seeded_rng(1))
    weights, level = np.full((2, 1, campaign.width), [[[0.0]], [[0.5]]]), np.array([0.25])
    without, model = (
        Model(w, level, np.zeros(campaign.width), np.ones(campaign.width)) for w in weights
    )
    gain = Gain(people=10, laws=campaign.law_of, without=without, model=model, half=2.0)
    made = Round.of(campaign, 1, [gain])
    (question,) = rounds.read(rounds.publish(made), campaign).questions
    scores = x.sum(axis=1) * 0.5 + 0.25
    squares = (0.25 - y) ** 2 - (scores - y) ** 2
    assert np.allclose(question.number(x, y), squares, rtol=1e-12, atol=1e-12)


def test_roles_are_public_and_reports_repeat() -> None:
    found, x, y = some_rounds()
    several = [one for one in found if len(one.questions) > 1]
    assert several
    for one in several:
        check_role_is_public(one)
        check_same_bytes(one, x[:50], y[:50])


def test_roles_are_drawn_by_their_shares() -> None:
    found, x, y = some_rounds()
    one = next(one for one in found if len(one.questions) > 1)
    keys = keys_of(Key(bytes(32)), np.arange(20_000))
    whole = np.resize(x, (20_000, x.shape[1])), np.resize(y, 20_000)
    rows = answers(one, CrowdWords(keys, ORIGIN, one.digest), *whole)
    counts = np.bincount(rows[:, 0], minlength=len(one.questions))
    shares = np.array(one.frame.strategy.shares(len(one.questions)))
    errors = np.sqrt(20_000 * shares * (1 - shares))
    assert (np.abs(counts - 20_000 * shares) < 4.5 * errors).all()


# --- planted bugs ------------------------------------------------------------------------------


def fresh(one, words, x, y):
    """Fresh noise at every try."""
    real = words._rng
    salt = os.urandom(8).hex()
    words = CrowdWords(words.keys, words.origin, words.digest + salt)
    del real
    return answers(one, words, x, y)


def by_answer(one, words, x, y):
    """The role follows from the answer."""
    role = int(y[0] > 0)
    rows = answers(one, words, x, y)
    rows[:, 0] = np.where(x[:, 0] > 0, role, rows[:, 0])
    return rows


def test_fresh_noise_on_a_retry_is_seen() -> None:
    found, x, y = some_rounds()
    with pytest.raises(AssertionError):
        check_same_bytes(found[0], x[:50], y[:50], fresh)


def test_a_role_drawn_from_the_answer_is_seen() -> None:
    found, _, _ = some_rounds()
    with pytest.raises(AssertionError):
        check_role_is_public(found[0], by_answer)


def test_a_device_that_reserves_nothing_is_seen(collector, tmp_path, monkeypatch) -> None:
    """A report that leaves unreserved would allow a second answer."""
    monkeypatch.setattr(Record, "reserve", lambda *_: 1.0)
    collector.status = 500
    with pytest.raises(SendError):
        client(collector, tmp_path).train(ANN, "yes")
    collector.status = 200
    next_round(collector)
    client(collector, tmp_path).train(ANN, "yes")
    assert len(set(collector.bodies)) == 2  # what the tests above would see


def test_reports_fit_the_wire() -> None:
    found, x, y = some_rounds()
    for one in found:
        ids, rows = made_for_round(
            one, keys_of(Key(bytes(32)), np.arange(20)), ORIGIN, x[:20], y[:20]
        )
        for body, kind in (
            (report.to_json(one.form, ids, rows), report.JSON),
            (report.to_binary(one.form, ids, rows), report.BINARY),
        ):
            upload = report.read(one.form, body, kind)
            assert not upload.problems.any()
            assert upload.rows.tobytes() == rows.tobytes()


def test_the_open_round_is_what_a_device_reads(collector) -> None:
    data = rounds.publish(collector.open)
    assert rounds.read(data, collector.campaign).digest == collector.open.digest
    assert device_training.answers is answers
    assert "typical" in LOGISTIC
