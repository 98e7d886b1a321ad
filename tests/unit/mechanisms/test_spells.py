"""Devices in a campaign with spells, and numbers that come back: what is sent, kept and charged."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import shutil
import sqlite3
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import murmuration.device.client as device_client
import murmuration.device.survey as device_survey
import murmuration.device.words as device_words
from murmuration.campaign.survey import SurveyCampaign
from murmuration.cli import app
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.device import Client, Ledger
from murmuration.device.record import Record
from murmuration.device.secret import SecretBytes
from murmuration.device.words import CrowdWords
from murmuration.errors import BudgetError, CampaignError, FormatError, ParameterError, SendError
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import SpellStarts, keys_of, made
from murmuration.mechanisms.frame import Asked
from murmuration.mechanisms.number.memoised_bit import MemoisedBit
from murmuration.planning.longitudinal import InSpells
from tests.unit.mechanisms.test_longitudinal import bit_said, in_spells, sequences

NOBODY = "http://127.0.0.1:9/v1/campaigns/weekly"
FIRST = datetime(2026, 11, 16, 12, tzinfo=UTC)
HEAD = """
name = "weekly"
purpose = "The same every week."
epsilon = 1.0
cohort = 100
strategy = "split"
"""
SPELLS = """
[repeat]
permanent = 2.0
rounds = 12
every = "week"
law = "spells"
changes = 2
first = 2026-11-16
"""
PERMANENT = """
[repeat]
permanent = 2.0
rounds = 12
every = "week"
"""
ATTRIBUTES = """
[[attributes]]
name = "hours"
kind = "number"
low = 0
high = 24

[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "so-so", "bad"]
"""
MOODS = ["good", "so-so", "bad"]


def campaign_of(text: str) -> SurveyCampaign:
    return campaign_file.read(text).campaign


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A device's clock that tests set: in the middle of a week."""
    weeks = {"now": 0}
    monkeypatch.setattr(
        device_client, "utc_now", lambda: FIRST + timedelta(weeks=weeks["now"], days=2)
    )
    return weeks


class Person:
    """A device whose collector never answers: what it would send stays in its ledger."""

    def __init__(self, folder: Path, clock: dict[str, int], text: str = HEAD + SPELLS + ATTRIBUTES):
        self.folder, self.clock = folder, clock
        self.file = folder / "weekly.toml"
        self.file.write_text(text)
        self.path = folder / "ledger.db"
        self.key = bytes(range(32))
        self.record = Path(f"{self.path}.record")
        ledger = self.ledger
        for name in ("report", "collector", "lifetime"):
            ledger.raise_limit(name, math.inf)

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.path, secret=self.key)

    def client(self) -> Client:
        return Client(self.file, self.path, send_to=NOBODY, secret=self.key)

    def says(self, week: int, **answers: Any) -> bytes:
        """The bytes of a week's report."""
        self.clock["now"] = week
        client = self.client()
        with pytest.raises(SendError):
            client.report(answers)
        known = client.ledger.find(
            "http://127.0.0.1:9", client.campaign.digest, client._occasion("")
        )
        assert known is not None
        assert known.report is not None
        return known.report

    def spent(self) -> float:
        return self.ledger.spent()


@pytest.fixture
def person(tmp_path: Path, clock: dict[str, int]) -> Person:
    return Person(tmp_path, clock)


# --- what is sent ---------------------------------------------------------------------------------


def life(folder: Path, clock: dict[str, int], history: list[tuple[float, str]]) -> list[bytes]:
    folder.mkdir()
    person = Person(folder, clock)
    return [person.says(week, hours=x, mood=mood) for week, (x, mood) in enumerate(history)]


def test_only_what_a_spell_begins_with_decides(tmp_path: Path, clock: dict[str, int]) -> None:
    """Two histories that agree where spells begin make the same reports, byte for byte."""
    rng = np.random.default_rng(4)
    one = [(float(rng.uniform(0, 24)), MOODS[rng.integers(3)]) for _ in range(9)]
    other = [
        one[week] if week % 4 == 0 else (float(rng.uniform(0, 24)), MOODS[rng.integers(3)])
        for week in range(9)
    ]
    assert one != other
    assert life(tmp_path / "a", clock, one) == life(tmp_path / "b", clock, other)


