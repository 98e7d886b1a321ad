"""Many devices in a live training: each answers in one round, over HTTP. For simulations and tests.

    trainees = Trainees(campaign, url, secret, x, y)
    trainees.play()          until training is over, or nobody is left

People come in an order that follows from the secret; each round is sent as many as it asks for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.collector.training.rounds import OVER
from murmuration.device.loading import NO_ROUND
from murmuration.device.sending import Link, Patience
from murmuration.errors import SendError
from murmuration.exact.arrays import Floats, Ints
from murmuration.exact.keyed import Key
from murmuration.lab.fleet import Sent, keys_of, made_for_round, send_all
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import MOST_BYTES, Round, read
from murmuration.wire.address import Address

LOOK_SECONDS, WAIT_SECONDS = 0.01, 30.0
"""Between two looks at which round is open, and how long a full one may take to close."""


@dataclass
class Trainees:
    """The devices of people with these encoded features and targets, in one training.

    `numbers` are the devices' own, from which keys follow; 0, 1, ... if they are left out.
    """

    campaign: TrainingCampaign
    url: str
    secret: Key
    x: Floats
    y: Floats
    numbers: Ints | None = None
    token: str | None = None
    tokens: Sequence[str] | None = None
    """One for each person, where each device has its own."""
    batch: int = 1000
    connections: int = 4
    plain_http: bool = False
    progress: Callable[[Round, int], None] | None = None
    patience: Patience | None = None
    sent: Sent = field(default_factory=Sent)
    rounds: int = 0
    """How many rounds were taken part in."""

    def __post_init__(self) -> None:
        self._address = Address.parse(self.url, self.plain_http)
        seed = np.frombuffer(self.secret.name("order"), dtype=np.uint8).tolist()
        self._order = np.random.default_rng(seed).permutation(len(self.x))

    @property
    def left(self) -> int:
        """How many people have not answered."""
        return len(self._order)

    def play(self) -> bool:
        """Send people to rounds; say whether training is over (else nobody is left, or answers)."""
        last, missing = "", 0
        while (asked_round := self._next(last if missing <= 0 else "")) is not None:
            if asked_round.digest != last:
                last, missing, self.rounds = asked_round.digest, asked_round.size, self.rounds + 1
            if not self.left or self.sent.unsent:
                return False
            missing -= self._send(asked_round, missing)
        return True

    def _next(self, last: str) -> Round | None:
        """Return the open round, once it is another than the last; None when training is over."""
        end = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < end:
            with Link(self._address) as link:
                answer = link.get(MOST_BYTES, "/round")
            if answer.status == 200:
                asked_round = read(answer.data, self.campaign)
                if asked_round.digest != last:
                    return asked_round
            elif answer.reason != NO_ROUND:
                raise SendError(f"no round from {self.url}: {answer.reason}")
            elif OVER in answer.data.decode(errors="replace"):
                return None
            time.sleep(LOOK_SECONDS)
        raise SendError(f"no round of {self.campaign.name} has opened for {WAIT_SECONDS:.0f} s")

    def _send(self, asked_round: Round, wanted: int) -> int:
        """Send the next people to a round; return how many were counted."""
        who, self._order = np.split(self._order, [min(wanted, self.left)])
        numbers = who if self.numbers is None else self.numbers[who]
        keys = keys_of(self.secret, numbers)
        ids, rows = made_for_round(
            asked_round, keys, self._address.origin, self.x[who], self.y[who]
        )
        sent = send_all(
            self.url,
            asked_round.form,
            ids,
            rows,
            batch=self.batch,
            connections=self.connections,
            token=self.token,
            tokens=None
            if self.tokens is None
            else [self.tokens[device] for device in who.tolist()],
            progress=lambda n: self.progress(asked_round, n) if self.progress else None,
            allow_plain_http=self.plain_http,
            patience=self.patience,
        )
        self.sent += sent
        return sent.stored + sent.duplicates
