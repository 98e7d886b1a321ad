"""A device in a training: one report in all rounds, charged once, never a second answer.

    find       has this training a report already? it is that one, whatever is asked now
    round      fetch the open round: checked, witnessed, in one chain with the rounds that this
               device was shown or an app pins; none is open: nothing is charged
    role       drawn by a public coin: it never looks at the answer
    answer     the value of that role's question, clamped; words keyed on features and target
    reserve    these bytes, and no others, may leave for this training
    send       those bytes, again and again if need be

The id of the report is the training's, not the round's: the key's record reserves the bytes of one
round under it, and refuses those of every other. From then on the report counts as sent, also where
nobody was reached: the charge stays, and "stale-round" and "round-full" are answers like any other,
the last ones. A device that is killed before has charged nothing, and answers the round that is
open when it comes back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from murmuration.device.costs import Cost
from murmuration.device.ledger import Entry, Ledger, Session
from murmuration.device.misfits import ERROR, Misfit, misfits_of, require_fitting, warn
from murmuration.device.record import Charge
from murmuration.device.words import CrowdWords, DeviceWords
from murmuration.errors import NoRoundError
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


class Trainee(ABC):
    """What a client does in a training; what it keeps is in ledger and record."""

    ledger: Ledger
    _misfit: str

    @property
    @abstractmethod
    def training(self) -> TrainingCampaign:
        """The campaign."""

    @property
    @abstractmethod
    def most(self) -> Cost:
        """What one report costs."""

    @abstractmethod
    def _words(self, session: Session) -> DeviceWords:
        """Return the words of this device for this collector and training."""

    @abstractmethod
    def _open_round(self, known: Mapping[int, str]) -> Round | None:
        """Return the open round, in one chain with those that are known; None if none is open."""

    @abstractmethod
    def _require_open(self) -> None:
        """Refuse what the collector would refuse."""

    @abstractmethod
    def _require_small(self, session: Session) -> None:
        """Refuse what may cost more than the person gives for a report."""

    @abstractmethod
    def _sent(self, session: Session, entry: Entry) -> Receipt:
        """Send the bytes that the ledger holds, and note the answer."""

    @abstractmethod
    def _receipt(self, entry: Entry) -> Receipt:
        """Return what became of a report."""

    def train(self, features: Mapping[str, Any], target: Any) -> Receipt:
        """Answer the open round of a training, once in all rounds; say what became of it.

        `features` are raw values by name, `target` one more. Where no round is open, `NoRoundError`
        says so, and nothing is charged: come back later. Otherwise as `Client.report`.
        """
        campaign = self.training
        with self.ledger.session() as session:
            words = self._words(session)
            given = {name: [value] for name, value in features.items()}
            rngs = words.spread(question.name for question in campaign.questions)
            misfits = misfits_of(campaign.questions, {**features, campaign.target.name: target})
            if self._misfit == ERROR:
                require_fitting(misfits)
            x, y = campaign.encode(given, [target], rngs, never_silent=True)
            warn(misfits)
            known = session.find(words.origin, campaign.digest)
            entry = known or self._answered_round(session, words, x, y, misfits)
            receipt = self._receipt(entry) if entry.outcome else self._sent(session, entry)
        return replace(receipt, new=known is None, misfits=misfits)

    def _answered_round(
        self,
        session: Session,
        words: DeviceWords,
        x: Floats,
        y: Floats,
        misfits: tuple[Misfit, ...],
    ) -> Entry:
        """Draw the report of the round that is open, and reserve it."""
        self._require_open()
        self._require_small(session)
        found = self._open_round(session.rounds(words.origin, words.digest))
        if found is None:
            raise NoRoundError(
                f"no round of {self.training.name} is open now. Nothing was sent, and nothing "
                "charged."
            )
        session.note_rounds(words.origin, words.digest, {found.number: found.digest})
        with session.deciding():
            known = session.find(words.origin, words.digest)  # by another process, meanwhile
            return known or session.reserve(
                replace(
                    self._charge(found, words, x, y),
                    misfits=[(misfit.attribute, misfit.reason) for misfit in misfits],
                )
            )

    def _charge(self, found: Round, words: DeviceWords, x: Floats, y: Floats) -> Charge:
        """Draw the report, and say what is to be charged for it."""
        rows = answers(found, replace(words, digest=found.digest), x, y)
        report_id, campaign = words.report_id(""), self.training
        name = np.frombuffer(report_id, dtype=np.uint8)[None]
        return Charge(
            origin=words.origin,
            campaign=campaign.name,
            digest=campaign.digest,
            purpose=campaign.terms.purpose,
            cost=self.most,
            limit=self.most,
            report=report.to_json(found.form, name, rows),
            report_id=report_id,
        )