def test_all_periods_cost_the_spells_and_nothing_else(person: Person) -> None:
    spent = []
    for week in range(12):
        person.says(week, hours=24.0 * (week % 2), mood=MOODS[week % 3])
        spent.append(person.spent())
    assert spent == [4.0] * 4 + [8.0] * 4 + [12.0] * 4
    assert person.client().campaign.limit == 12.0


def test_no_report_before_the_first_period_or_after_the_last(person: Person) -> None:
    for week in (-1, 12):
        person.clock["now"] = week
        with pytest.raises(ParameterError, match="takes no reports"):
            person.client().report({"hours": 1.0, "mood": "bad"})
    assert person.spent() == 0
    with pytest.raises(ParameterError, match="runs from 2026-W47 to 2027-W05"):
        person.client().campaign.spell_of(0)


def test_a_level_or_attribute_that_is_asked_later_begins_later(tmp_path, clock) -> None:
    """With one of two attributes asked, each begins its spell when it is first asked."""
    text = (HEAD + SPELLS + ATTRIBUTES).replace('"split"', '"sample"')
    person = Person(tmp_path, clock, text)
    asked = [
        json.loads(person.says(week, hours=3.0, mood="bad"))["entries"][0][0] for week in range(4)
    ]
    assert set(asked) == {0, 1}, "the secret is fixed: both are asked in the first spell"
    assert person.spent() == 4.0


# --- restores, retries and races ------------------------------------------------------------------


def again(person: Person, **answers: Any) -> bytes:
    """The report of this week, once more."""
    return person.says(person.clock["now"], **answers)


def copies(person: Person, to: str) -> None:
    for path in (person.path, person.record):
        shutil.copy2(path, person.folder / f"{to}-{path.name}")


def back(person: Person, to: str, *paths: Path) -> None:
    for path in paths:
        shutil.copy2(person.folder / f"{to}-{path.name}", path)


@pytest.mark.parametrize("begun", [False, True])
def test_a_restore_proves_no_change(person: Person, begun: bool) -> None:
    """An older ledger makes the same bytes, though the value has changed."""
    if begun:
        person.says(0, hours=2.0, mood="good")
    copies(person, "old")
    person.says(1, hours=2.0, mood="good")
    before, spent = again(person, hours=2.0, mood="good"), person.spent()
    back(person, "old", person.path)
    for hours, mood in itertools.product((2.0, 23.0), MOODS):
        assert again(person, hours=hours, mood=mood) == before
    assert person.spent() == spent


def test_a_retry_is_the_same_whatever_the_value_is(person: Person) -> None:
    first = person.says(0, hours=2.0, mood="good")
    assert again(person, hours=20.0, mood="bad") == first
    assert len(person.client().ledger.pending()) == 1


def test_the_next_spell_is_drawn_anew(tmp_path: Path, clock: dict[str, int]) -> None:
    """With the same value, permanent answers of two spells differ for some of 40 devices."""
    words = [
        device_words.DeviceWords(Key(bytes([who] * 32)), "https://c.example:443", "d1")
        for who in range(40)
    ]
    law = campaign_of(HEAD + SPELLS + ATTRIBUTES).frame.cells[1]
    item = np.array([1])
    kept = [
        [int(law.remember(item, one.permanent(1, b"\x01", spell))[0]) for spell in (None, 0, 1, 2)]
        for one in words
    ]
    columns = np.array(kept).T
    assert len({tuple(column) for column in columns.tolist()}) == 4


