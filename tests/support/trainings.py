"""What tests of trainings share: campaigns, people, and the smallest collector that there can be.

`Rounds` speaks HTTP as docs/wire.md says, keeps all in memory, and can be told to misbehave: the
collector that we ship is tried elsewhere. Reports follow from the origin, which has a port: nothing
here may depend on which reports they are.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np

from murmuration.definition import document as campaign_document
from murmuration.definition.load import parse
from murmuration.exact.randomness import Rng, seeded_rng
from murmuration.training import round as rounds
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.training.run import LiveTraining
from murmuration.wire import report

LOGISTIC = """
kind = "model"
name = "buys"
purpose = "Who buys, to plan what to stock."
model = "logistic"
epsilon = 1.0
people = 3000
deadline = "6 h"

[[features]]
name = "age"
low = 0
high = 100
typical = [20, 60]

[[features]]
name = "home"
kind = "category"
labels = ["rent", "own", "else"]

[target]
name = "buys"
kind = "category"
labels = ["no", "yes"]
"""
LINEAR = LOGISTIC.replace('"logistic"', '"linear"').replace(
    'kind = "category"\nlabels = ["no", "yes"]', "low = 0\nhigh = 50"
)
SVM = LOGISTIC.replace('"logistic"', '"svm"')
FILES = {"logistic": LOGISTIC, "linear": LINEAR, "svm": SVM}


def trained(text: str = LOGISTIC, **changes: str) -> TrainingCampaign:
    """The campaign of a file, with some keys changed."""
    for key, value in changes.items():
        lines = [f"{key} = {value}" if x.startswith(f"{key} = ") else x for x in text.split("\n")]
        text = "\n".join(lines)
    found = parse(text, TrainingCampaign)
    assert isinstance(found, TrainingCampaign)
    return of_few(found)


def of_few(campaign: TrainingCampaign) -> TrainingCampaign:
    """Let a training ask all of its questions, however few people there are."""
    campaign.__dict__["least"] = 1
    return campaign


def people(
    campaign: TrainingCampaign, n: int, seed: int = 1
) -> tuple[dict[str, list[Any]], list[Any]]:
    """Raw features and targets: the older, and owners, have more of it."""
    draw = np.random.default_rng(seed)
    age, home = draw.uniform(-5, 105, n), draw.integers(0, 3, n)
    score = (age - 50) / 25 + (home == 1) + draw.normal(0, 0.7, n)
    features = {"age": age.tolist(), "home": [("rent", "own", "else")[one] for one in home]}
    if campaign.model == "linear":
        return features, np.clip(25 + 8 * score, -2, 52).tolist()
    return features, [("no", "yes")[int(one > 0)] for one in score]


def each_round(campaign: TrainingCampaign, x: np.ndarray, y: np.ndarray, rng: Rng) -> list[Round]:
    """All rounds of a training that people answer in turn, roles by their coins."""
    live, found, start = LiveTraining(campaign), [], 0
    while (one := live.round) is not None:
        found.append(one)
        here = slice(start, start + one.size)
        start += one.size
        values = [question.values(x[here], y[here]) for question in one.questions]
        live.close(one.form.tally(one.frame.privatize(values, rng)))
    return found


def answered_all(asking: Generator[Any, Any, Any], x: np.ndarray, y: np.ndarray, seed: int) -> Any:
    """Let people answer a part of a training, each one question; return what it comes to."""
    rng, start, tallies = seeded_rng(seed), 0, None
    while True:
        try:
            questions = asking.send(tallies)
        except StopIteration as done:
            return done.value
        tallies = []
        for question in questions:
            here = slice(start, start + question.people)
            start += question.people
            tallies.append(question.mechanism.tally(question.answer(x[here], y[here], rng)))


class Rounds:
    """A collector of one training: publishes what it is told, and says what it is told to."""

    def __init__(self, campaign: TrainingCampaign) -> None:
        self.campaign, self.live = campaign, LiveTraining(campaign)
        self.published: dict[int, Round] = {}
        self.open = self.live.round
        self.bodies: list[bytes] = []
        self.refuse: str | None = None
        self.status = 200
        self.document: Callable[[bytes], bytes] = lambda data: data
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def open(self) -> Round | None:
        """The open round; all that ever were are shown by their numbers."""
        return self._open

    @open.setter  # noqa: A003
    def open(self, found: Round | None) -> None:
        self._open = found
        if found is not None:
            self.published[found.number] = found

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/campaigns/{self.campaign.name}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def get(self, path: str) -> tuple[int, bytes]:
        below = path.removeprefix(f"/v1/campaigns/{self.campaign.name}")
        if below == "":
            return 200, campaign_document.publish(self.campaign)
        shown = {f"/rounds/{number}": one for number, one in self.published.items()}
        found = self.open if below == "/round" else shown.get(below)
        if found is None:
            return 404, json.dumps({"type": "/problems/no-round", "title": "x"}).encode()
        return 200, self.document(rounds.publish(found))

    def post(self, body: bytes) -> tuple[int, bytes]:
        self.bodies.append(body)
        failures = []
        if self.refuse:
            failures = [{"index": 0, "type": f"/problems/{self.refuse}"}]
        elif self.open is not None:
            upload = report.read(self.open.form, body, report.JSON)
            assert not upload.problems.any()
        answer = {"received": 1, "stored": 1 - len(failures), "failures": failures}
        return self.status, json.dumps(answer).encode()


def _handler(rounds: Rounds) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(*rounds.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(*rounds.post(body))

        def _answer(self, status: int, data: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    return Handler
