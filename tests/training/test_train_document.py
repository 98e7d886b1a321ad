"""Trainings as they are written and published: files, documents, rounds by who means harm."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest

from murmuration import mechanism
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition.load import load, parse, read
from murmuration.errors import (
    CampaignError,
    FormatError,
    MismatchError,
    MurmurationError,
    ParameterError,
)
from murmuration.exact.exponential import within
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.domain import Items
from murmuration.mechanisms.registry import to_document
from murmuration.mechanisms.vector.privunit import PrivUnit
from murmuration.training import round as rounds
from murmuration.training.algorithm import questions as asked
from murmuration.training.algorithm.questions import ROLES, Model
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import LARGEST, Round
from tests.support.command import murmur
from tests.support.trainings import FILES, LINEAR, LOGISTIC, each_round, of_few, people, trained

# --- the file ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ('"6 h"', '"6 hours"', 8, "deadline"),
        ('"6 h"', "0", 8, "deadline"),
        ('"6 h"', "4e9", 8, "deadline"),
        ('"logistic"', '"tree"', 5, "linear, logistic, svm"),
        ('kind = "model"', 'kind = "modl"', 2, "kind"),
        ('"no", "yes"', '"no", "yes", "maybe"', 24, "two labels"),
        ('"no", "yes"', '"no"', 24, "labels"),
        ("low = 0", "lows = 0", 12, "low is meant"),
        ("[20, 60]", "[20, 160]", 14, "typical"),
        ("[20, 60]", "[20]", 14, "typical"),
        ("[20, 60]", "[20, 20.000001]", 14, "narrow"),
        ('labels = ["rent", "own", "else"]', "labels = []\ntypical = [0, 1]", 19, "labels"),
        ("[target]", "[[attributes]]", 21, "[[features]]"),
        ("people = 3000", "people = 0", 7, "people"),
        ("people = 3000", "people = 3000\nrounds = 3", 8, "rounds"),
        ("people = 3000", 'people = 3000\nmechanism = "duchi"', 8, "mechanism"),
        ("people = 3000", "people = 3000\nlifetime = 3", 8, "lifetime"),
        ("epsilon = 1.0", "epsilon = 0", 6, "epsilon"),
        ('name = "home"', 'name = "age"', 17, "two features"),
        ('name = "home"', 'name = "buys"', 22, "a feature, too"),
        ("high = 100", 'high = 100\noutside = "refuse"', 14, "silent"),
        ('purpose = "Who buys, to plan what to stock."', "", 1, "purpose"),
    ],
)
def test_mistakes_have_their_line(old: str, new: str, line: int, words: str) -> None:
    text = LOGISTIC.replace(old, new, 1)
    assert text != LOGISTIC
    with pytest.raises(CampaignError, match=words.replace("[", r"\[")) as caught:
        _ = parse(text)
    assert caught.value.line == line, str(caught.value)


def test_the_target_fits_the_model() -> None:
    for text in (LOGISTIC.replace('"logistic"', '"linear"'), LINEAR.replace("linear", "svm")):
        with pytest.raises(CampaignError, match="target"):
            parse(text)


def test_figures_and_models_are_not_taken_for_one_another(tmp_path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(LOGISTIC)
    assert load(file).digest == trained().digest
    with pytest.raises(CampaignError, match="trains a model"):
        load(file, SurveyCampaign)
    data = campaign_document.publish(trained())
    assert campaign_document.read(data).kind == TrainingCampaign.kind
    with pytest.raises(ParameterError, match="trains a model"):
        campaign_document.read(data, SurveyCampaign)
    other = campaign_document.publish(
        parse('name="a"\npurpose="b"\nepsilon=1\n[[attributes]]\nname="x"\nlow=0\nhigh=1')
    )
    assert campaign_document.read(other).kind == SurveyCampaign.kind
    with pytest.raises(ParameterError, match="trains no model"):
        campaign_document.read(other, TrainingCampaign)
    newer = data.replace(b'\\"kind\\":\\"model\\"', b'\\"kind\\":\\"panel\\"')
    with pytest.raises(FormatError, match=r"the kind 'panel'.*newer"):
        campaign_document.read(newer)


def test_what_a_file_asks_includes_its_people() -> None:
    first, other = read(LOGISTIC), read(LOGISTIC.replace("3000", "4000"))
    assert first.asked == read("# a comment\n" + LOGISTIC).asked
    assert first.asked != other.asked
    assert first.asked == read(LOGISTIC.replace("Who buys", "Who sells")).asked


def test_check_says_what_each_person_gives(tmp_path) -> None:
    file = tmp_path / "m.toml"
    file.write_text(LOGISTIC)
    said = murmur("check", str(file)).stdout
    for words in ("one report in the whole training", "exact loss of one report is 1", "6 hours"):
        assert words in " ".join(said.split())
    found = json.loads(murmur("check", str(file), "--json").stdout)
    assert (found["kind"], found["charge"], found["passed"]) == ("model", 1.0, True)
    assert found["loss"] <= 1
    published = tmp_path / "m.json"
    murmur("check", str(file), "--document", str(published))
    assert campaign_document.read(published.read_bytes()).digest == found["digest"]


# --- encoding ----------------------------------------------------------------------------------


def test_raw_values_become_numbers() -> None:
    campaign = trained()
    features = {"age": [0, 20, 40, 60, 200], "home": ["rent", "own", "else", "rent", "own"]}
    x, y = campaign.encode(features, ["no", "yes", "no", "yes", "no"], seeded_rng(1))
    assert x[:, 0].tolist() == pytest.approx([-2.0, -1.0, 0.0, 1.0, 3.0])
    assert x[:, 1:].tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert y.tolist() == [-1, 1, -1, 1, -1]
    assert campaign.columns == ("age", "home=rent", "home=own")
    assert campaign.written(x, y).shape == (5, 32)
    linear = trained(LINEAR)
    assert linear.encode(features, [0, 25, 50, 99, -1], seeded_rng(1))[1].tolist() == [
        -1,
        0,
        1,
        1,
        -1,
    ]


# --- documents that are not to be trusted ------------------------------------------------------


def changed(data: bytes, key: str, change) -> bytes:
    """A document whose inner text was changed, with the digest that it then has."""
    document = json.loads(data)
    document[key] = change(document[key])
    document["digest"] = hashlib.sha256(document[key].encode()).hexdigest()
    return json.dumps(document).encode()


def with_laws(change):
    def changing(text: str) -> str:
        table = json.loads(text)
        change(table["laws"])
        return json.dumps(table, separators=(",", ":"))

    return changing


def more_epsilon(laws: list) -> None:
    laws[1] = to_document(PrivUnit(epsilon=1.1, d=1))


def more_epsilon_of_numbers(laws: list) -> None:
    laws[0] = to_document(mechanism("optimal", epsilon=1.1))


def claimed_less(laws: list) -> None:
    """A law of epsilon 1.1 that says that it is one of 1."""
    laws[2]["law"] = to_document(PrivUnit(epsilon=1.1, d=3))["law"]


def swapped(laws: list) -> None:
    """Near and far have changed places."""
    laws[1]["law"]["weights"].reverse()


def broken(laws: list) -> None:
    laws[0] = to_document(mechanism("dct", epsilon=1.0))


def another_length(laws: list) -> None:
    laws[3] = to_document(PrivUnit(epsilon=1.0, d=7))


def swapped_answers(laws: list) -> None:
    """An answer of 1 is answered as one of -1, and the other way round."""
    laws[0]["law"]["weights"].reverse()


@pytest.mark.parametrize(
    "change",
    [
        *map(with_laws, (more_epsilon, more_epsilon_of_numbers, claimed_less, swapped, broken)),
        *map(with_laws, (another_length, swapped_answers, list.pop, list.reverse)),
        lambda text: text.replace('"epsilon":1.0', '"epsilon":0.9', 1),
        lambda text: text.replace('"deadline":21600', '"deadline":0'),
        lambda text: text.replace('"deadline":21600', '"deadline":2.16e4'),
        lambda text: text.replace('"people":3000', '"people":3001'),
        lambda text: text.replace('"campaign":"buys"', '"campaign":"sells"'),
        lambda text: text.replace('"kind":"model"', '"kind":"model","more":1'),
        lambda text: text.replace("[20.0,60.0]", "[20.0,1e999]"),
        lambda text: text.replace('"logistic":[536870912', '"logistic":[536870911'),
        lambda text: text.replace('"model":"logistic"', '"model":"svm"'),
        lambda text: text.replace(",", ", ", 1),
        lambda text: "[" * 100_000,
        lambda text: "",
    ],
)
def test_campaigns_that_are_refused(change) -> None:
    data = campaign_document.publish(trained())
    assert changed(data, "collection", lambda text: text) != changed(data, "collection", change)
    with pytest.raises(FormatError):
        campaign_document.read(changed(data, "collection", change))


def test_a_text_that_was_changed_is_refused() -> None:
    data = campaign_document.publish(trained())
    with pytest.raises(FormatError, match="changed"):
        campaign_document.read(data.replace(b'\\"deadline\\":21600', b'\\"deadline\\":21601'))


def all_rounds(model: str = "logistic") -> list[Round]:
    campaign = trained(FILES[model])
    x, y = campaign.encode(*people(campaign, 3000), seeded_rng(1))
    return each_round(campaign, x, y, seeded_rng(2))


@pytest.mark.parametrize("model", FILES)
def test_rounds_are_read_as_they_were_published(model: str) -> None:
    for one in all_rounds(model):
        data = rounds.publish(one)
        found = rounds.read(data, one.campaign)
        assert (found.digest, found.ends, found.number) == (one.digest, one.ends, one.number)
        assert found.loss().holds
        assert len(data) < 4000
        x, y = np.linspace(-1, 1, 9).reshape(3, 3), np.array([1.0, -1.0, 1.0])
        for role in range(len(one.questions)):
            assert found.values(role, x, y).tobytes() == one.values(role, x, y).tobytes()


LATE = 12
"""A round with a model."""


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t["models"][0].update(scale=0.0),
        lambda t: t["models"][0].update(scale=-1.0),
        lambda t: t["models"][0].update(scale=1e-31),
        lambda t: t["models"][0].update(level=1e31),
        lambda t: t["models"][0].update(level=math.inf),
        lambda t: t["models"][0].update(level=math.nan),
        lambda t: t["models"][0].update(level=None),
        lambda t: t["models"][0].update(level="1"),
        lambda t: t["models"][0].update(level=1),
        lambda t: t["models"][0].update(level=-0.0),
        lambda t: t["models"][0]["weights"].append(0.0),
        lambda t: t["models"][0].update(weights=[[0.0] * 3]),
        lambda t: t["models"].append(t["models"][0]),
        lambda t: t["models"].append({**t["models"][0], "scale": 2.0}),
        lambda t: t["roles"][0].update(clip=0.0),
        lambda t: t["roles"][0].update(most=-1.0),
        lambda t: t["roles"][0].update(ask="secret"),
        lambda t: t["roles"][0].update(ask=["gradient"]),
        lambda t: t["roles"][0].update(law=0),
        lambda t: t["roles"][0].update(law=True),
        lambda t: t["roles"][0].update(model=1),
        lambda t: t["roles"][0].update(model=-1),
        lambda t: t["roles"][0].update(more=1.0),
        lambda t: t["roles"][0].pop("reach"),
        lambda t: t["roles"].clear(),
        lambda t: t["roles"].extend([t["roles"][0]] * rounds.MOST_ROLES),
        lambda t: t.update(ends=[5]),
        lambda t: t.update(ends=[]),
        lambda t: t.update(round=0),
        lambda t: t.update(wire=2),
        lambda t: t.update(more=1),
    ],
)
def test_rounds_that_are_refused(change) -> None:
    one = all_rounds()[LATE]
    assert one.questions[0].ask == "gradient"

    def bent(text: str) -> str:
        table = json.loads(text)
        change(table)
        return json.dumps(table, separators=(",", ":"))

    with pytest.raises(FormatError):
        rounds.read(changed(rounds.publish(one), "asked", bent), one.campaign)


def test_another_trainings_round_is_refused() -> None:
    one = all_rounds()[0]
    with pytest.raises(MismatchError, match="another campaign"):
        rounds.read(rounds.publish(one), trained(people="4000"))
    for data in (b"", b"{}", b"[" * 10_000, b"x" * (rounds.MOST_BYTES + 1), b'{"format":1}'):
        with pytest.raises(FormatError):
            rounds.read(data, one.campaign)
    spaced = changed(rounds.publish(one), "asked", lambda text: text.replace(",", ", ", 1))
    with pytest.raises(FormatError, match="another spelling"):
        rounds.read(spaced, one.campaign)
    swapped_numbers = json.loads(rounds.publish(one)) | {"round": 2}
    with pytest.raises(FormatError, match="differs inside and outside"):
        rounds.read(json.dumps(swapped_numbers).encode(), one.campaign)


# --- whatever the numbers are ------------------------------------------------------------------


def question_of(campaign, ask: str, weight: float, number: float):
    """A role with these numbers everywhere; `number` also where one is divided by."""
    d = campaign.width
    small = max(abs(number), 1 / LARGEST)
    model = Model(
        np.full((1, d), weight), np.array([weight]), np.full(d, -weight), np.full(d, small)
    )
    fields: dict = {"people": 1, "laws": campaign.law_of}
    for key in ROLES[ask].numbers:
        several = ask == "agreement" and key in ("lean", "middle")
        fields[key] = np.array([weight]) if several else small
    for key in ROLES[ask].models:
        fields[key] = model if key == "model" else replace(model, scale=np.ones(d))
    if "objective" in ROLES[ask].__dataclass_fields__:
        fields["objective"] = campaign.objective
    if ask == "column":
        fields |= {"feature": 1, "attribute": campaign.attributes[1]}
    if "dimensions" in ROLES[ask].__dataclass_fields__:
        fields["dimensions"] = d + 1 if ask == "gradient" else 1
    return ROLES[ask](**fields)


FAR = [-LARGEST, -1e15, -1.0, -1e-25, 0.0, 1e-30, 1.0, 1e15, LARGEST]


@pytest.mark.parametrize("model", FILES)
@pytest.mark.parametrize("ask", ROLES)
@pytest.mark.filterwarnings("error")
def test_a_hostile_round_gets_a_value_that_the_law_takes(model: str, ask: str) -> None:
    if ask == "bin" and model != "linear":
        pytest.skip("a target of two labels is in no part of a range")
    campaign = trained(FILES[model])
    x = np.array([[1.0, -1.0, 0.0], [float(1 << 20), 1.0, 0.0], [0.0, 0.0, 0.0]])
    y = np.array([1.0, -1.0, 1.0])
    for weight in FAR:
        for number in FAR:
            question = question_of(campaign, ask, weight, number)
            one = Round(campaign, 1, (question,), None)
            values = one.values(0, x, y)
            assert np.isfinite(values).all()
            law = question.mechanism
            law.privatize(values, seeded_rng(1))  # refused if it is outside the domain
            assert rounds.read(rounds.publish(one), campaign).digest == one.digest


# --- the exact loss of a tiny round ------------------------------------------------------------


def tiny():
    """One feature, and laws so small that all that can happen can be listed."""
    text = LOGISTIC[: LOGISTIC.index('[[features]]\nname = "home"')]
    text += LOGISTIC[LOGISTIC.index("[target]") :]
    laws = (
        mechanism("duchi", epsilon=1.0),
        *(PrivUnit(epsilon=1.0, d=d, candidates=4) for d in (1, 2)),
        mechanism("grr", epsilon=1.0, k=9),
    )
    return of_few(replace(trained(text), laws=laws).admitted())


def chances(one: Round, role: int, x: float, y: float) -> list[Fraction]:
    """How likely each report of a role is, exactly: for PrivUnit given one of some seeds."""
    law = one.frame.cells[role]
    value = one.values(role, np.array([[x]]), np.array([y]))
    if isinstance(law, PrivUnit):
        return [
            chance
            for seed in (0, 1, 7, 2**31, 2**32 - 1)
            for chance in _of_candidates(law, value, seed)
        ]
    if law.takes is Items:
        truth, lie = law.law()["truth"], law.law()["lie"]
        weights = [truth if item == int(value[0]) else lie for item in range(law.k)]
        return [Fraction(weight, sum(weights)) for weight in weights]
    table, grid = law.design.table.weights, law.design.grid.points
    high = Fraction(float(value[0]) - grid[0]) / Fraction(grid[-1] - grid[0])
    low_row, high_row = table[0].tolist(), table[-1].tolist()
    whole = sum(low_row)
    return [
        ((1 - high) * low + high * top) / whole for low, top in zip(low_row, high_row, strict=True)
    ]


def _of_candidates(law: PrivUnit, value: np.ndarray, seed: int) -> list[Fraction]:
    seeds, weights = np.array([seed], dtype=np.uint64), law.ranks.weights[0].tolist()
    length = min(float(np.sqrt(np.square(value).sum())), 1.0)
    forward = Fraction(int((length + 1) * 2**51), 2**52)
    found = [Fraction(0)] * law.size
    for coin, share in ((0, forward), (2**64 - 1, 1 - forward)):
        order = law._order(value, seeds, np.array([coin], dtype=np.uint64))[0]
        for rank, candidate in enumerate(order.tolist()):
            found[candidate] += share * weights[rank] / 2**52
    return found


def check_exact_loss(one: Round, epsilon: float) -> None:
    """No report is e^epsilon times as likely for one person as for another: role and all."""
    answers = [(x, y) for x in (-3.0, -1.0, -0.3, 0.0, 0.4, 3.0) for y in (-1.0, 1.0)]
    for role in range(len(one.questions)):
        found = [chances(one, role, x, y) for x, y in answers]
        for row in found:
            assert sum(row) in (1, 5)  # of all reports; or of those of five seeds
        for first, other in permutations(found, 2):
            for a, b in zip(first, other, strict=True):
                assert b > 0
                assert within(a / b, epsilon)


def tiny_rounds(campaign) -> list[Round]:
    x = np.random.default_rng(1).uniform(-1, 1, (3000, 1))
    return each_round(campaign, x, np.sign(x[:, 0] + 0.1), seeded_rng(4))


def test_the_exact_loss_of_every_tiny_round() -> None:
    campaign = tiny()
    found = tiny_rounds(campaign)
    seen = set()
    for one in found:
        asks = frozenset(question.ask for question in one.questions)
        if asks not in seen:
            seen.add(asks)
            check_exact_loss(one, campaign.epsilon)
            assert one.loss().epsilon <= 1
    assert len(frozenset().union(*seen)) >= 8


def test_epsilon_times_one_point_one_in_a_round_is_seen() -> None:
    campaign = tiny()
    more = tuple(replace(law, epsilon=1.1) for law in campaign.laws)
    bent = replace(campaign, laws=more)
    with pytest.raises(MurmurationError):
        bent.admitted()
    x = np.random.default_rng(1).uniform(-1, 1, (3000, 1))
    for one in each_round(bent, x, np.sign(x[:, 0] + 0.1), seeded_rng(4))[:2]:
        with pytest.raises(AssertionError):
            check_exact_loss(one, 1.0)


def test_a_value_that_is_not_cut_off_is_seen(monkeypatch) -> None:
    campaign = tiny()
    one = next(one for one in tiny_rounds(campaign) if one.questions[0].ask == "target")
    monkeypatch.setattr(asked.NumberQuestion, "values", lambda self, x, y: self.number(x, y) * 9)
    values = [question.values(np.ones((1, 1)), np.ones(1)) for question in one.questions]
    with pytest.raises(MurmurationError):
        one.frame.privatize(values, seeded_rng(1))
    with pytest.raises(AssertionError):
        check_exact_loss(one, 1.0)