def test_two_ledgers_that_begin_a_spell_at_once_rest_on_one_answer(person, monkeypatch) -> None:
    """While one draws, the other waits: then it draws with what the first one has kept."""
    drawing, drawn = threading.Event(), []
    real = device_survey.remembered

    def slowly(*given: Any) -> Any:
        drawing.set()
        time.sleep(0.2)
        drawn.append(given)
        return real(*given)

    def other() -> None:
        drawing.wait()
        client = Client(
            *(person.file, person.folder / "other.db"), send_to=NOBODY, secret=person.key
        )
        with pytest.raises(SendError):
            client.report({"hours": 24.0, "mood": "bad"})

    # Two ledgers of one key: its record lies beside the first.
    monkeypatch.setattr(SecretBytes, "record", property(lambda secret: person.record))
    monkeypatch.setattr(device_survey, "remembered", slowly)
    thread = threading.Thread(target=other)
    thread.start()
    first = person.says(0, hours=0.0, mood="good")
    thread.join()
    assert len(drawn) == 2  # one for each attribute
    (sent,) = Ledger(person.folder / "other.db", secret=person.key).pending()
    assert sent.report == first


def test_two_copies_of_a_record_show_no_change(person: Person) -> None:
    """Restored to before a spell began, with another value: other masks, also of one answer."""
    person.says(0, hours=2.0, mood="good")
    copies(person, "old")
    found = []
    for mood in ("good", "good", "bad"):
        back(person, "old", person.path, person.record)
        person.says(4, hours=2.0, mood=mood)
        with contextlib.closing(sqlite3.connect(person.record)) as db:
            found.append(dict(db.execute("SELECT name, answer FROM kept").fetchall()))
    assert len({frozenset(kept) for kept in found}) == 1  # the same names
    new = set(found[0]) - {name for name in found[0] if found[0][name] == found[1][name]}
    assert len(new) == 2
    for name in new:
        assert len({kept[name][-8:] for kept in found}) == 3


def test_what_is_kept_tells_nothing_without_the_key(tmp_path: Path, clock: dict[str, int]) -> None:
    """The bytes in the ledger look random: over 200 devices with one answer, none is frequent."""
    law = campaign_of(HEAD + SPELLS + ATTRIBUTES).frame.cells[1]
    hidden = []
    for who in range(200):
        words = device_words.DeviceWords(
            Key(who.to_bytes(32, "big")), "https://c.example:443", "d1"
        )
        answer = law.remember(np.array([1]), words.permanent(1, b"\x01", 0))
        octets = device_words.as_octets(answer).tobytes()
        masked = words.hidden(1, 0, octets)
        assert words.shown(1, 0, masked) == octets
        hidden.append(masked[-8:])
    assert len(set(hidden)) == 200
    assert max(np.bincount([one[0] for one in hidden], minlength=256)) < 8


# --- what the crowd sends is the law --------------------------------------------------------------


def crowd(campaign: SurveyCampaign, people: int, columns: list[list[np.ndarray]]) -> np.ndarray:
    """The symbols that devices send on the only attribute, a column for each week."""
    keys = keys_of(Key(bytes(32)), np.arange(people))
    words = CrowdWords(keys, "https://c.example:443", campaign.digest)
    first = campaign.period_named("2026-11-16")
    sent = []
    for week, column in enumerate(columns):
        _, rows = made(campaign, words, column, turn=campaign.name_of(first + week))
        sent.append(rows[:, -1])
    return np.stack(sent, axis=1)


def far_off(sent: np.ndarray, chances: list[float]) -> float:
    """The chi-square of sequences of bits against the law, in standard deviations."""
    weeks = sent.shape[1]
    number = (sent.astype(int) @ (1 << np.arange(weeks)[::-1])).astype(int)
    expected = np.array(chances) * len(sent)
    square = float(((np.bincount(number, minlength=2**weeks) - expected) ** 2 / expected).sum())
    free = 2**weeks - 1
    return (square - free) / math.sqrt(2 * free)


TWO = '[[attributes]]\nname = "mood"\nkind = "category"\nlabels = ["good", "bad"]\n'
HOURS = '[[attributes]]\nname = "hours"\nkind = "number"\nlow = -1\nhigh = 1\n'
SHORT = SPELLS.replace("rounds = 12", "rounds = 4").replace("changes = 2", "changes = 1")
PEOPLE = 8_000


