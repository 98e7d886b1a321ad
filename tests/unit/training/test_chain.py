"""Rounds follow each other: each names the digest of the one before.

`docs/vectors/chain.json` has a training's document, rounds of two of its courses (they have the
first one in common), and cases: the digests that a device knows, the round that is offered, those
that the collector shows before it, and why the offer is refused, or null.
`web/client/test/training.test.ts` reads the same file.

`python -m tests.unit.training.test_chain` writes it, if it is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from murmuration import Client
from murmuration.definition import document as campaign_document
from murmuration.device.sending import Patience
from murmuration.errors import FormatError, MismatchError, ParameterError
from murmuration.training import round as rounds
from murmuration.training.algorithm.questions import Target
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.chain import followed, nearest
from murmuration.training.round import Round
from tests.support.trainings import Rounds, trained
from tests.support.vectors import VECTORS

FILE = VECTORS / "chain.json"
ANN = {"age": 44, "home": "own"}
CASES = [
    ("nothing is known", [], "a3", [], None),
    ("it was shown before", ["a3"], "a3", [], None),
    ("it follows", ["a2"], "a3", [], None),
    ("one between is fetched", ["a1"], "a3", ["a2"], None),
    ("two rounds of one number", ["a2"], "b2", [], "two-rounds"),
    ("it names another one before", ["a2"], "b3", [], "does-not-follow"),
    ("the one between is another", ["a1"], "a3", ["b2"], "does-not-follow"),
    ("the one between follows another", ["b2"], "a4", ["a3"], "does-not-follow"),
    ("a later one is known", ["a3"], "a2", [], "earlier-round"),
]


def course(campaign: TrainingCampaign, which: float) -> list[Round]:
    """Return four rounds, each after the last; courses have the first one in common."""
    found: list[Round] = []
    for number in range(1, 5):
        half = 1.0 if number == 1 else which + number
        question = Target(people=1000, laws=campaign.law_of, half=half)
        after = found[-1].digest if found else ""
        found.append(Round.of(campaign, number, [question], after=after))
    return found


def written() -> dict[str, Any]:
    campaign = trained()
    first, second = course(campaign, 0.25), course(campaign, 0.5)
    assert first[0].digest == second[0].digest
    named = {f"a{one.number}": one for one in first} | {f"b{one.number}": one for one in second[1:]}
    cases = [
        {
            "what": what,
            "known": {str(named[key].number): named[key].digest for key in known},
            **{"offered": offered, "shown": shown, "problem": problem},
        }
        for what, known, offered, shown, problem in CASES
    ]
    texts = {name: rounds.publish(one).decode() for name, one in named.items()}
    document = campaign_document.publish(campaign).decode()
    return {"document": document, "rounds": texts, "cases": cases}


GOLDEN = json.loads(FILE.read_text()) if FILE.exists() else {"cases": []}


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["what"])
def test_cases_of_the_vectors(case: dict[str, Any]) -> None:
    campaign = campaign_document.read(GOLDEN["document"].encode())
    read = {k: rounds.read(v.encode(), campaign) for k, v in GOLDEN["rounds"].items()}
    known = {int(number): digest for number, digest in case["known"].items()}
    shown = {read[key].number: read[key].link for key in case["shown"]}
    link = read[case["offered"]].link
    reasons: list[str | None] = []
    for many in (known, {**known, 0: campaign.digest}):
        try:
            followed(link, many, shown.__getitem__, nearest(link, many))
            reasons.append(None)
        except MismatchError as refused:
            reasons.append(refused.reason)
    assert reasons == [case["problem"]] * 2


# --- a device ------------------------------------------------------------------------------------


@pytest.fixture
def collector() -> Iterator[Rounds]:
    found = Rounds(trained())
    yield found
    found.close()


def client(collector: Rounds, folder: Path, **options: Any) -> Client:
    return Client(collector.url, folder / "l.db", patience=Patience(attempts=1), **options)


def test_the_chain_is_shown_and_kept(collector: Rounds, tmp_path: Path) -> None:
    mine, others = course(collector.campaign, 0.25), course(collector.campaign, 0.5)
    for one in mine[:3]:
        collector.open = one
    links = client(collector, tmp_path).chain()
    assert [link.number for link in links] == [1, 2, 3]
    assert links[0].after == collector.campaign.digest
    assert [link.after for link in links[1:]] == [link.digest for link in links[:-1]]
    for one, reason in ((others[2], "two-rounds"), (others[3], "does-not-follow")):
        collector.open = one
        with pytest.raises(MismatchError) as refused:
            client(collector, tmp_path).train(ANN, "yes")
        assert refused.value.reason == reason
        assert (collector.bodies, client(collector, tmp_path).ledger.spent()) == ([], 0)
    collector.open = mine[3]
    assert client(collector, tmp_path).train(ANN, "yes").outcome == "stored"


def test_a_pinned_round(collector: Rounds, tmp_path: Path) -> None:
    mine, others = course(collector.campaign, 0.25), course(collector.campaign, 0.5)
    for one in mine:
        collector.open = one
    pinned = {2: others[1].digest}
    with pytest.raises(MismatchError, match="does not follow"):
        client(collector, tmp_path, rounds=pinned).train(ANN, "yes")
    with pytest.raises(MismatchError, match="do not go back"):
        client(collector, tmp_path, rounds={9: "ab" * 32}).train(ANN, "yes")
    assert collector.bodies == []
    good = client(collector, tmp_path, rounds={2: mine[1].digest})
    assert good.train(ANN, "yes").outcome == "stored"


def test_a_pin_is_a_number_and_a_digest(collector: Rounds, tmp_path: Path) -> None:
    for wrong in ({0: "ab" * 32}, {1: "xy"}, {"1": "ab" * 32}):
        with pytest.raises(ParameterError, match="64 hexadecimal digits"):
            client(collector, tmp_path, rounds=wrong)


def test_a_collector_that_does_not_show_the_round_between(
    collector: Rounds, tmp_path: Path
) -> None:
    mine = course(collector.campaign, 0.25)
    collector.open = mine[2]
    with pytest.raises(MismatchError, match="does not show round 2"):
        client(collector, tmp_path, rounds={1: mine[0].digest}).train(ANN, "yes")


def test_the_first_round_names_the_campaign_and_no_other_does() -> None:
    campaign = trained()
    first, second, *_ = course(campaign, 0.25)
    for one, after in ((first, "ab" * 32), (second, campaign.digest), (second, "AB" * 32)):
        text = json.loads(rounds.publish(one))
        text["asked"] = text["asked"].replace(f'"after":"{one.after}"', f'"after":"{after}"')
        text["digest"] = hashlib.sha256(text["asked"].encode()).hexdigest()
        with pytest.raises(FormatError, match="digest of the round before"):
            rounds.read(json.dumps(text).encode(), campaign)


if __name__ == "__main__" and not FILE.exists():
    FILE.write_text(json.dumps(written(), indent=1) + "\n")
