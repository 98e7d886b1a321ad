"""A device in a training: one report in all rounds, charged once, never a second answer.

    find       has this training a report already? it is that one, whatever is asked now
    round      fetch the open round: checked, witnessed; none is open: nothing is charged
    role       drawn by a public coin: it never looks at the answer
    answer     the value of that role's question, clamped; words keyed on features and target
    charge     in the ledger, *held*: it may still be taken back
    let go     once, durably, beside the key: these bytes, and no others, leave for this training
    send       those bytes, again and again if need be

**When a charge comes back.** Only bytes that were never let go are taken back: the device stopped
between the charge and letting go, and found the round closed (another one is open, or none) when
it came back. Then the entry is deleted, what it had cost with it, and the device may answer the
round that is open. From letting go on the report counts as sent, also where nobody was reached: the
charge stays, and "stale-round" and "round-full" are answers like any other, the last ones.

**Killed at any point** the device never has two answers out. Letting go is one file that is made
once, whoever is first: two processes, two ledgers of one key, or an old copy of a ledger all find
it. Its name follows from the key, the collector and the training, its content is the digest of the
bytes. Other bytes than those are never sent. (With a key in memory, `secret=bytes`, there is no
such file: the ledger alone knows, and an old copy of it does not.)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from murmuration.device.ledger import Entry, Ledger
from murmuration.device.secret import Cost
from murmuration.device.words import CrowdWords, DeviceWords
from murmuration.errors import BudgetError, NoRoundError
from murmuration.exact.arrays import Floats, Rows
from murmuration.mechanisms.frame import Asked
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire import report

if TYPE_CHECKING:
    from murmuration.device.client import Receipt


def answers(found: Round, words: DeviceWords | CrowdWords, x: Floats, y: Floats) -> Rows:
    """Return the reports of one device or many in a round, each by its own words.

    `words` are those of the round's digest; x and y are encoded (`TrainingCampaign.encode`).
    """
    frame, people = found.frame, len(x)
    coins = words.which("").public()
    roles = frame.strategy.asked(len(frame.groups), people, coins)[:, 0]
    written = found.campaign.written(x, y)
    parts = []
    for role in np.unique(roles).tolist():
        who = np.flatnonzero(roles == role)
        values = found.values(role, x[who], y[who])
        own = words.only(who) if isinstance(words, CrowdWords) else words
        asked = Asked(people, 0, role, who, values)
        parts.append((asked, asked.answered(frame.cells[role], own.answer(role, written[who], ""))))
    return frame.laid_out(parts)


class _Named(msgspec.Struct):
    digest: str


class Trainee(ABC):
    """What a client does in a training; what it keeps is in the ledger."""

    ledger: Ledger

    @property
    @abstractmethod
    def training(self) -> TrainingCampaign:
        """The campaign."""

    @property
    @abstractmethod
    def most(self) -> Cost:
        """What one report costs."""

    @abstractmethod
    def _words(self) -> DeviceWords:
        """Return the words of this device for this collector and training."""

    @abstractmethod
    def _open_round(self) -> Round | None:
        """Return the round that is open, checked; None if none is."""

    @abstractmethod
    def _require_open(self) -> None:
        """Refuse what the collector would refuse."""

    @abstractmethod
    def _require_small(self) -> None:
        """Refuse what may cost more than the person gives for a report."""

    @abstractmethod
    def _sent(self, entry: Entry) -> Receipt:
        """Send the bytes that the ledger holds, and note the answer."""

    @abstractmethod
    def _receipt(self, entry: Entry) -> Receipt:
        """Return what became of a report."""

    def train(self, features: Mapping[str, Any], target: Any) -> Receipt:
        """Answer the open round of a training, once in all rounds; say what became of it.

        `features` are raw values by name, `target` one more. Where no round is open, `NoRoundError`
        says so, and nothing is charged: come back later. Otherwise as `Client.report`.
        """
        campaign, words = self.training, self._words()
        given = {name: [value] for name, value in features.items()}
        rngs = words.spread(question.name for question in campaign.questions)
        x, y = campaign.encode(given, [target], rngs, never_silent=True)
        known = self.ledger.find(words.origin, campaign.digest)
        if known is not None and known.outcome:
            return replace(self._receipt(known), new=False)
        if known is not None and not self.ledger.held(known.report_id, self._left()):
            return replace(self._let_go(known), new=False)
        found = self._found(known)
        if known is not None:
            if msgspec.json.decode(known.report or b"{}", type=_Named).digest == found.digest:
                return replace(self._let_go(known), new=False)
            self.ledger.take_back(known.report_id, self._left())
        return self._let_go(self._held(found, x, y))

    def _left(self) -> bytes:
        """Return the name under which this training's one report is let go."""
        words = self._words()
        return words.key.name(words.origin, words.digest, "left")

    def _found(self, known: Entry | None) -> Round:
        """Return the round that is open; if none is, what was never let go is taken back."""
        self._require_open()
        self._require_small()
        found = self._open_round()
        if found is not None:
            return found
        if known is not None:
            self.ledger.take_back(known.report_id, self._left())
        raise NoRoundError(
            f"no round of {self.training.name} is open now. Nothing was sent, and nothing charged."
        )

    def _held(self, found: Round, x: Floats, y: Floats) -> Entry:
        """Draw the report and charge it; what comes back is what to let go."""
        own, campaign = self._words(), self.training
        rows = answers(found, DeviceWords(own.key, own.origin, found.digest), x, y)
        report_id, cost = own.report_id(""), self.most
        name = np.frombuffer(report_id, dtype=np.uint8)[None]
        return self.ledger.charge(
            own.origin,
            campaign.name,
            campaign.digest,
            campaign.terms.purpose,
            cost,
            cost,
            report.to_json(found, name, rows),
            report_id,
            hold=True,
        )

    def _let_go(self, entry: Entry) -> Receipt:
        """Let the bytes leave if no others have, and send them."""
        if self.ledger.let_go(entry.report_id, self._left()):
            return self._sent(entry)
        self.ledger.take_back(entry.report_id, self._left())
        raise BudgetError(
            f"{self.training.name}: another process or ledger of this key answers. Nothing was "
            "sent from here.",
            "campaign",
        )
