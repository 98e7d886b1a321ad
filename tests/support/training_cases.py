"""A training in tests: its campaign, its people, and what their devices send in a round."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from murmuration.collector.training.rounds import OVER
from murmuration.definition.load import parse
from murmuration.exact.arrays import Floats, Rows
from murmuration.exact.randomness import seeded_rng
from murmuration.training import round as round_document
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire import report
from murmuration.wire.ids import Ids
from tests.support.collectors import CAMPAIGNS, Answer, Asking

LOANS = """
kind = "model"
name = "loans"
purpose = "Who pays back"
model = "logistic"
epsilon = 4.0
people = 6000
cohort = 100
rounds = 12
deadline = "1 h"

[[features]]
name = "age"
low = 18
high = 98
unit = "years"

[[features]]
name = "home"
kind = "category"
labels = ["rent", "own"]

[target]
name = "paid"
kind = "category"
labels = ["no", "yes"]
"""


def loans(text: str = LOANS) -> TrainingCampaign:
    found = parse(text, TrainingCampaign)
    assert isinstance(found, TrainingCampaign)
    return found


@dataclass
class People:
    """Simulated people, each with an id; they come in order, and each answers once."""

    campaign: TrainingCampaign
    seed: int = 1
    came: int = 0
    sent: list[tuple[bytes, str]] = field(default_factory=list)

    def drawn(self, n: int) -> tuple[Ids, Floats, Floats]:
        """The next n people: their ids, features and targets."""
        rng = np.random.default_rng([self.seed, self.came])
        age, home = rng.uniform(18, 98, n), rng.choice(["rent", "own"], n)
        score = (age - 58) / 20 + (home == "own") - 0.5
        paid = np.where(score + rng.logistic(size=n) > 0, "yes", "no")
        x, y = self.campaign.encode(
            {"age": age, "home": home.tolist()}, paid.tolist(), seeded_rng(self.seed)
        )
        ids = rng.integers(0, 256, (n, 16), dtype=np.uint8)
        self.came += n
        return ids, x, y

    def reports(self, found: Round, n: int) -> tuple[Ids, Rows]:
        """What the next n people's devices send in a round: the same for the same people."""
        start = self.came
        ids, x, y = self.drawn(n)
        values = [question.values(x, y) for question in found.questions]
        rng = seeded_rng(1000 * self.seed + start)
        return ids, found.frame.privatize(values, rng)


def open_round(at: Asking, campaign: TrainingCampaign) -> Round | None:
    """The round that a collector has open; None when training is over."""
    while (answer := at.get(f"{CAMPAIGNS}/{campaign.name}/round")).status == 404:
        assert answer.problem == "no-round"
        if answer.json["detail"] == OVER:
            return None
        time.sleep(0.002)  # it is full, and about to be closed
    assert answer.status == 200
    return round_document.read(answer.body, campaign)


def sent(at: Asking, found: Round, ids: Ids, rows: Rows) -> Answer:
    return at.send(found.name, report.to_binary(found.form, ids, rows), report.BINARY)


def fates(answer: Answer) -> list[str]:
    """What became of each report."""
    assert answer.status == 200
    receipt = answer.json
    found = ["stored"] * receipt["received"]
    for failure in receipt["failures"]:
        found[failure["index"]] = failure["type"].removeprefix("/problems/")
    return found


def trained(at: Asking, people: People, batch: int = 500) -> dict[str, Any]:
    """Send people to rounds until training is over; return the model."""
    for found in rounds_of(at, people.campaign):
        sent(at, found, *people.reports(found, batch))
    answer = at.about(people.campaign.name, "model")
    assert answer.status == 200
    return dict(answer.json)


def rounds_of(at: Asking, campaign: TrainingCampaign) -> Iterator[Round]:
    """The open round, again and again, until training is over."""
    while (found := open_round(at, campaign)) is not None:
        yield found