def spells_of_two(values: tuple[int, ...]) -> tuple[np.ndarray, list[float]]:
    campaign = campaign_of(HEAD + SHORT + TWO)
    begun = [values[week // 2 * 2] for week in range(4)]
    sent = crowd(campaign, PEOPLE, [[np.full(PEOPLE, value)] for value in begun])
    law = campaign.frame.cells[0]
    return sent, [float(in_spells(law, values, reports, 2)) for reports in sequences(2, 4)]


@pytest.mark.parametrize("values", [(0, 0, 0, 0), (0, 1, 1, 0)])
def test_reports_in_spells_are_what_was_enumerated(values: tuple[int, ...]) -> None:
    assert abs(far_off(*spells_of_two(values))) < 4


def numbers_of(values: tuple[float, ...]) -> tuple[np.ndarray, list[float]]:
    campaign = campaign_of(HEAD + PERMANENT + HOURS)
    sent = crowd(campaign, PEOPLE, [[np.full(PEOPLE, value)] for value in values])
    law = campaign.frame.cells[0]
    return sent, [
        float(bit_said(law.bits, values, reports)) for reports in sequences(2, len(values))
    ]


@pytest.mark.parametrize("values", [(0.5, 0.5, 0.5), (-0.5, 0.25, 1.0)])
def test_reports_about_a_number_are_what_was_enumerated(values: tuple[float, ...]) -> None:
    assert abs(far_off(*numbers_of(values))) < 4


# --- planted bugs ---------------------------------------------------------------------------------


def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """The permanent answer is drawn anew in each period."""
    real = device_words.CrowdWords.permanent
    calls = itertools.count()
    monkeypatch.setattr(
        device_words.CrowdWords,
        "permanent",
        lambda words, cell, written, spell=None: real(words, cell, written, 1000 + next(calls)),
    )


def test_an_answer_that_is_drawn_anew_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    anew(monkeypatch)
    assert far_off(*spells_of_two((0, 0, 0, 0))) > 20
    assert far_off(*numbers_of((0.5, 0.5, 0.5))) > 20


def test_noise_that_follows_the_value_is_seen(person: Person, monkeypatch) -> None:
    """Other bytes for another value: the key's record refuses them, and silence proves a change."""
    real = device_words.answered

    def planted(asked: Any, law: Any, words: Any, turn: str, kept: Any, spell: Any) -> Any:
        written = law.domain.written(law.domain.checked(asked.values))
        return law.to_rows(law.repeat(kept, words.answer(asked.cell, written, turn)))

    def bytes_of(mood: str) -> bytes | None:
        back(person, "old", person.path)
        with contextlib.suppress(BudgetError):
            return again(person, hours=2.0, mood=mood)
        return None

    person.says(0, hours=2.0, mood="good")
    copies(person, "old")
    person.clock["now"] = 1
    monkeypatch.setattr(device_survey, "answered", planted)
    assert len({bytes_of(mood) for mood in MOODS}) > 1
    monkeypatch.setattr(device_survey, "answered", real)
    assert len({bytes_of(mood) for mood in MOODS}) == 1


def test_a_permanent_answer_that_follows_the_present_value_is_seen(person, monkeypatch) -> None:
    """Without what is kept, a device would go over to the new value in the middle of a spell."""
    moods = {}
    for blind in (False, True):
        folder = person.folder / str(blind)
        folder.mkdir()
        if blind:
            monkeypatch.setattr(Record, "kept", lambda record, name: None)
            monkeypatch.setattr(Record, "_unpaid", lambda *_: [])
        moods[blind] = [
            life(folder / mood, person.clock, [(1.0, "good"), (1.0, mood), (1.0, mood)])
            for mood in MOODS
        ]
    assert len({tuple(one) for one in moods[False]}) == 1
    assert len({tuple(one) for one in moods[True]}) > 1


def test_fresh_noise_on_a_retry_is_seen(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    first = person.says(0, hours=2.0, mood="good")
    copies(person, "old")
    calls = itertools.count()
    real = device_words.DeviceWords.answer
    monkeypatch.setattr(
        device_words.DeviceWords,
        "answer",
        lambda words, cell, said, turn: real(words, cell, said, f"{turn} {next(calls)}"),
    )
    assert again(person, hours=2.0, mood="good") == first  # the ledger has it
    refused = 0
    for _ in range(12):
        Path(person.path).unlink()
        try:
            assert again_from_key(person) == first
        except BudgetError:
            refused += 1
    assert refused
    monkeypatch.setattr(device_words.DeviceWords, "answer", real)
    Path(person.path).unlink()
    assert again_from_key(person) == first


def again_from_key(person: Person) -> bytes:
    """The report of a device whose ledger is gone, and its key is not."""
    Person(person.folder, person.clock)
    return again(person, hours=2.0, mood="good")


# --- numbers without spells -----------------------------------------------------------------------


def test_a_number_is_charged_once_whatever_its_values(
    tmp_path: Path, clock: dict[str, int]
) -> None:
    person = Person(tmp_path, clock, HEAD + PERMANENT + HOURS)
    for week in range(12):
        person.says(week, hours=math.sin(week))
    assert person.spent() == 2.0
    assert person.client().campaign.limit == 2.0


def test_near_values_make_the_same_report(tmp_path: Path, clock: dict[str, int]) -> None:
    """Made again after a restore, a number on the same side of the threshold sends the same."""
    person = Person(tmp_path, clock, HEAD + "lifetime = 8.0\n" + PERMANENT + HOURS)
    copies(person, "old")
    first = person.says(0, hours=-1.0)
    found = set()
    for hours in (-1.0, -0.999, -0.9985):
        back(person, "old", person.path)
        found.add(again(person, hours=hours))
    assert found == {first}


# --- files and documents --------------------------------------------------------------------------

WRONG = {
    "without periods": (SPELLS.replace('every = "week"\n', ""), "spells are of so many periods"),
    "no changes": (SPELLS.replace("changes = 2\n", ""), "changes, how many are allowed for"),
    "too many changes": (SPELLS.replace("changes = 2", "changes = 12"), "is 1 to 11 here"),
    "no first": (SPELLS.replace("first = 2026-11-16\n", ""), "first, a day of the first period"),
    "values": (SPELLS + "values = 2\n", "one permanent answer, whatever the values"),
    "changes alone": (PERMANENT + "changes = 2\n", 'say law = "spells"'),
    "first alone": (PERMANENT + "first = 2026-11-16\n", 'say law = "spells"'),
    "another law": (PERMANENT + 'law = "spels"\n', "spells is meant?"),
}


WRONG["levels"] = (SPELLS + "[levels]\nhigh = 0.5\nlow = 1\n", "spells take no levels")


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_said(name: str) -> None:
    repeat, message = WRONG[name]
    with pytest.raises(CampaignError) as found:
        campaign_of(HEAD + repeat + ATTRIBUTES)
    texts = [str(one) for one in (found.value, *found.value.also)]
    assert any(message in text for text in texts), texts


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (HOURS + "missing = true\n", "cannot be missing"),
        (HOURS.replace('"number"', '"distribution"'), "a category or a number"),
        (HOURS + 'mechanism = "duchi"\n', "answered by memoised-bit"),
    ],
)
def test_what_no_permanent_answer_is_for(attribute: str, message: str) -> None:
    with pytest.raises(CampaignError, match=message):
        campaign_of(HEAD + PERMANENT + attribute)
    with pytest.raises(CampaignError, match=r"it needs \[repeat\]"):
        campaign_of(HEAD + HOURS + 'mechanism = "memoised-bit"\n')


def test_a_published_campaign_has_its_spells() -> None:
    campaign = campaign_of(HEAD + SPELLS + ATTRIBUTES)
    data = campaign_document.publish(campaign)
    assert campaign_document.read(data) == campaign
    text = json.loads(campaign.text)
    assert (text["first"], text["spell"], text["rounds"]) == (2968, 4, 12)
    plain = json.loads(campaign_of(HEAD + PERMANENT + ATTRIBUTES).text)
    assert not {"first", "spell"} & set(plain)


@pytest.mark.parametrize(
    "change",
    [{"first": None}, {"spell": None}, {"spell": 0}, {"spell": 13}, {"first": -1}, {"every": None}],
)
def test_half_a_spell_is_refused(change: dict[str, Any]) -> None:
    campaign = campaign_of(HEAD + SPELLS + ATTRIBUTES)
    document = json.loads(campaign_document.publish(campaign))
    collection = {**json.loads(document["collection"]), **change}
    collection = {key: value for key, value in collection.items() if value is not None}
    document["collection"] = json.dumps(collection, separators=(",", ":"))
    document["digest"] = hashlib.sha256(document["collection"].encode()).hexdigest()
    with pytest.raises(FormatError, match="cannot be used"):
        campaign_document.read(json.dumps(document).encode())


def test_running_out_is_no_matter_of_values(person: Person) -> None:
    """A device takes part if its limits hold all spells, and else in none of them."""
    person.ledger.set_limit("lifetime", 11.9)
    with pytest.raises(BudgetError, match="set aside"):
        person.client().report({"hours": 1.0, "mood": "bad"})
    person.ledger.raise_limit("lifetime", 12.0)
    for week in range(12):
        person.says(week, hours=2.0 * week, mood=MOODS[week % 3])
        assert person.ledger.remaining() == 0.0
    assert person.spent() == 12.0


def test_without_budget_no_answer_is_what_a_spell_begins_with(tmp_path, clock) -> None:
    """Where answers may be missing, a device goes on: free, and the same until the spell ends."""
    mood = ATTRIBUTES[ATTRIBUTES.rindex("[[") :] + "missing = true\n"
    person = Person(tmp_path, clock, HEAD + SPELLS + mood)
    person.ledger.set_limit("lifetime", 5.9)  # three spells cost 6
    said = {person.says(week, mood="bad") for week in range(2)}
    assert person.spent() == person.ledger.spent() == 0.0
    assert person.ledger.remaining() == 5.9  # nothing is set aside
    person.ledger.raise_limit("lifetime", 6.0)
    answers = {person.says(week, mood="bad") for week in range(2, 6)}
    assert len(said | answers) == 6
    assert kept_answers(person) == [drawn(person, 3, 0), drawn(person, 2, 1)]
    assert person.spent() == 2.0
    assert person.ledger.remaining() == 0.0


def kept_answers(person: Person) -> list[int]:
    """What the first two spells began with."""
    client = person.client()
    with client.ledger.session() as session:
        own = client._words(session)
        spells = [session.record.kept(own.kept(0, spell)) for spell in range(2)]
        shown = [own.shown(0, spell, hidden) for spell, hidden in enumerate(spells) if hidden]
    return [int(np.frombuffer(octets, dtype="<i8")[0]) for octets in shown]


def drawn(person: Person, value: int, spell: int) -> int:
    """What a device would begin a spell with, of a value."""
    client = person.client()
    (law,) = client.campaign.frame.cells
    with client.ledger.session() as session:
        words = client._words(session)
    asked = Asked(1, 0, 0, np.arange(1), np.array([value]))
    return int(device_words.remembered(asked, law, words, spell)[0])


def test_devices_that_are_played_go_on_with_what_a_spell_began_with() -> None:
    """Over two weeks, in any order of rows: the same as of people whose values stay."""
    campaign = campaign_of(HEAD + SPELLS + ATTRIBUTES)
    people, rng = 500, np.random.default_rng(8)
    order = rng.permutation(people)
    values = [[rng.uniform(-1, 1, people), rng.integers(0, 3, people)] for _ in range(2)]

    def rows_of(second: list[np.ndarray], begun: SpellStarts) -> np.ndarray:
        for week, who, columns in ((0, np.arange(people), values[0]), (1, order, second)):
            words = CrowdWords(
                keys_of(Key(bytes(32)), who), "https://c.example:443", campaign.digest
            )
            begun.devices = who
            turn = campaign.name_of(campaign.spells.first + week)
            _, rows = made(campaign, words, [column[who] for column in columns], None, turn, begun)
        return rows

    stays = rows_of(values[0], SpellStarts(order))
    assert (rows_of(values[1], SpellStarts(order)) == stays).all()
    assert (rows_of(values[1], Forgets(order)) != stays).any()


class Forgets(SpellStarts):
    """Planted: a device that goes over to its present value."""

    def first(self, place, devices, drawn):
        return drawn


# --- what an operator is told ---------------------------------------------------------------------


def told(tmp_path: Path, text: str) -> str:
    (tmp_path / "c.toml").write_text(text)
    result = CliRunner().invoke(app, ["check", str(tmp_path / "c.toml")])
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


def test_check_says_what_all_periods_tell(tmp_path: Path) -> None:
    spells = told(tmp_path, HEAD + SPELLS + HOURS)
    told_by_all = InSpells(campaign_of(HEAD + SPELLS + HOURS).frame.cells[0], 4).changes(12)
    assert f"all 12 together {told_by_all:.7g} at most, whatever the value does and when" in spells
    assert "3 spells of 4 weeks, 2 each" in spells
    assert "not hidden" not in spells
    assert "6 over the whole campaign" in spells
    number = told(tmp_path, HEAD + PERMANENT + HOURS)
    assert "any number of reports about a value that stays 2 together" in number
    assert "not hidden: when the value passes the threshold that the device keeps" in number
    assert f"all 12 reports can tell {MemoisedBit(1.0, 2.0).told_by_changes(12):.3g} (law" in number
    category = told(tmp_path, HEAD + PERMANENT + TWO)
    assert "a new value costs that again" in category
    assert "or more (law" in category
    dear = told(tmp_path, HEAD + SPELLS + ATTRIBUTES)
    assert "a new ledger allows 8 for one collector" in dear
    assert "a device whose limit does not hold all of it never takes part" in dear
    long = PERMANENT + "values = 5\n" + TWO
    silent, says_none = (told(tmp_path, HEAD + long + more) for more in ("", "missing = true\n"))
    assert "10 over the whole campaign; then it stops (a new" in silent
    assert "a device whose limit does not hold all of it never takes part" in silent
    assert '12 over the whole campaign; then it says "no answer" (a new' in says_none
    assert 'a device whose limit is reached says "no answer" from then on' in says_none
    assert "never takes part" not in says_none


@pytest.mark.parametrize("repeat", [SPELLS, PERMANENT])
def test_a_crowd_sends_what_each_device_would(repeat: str) -> None:
    campaign = campaign_of(HEAD + repeat + ATTRIBUTES)
    turn = campaign.name_of(campaign.period_named("2026-12-20"))
    people, rng = 20, np.random.default_rng(5)
    columns = [rng.uniform(-1, 1, people), rng.integers(0, 3, people)]
    words = CrowdWords(
        keys_of(Key(bytes(32)), np.arange(people)), "https://c.example:443", campaign.digest
    )
    _, rows = made(campaign, words, columns, turn=turn)
    spell = campaign.spell_of(campaign.period_named(turn))
    for who in range(people):
        key = Key(Key(bytes(32)).name("row", who.to_bytes(8, "big")))
        alone = device_words.DeviceWords(key, "https://c.example:443", campaign.digest)
        own = [column[who : who + 1] for column in columns]
        parts = [
            (
                one,
                device_words.answered(
                    one, campaign.frame.cells[one.cell], alone, turn, None, spell
                ),
            )
            for one in campaign.asked(own, alone.which(turn))
        ]
        assert (campaign.frame.laid_out(parts) == rows[who, campaign.form.head_bytes :]).all()
