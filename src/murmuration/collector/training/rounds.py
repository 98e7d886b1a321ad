"""The rounds of a training at the collector: which reports count, and what follows from them.

A round takes so many reports, and no more. An id counts once over all rounds: one report a device
in all. A round is closed when it is full, or when its time is over and each of its roles has as
many reports as the cohort; until then it stays open. What follows (the next round, or the model) is
worked out from the tallies of all closed rounds (`training.run`), and is published in the
transaction that closes the round. So a crash finds a round open, or closed with what follows, never
anything in between; and of several workers one closes it, as a transaction locks the store.

A campaign that closes ends with what was reached. A round that then has too few reports is set
aside: they count for nothing. Nor does a role with fewer reports than the cohort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
import numpy as np

from murmuration.campaign.form import ReportForm
from murmuration.collector.access.participants import uses
from murmuration.collector.served import Served, Sink
from murmuration.collector.store import Store, StoreError, rounds
from murmuration.collector.store.rounds import ASIDE, CLOSED, OPEN, StoredRound
from murmuration.collector.store.runs import picked
from murmuration.collector.training import model
from murmuration.exact.arrays import Ints
from murmuration.mechanisms.tally import Tally
from murmuration.training import round as round_document
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round, RoundDocument
from murmuration.training.run import LiveTraining
from murmuration.wire.ids import in_order
from murmuration.wire.report import CODES, FINE, Codes, Upload, copy_first_outcome

DUPLICATE, STALE, FULL = CODES["duplicate"], CODES["stale-round"], CODES["round-full"]
OTHER_RELEASE = (
    "the rounds of this training do not follow from its tallies any more: another release, or "
    "another machine, has published them. Nothing is lost; go on with the release that began it"
)

Tallies = tuple[Tally, ...]


Training = Served[TrainingCampaign]
"""A training that is being collected for, and where its rounds are."""


@dataclass(frozen=True, eq=False)
class RoundIntake:
    """A round that reports are for."""

    training: Training
    kept: StoredRound
    round: Round
    older: frozenset[str]
    """The digests of the training's other rounds."""

    outdated = "stale-round"

    @property
    def form(self) -> ReportForm:
        """What reports are made for."""
        return self.round.form

    @property
    def campaign(self) -> TrainingCampaign:
        """The training's campaign."""
        return self.training.campaign

    @property
    def key(self) -> int:
        """The training's key."""
        return self.training.key

    @property
    def number(self) -> int:
        """The round's number."""
        return self.kept.number

    def keys_of_older(self, store: Store) -> list[int]:
        """Ids of all rounds are the training's."""
        del store
        return [self.key]

    def take(
        self, store: Store, upload: Upload, tokens: Sequence[bytes], reports: Sink | None
    ) -> Codes:
        """Store and count a round's reports, in a transaction; return the problems of all.

        One that was counted before is a duplicate, whatever has become of its round: the device
        that sends it again has to know that it counts. Each of `tokens` counts once in all rounds.
        Reports of trainings stay in the store.
        """
        del reports
        problems, fine = upload.problems.copy(), np.flatnonzero(upload.problems == FINE)
        order, first = in_order(upload.ids)
        chosen = order[first]
        known = store.known_reports(self.key, picked(upload.ids, chosen))
        new = np.sort(chosen[~known])  # as they came
        codes = np.full(len(upload.ids), DUPLICATE, dtype=np.uint8)
        kept = rounds.numbered(store, self.key, self.number)
        if kept is None or kept.state != OPEN:
            codes[new] = STALE
        else:
            room = max(0, self.round.size - _answered(counted(store, kept, self.round)))
            codes[new] = FULL
            taken = _with_tokens(store, self, tokens, new, codes, room) if tokens else new[:room]
            codes[taken] = FINE
            _count(store, self, upload, taken)
        problems[fine] = copy_first_outcome(codes, order, first)
        return problems


def taking(store: Store, served: Training, digest: str = "") -> RoundIntake | None:
    """Return the round of a digest, or the last that was published; None before the first."""
    known = rounds.digests(store, served.key)
    number = known.get(digest) or max(known.values(), default=0)
    kept = rounds.numbered(store, served.key, number)
    if kept is None:
        return None
    past = frozenset(known) - {kept.digest}
    return RoundIntake(served, kept, round_of(served.campaign, kept), past)


def round_of(campaign: TrainingCampaign, kept: StoredRound) -> Round:
    """Return a round as it was published."""
    return round_document.read(kept.document, campaign)


def counted(store: Store, kept: StoredRound, asked_round: Round) -> Tallies:
    """Return the tallies of a round, one per role."""
    return store.tallies(kept.digest, asked_round.frame.cells).get(0) or asked_round.frame.empty()


def size_of(kept: StoredRound) -> int:
    """Return how many reports a round takes."""
    return msgspec.json.decode(kept.document, type=RoundDocument).people


def deadline_of(kept: StoredRound) -> datetime | None:
    """Return when a round closes with those who came."""
    return msgspec.json.decode(kept.document, type=RoundDocument).closes


GOES_ON, OVER, IS_FULL, CLOSED_NOW, EARLY = (
    "a round takes reports",
    "training is over",
    "the round has all reports that it asks for, and is about to be closed",
    "the campaign is closed",
    "the campaign has not opened",
)


def where(store: Store, served: Training) -> tuple[str, StoredRound | None]:
    """Say whether a round takes reports, or why none does; and return the last that there is."""
    with store.snapshot():
        kept = rounds.latest(store, served.key)
        if rounds.finished(store, served.key) is not None:
            return OVER, kept
        if kept is None:
            return EARLY, None
        tallies = counted(store, kept, round_of(served.campaign, kept))
        full = _answered(tallies) >= size_of(kept)
        return IS_FULL if full else GOES_ON, kept


# --- reports -------------------------------------------------------------------------------------


def _with_tokens(
    store: Store, at: RoundIntake, tokens: Sequence[bytes], new: Ints, codes: Codes, room: int
) -> Ints:
    """Return the new reports that count, the first of each token, and note the others' problems.

    A token that there is no room for is not used up, however many reports come with it.
    """
    used = uses(store, at.key, [tokens[place] for place in new.tolist()], np.zeros_like(new))
    inside = used.first & (np.cumsum(used.first) <= room)
    unused = {used.hashes[place] for place in np.flatnonzero(used.first & ~inside).tolist()}
    full = np.array([hashed in unused for hashed in used.hashes], dtype=bool)
    codes[new] = np.where(full, FULL, CODES["token-used"])
    codes[new[used.closed]] = CODES["outside-window"]
    used.note(store, inside)
    return new[inside]


def _count(store: Store, at: RoundIntake, upload: Upload, taken: Ints) -> None:
    """Store some reports and add them to the round's tallies."""
    if not len(taken):
        return
    ids, rows = picked(upload.ids, taken), picked(upload.rows, taken)
    store.note_ids(at.key, ids)
    if at.campaign.terms.keep_reports:
        store.add_reports(at.kept.own, ids, rows)
    else:
        store.scrub_log()
    store.add_tallies(at.kept.own, at.form.tallies(rows))
    store.note_hour(at.key)


def _answered(tallies: Sequence[Tally]) -> int:
    return sum(tally.n for tally in tallies)


# --- what follows from them ----------------------------------------------------------------------


def is_due(store: Store, served: Training, now: float) -> bool:
    """Whether something is to be done: a round to be published or closed, or training to end."""
    with store.snapshot():
        if rounds.finished(store, served.key) is not None or _is_early(served, now):
            return False
        kept = rounds.latest(store, served.key)
        if kept is None or _is_late(served, now):
            return True
        asked_round = round_of(served.campaign, kept)
        tallies = counted(store, kept, asked_round)
        return _closes(served, kept, tallies, now)


def advance(store: Store, served: Training, now: float) -> None:
    """Do what is due, in one transaction; whoever comes second finds nothing to do."""
    with store.transaction():
        if rounds.finished(store, served.key) is not None or _is_early(served, now):
            return
        training, kept = _replayed(store, served)
        if kept is None:
            _publish(store, served, training, now)
            return
        tallies = counted(store, kept, round_of(served.campaign, kept))
        late = _is_late(served, now)
        if late and not _enough(served, tallies):
            rounds.settle(store, served.key, kept.number, ASIDE)
            _finish(store, served, training)
        elif late or _closes(served, kept, tallies, now):
            training.close(_counting(tallies, served.campaign.terms.cohort))
            rounds.settle(store, served.key, kept.number, CLOSED)
            if late or training.round is None:
                _finish(store, served, training)
            else:
                _publish(store, served, training, now)


def _closes(served: Training, kept: StoredRound, tallies: Sequence[Tally], now: float) -> bool:
    """Whether a round is full, or its time is over and enough people have answered."""
    if _answered(tallies) >= size_of(kept):
        return True
    closes = deadline_of(kept)
    return closes is not None and now >= closes.timestamp() and _enough(served, tallies)


def _enough(served: Training, tallies: Sequence[Tally]) -> bool:
    """Whether each role has as many reports as the cohort."""
    return min(tally.n for tally in tallies) >= served.campaign.terms.cohort


def _counting(tallies: Sequence[Tally], cohort: int) -> Tallies:
    """Return the tallies that count: nothing is worked out from fewer people than the cohort."""
    return tuple(tally if tally.n >= cohort else tally.mechanism.empty() for tally in tallies)


def _is_early(served: Training, now: float) -> bool:
    opens = served.campaign.terms.opens
    return opens is not None and now < opens.timestamp()


def _is_late(served: Training, now: float) -> bool:
    closes = served.campaign.terms.closes
    return closes is not None and now >= closes.timestamp()


def _publish(store: Store, served: Training, training: LiveTraining, now: float) -> None:
    """Publish the training's open round."""
    closes = datetime.fromtimestamp(int(now) + served.campaign.deadline, UTC)
    last = rounds.latest(store, served.key)
    asked_round = training.opened(closes, "" if last is None else last.digest)
    if asked_round is None:
        raise StoreError("there is no round to publish")
    document = round_document.publish(asked_round)
    rounds.publish(store, served.key, asked_round.number, asked_round.digest, document, int(now))


def _finish(store: Store, served: Training, training: LiveTraining) -> None:
    """Keep what training has ended with."""
    training.end()
    people = sum(_answered(tallies) for tallies in closed_tallies(store, served))
    trained = model.of(served.campaign, training.trained, people)
    rounds.finish(store, served.key, model.to_json(trained))


def closed_tallies(store: Store, served: Training) -> list[Tallies]:
    """Return what counts of each closed round, in order."""
    return [
        _counting(
            counted(store, kept, round_of(served.campaign, kept)),
            served.campaign.terms.cohort,
        )
        for kept in rounds.rounds(store, served.key)
        if kept.state == CLOSED
    ]


def replayed(store: Store, served: Training) -> LiveTraining:
    """Return the training as it is: all of it follows from the tallies of closed rounds."""
    return LiveTraining(served.campaign, closed_tallies(store, served))


def require_following(store: Store, served: Training) -> None:
    """Refuse rounds that do not follow from the tallies of those before."""
    if rounds.finished(store, served.key) is None:
        _replayed(store, served)


def _replayed(store: Store, served: Training) -> tuple[LiveTraining, StoredRound | None]:
    """Return the training and its open round, which must be the one that was published."""
    training, kept = replayed(store, served), rounds.latest(store, served.key)
    if kept is not None:
        published = msgspec.json.decode(kept.document, type=RoundDocument).asked
        after = str(msgspec.json.decode(published)["after"])
        asked_round = training.opened(None, after)
        asked = "" if asked_round is None else asked_round.text
        if asked != published and not _alike(
            msgspec.json.decode(asked or "0"), msgspec.json.decode(published)
        ):
            raise StoreError(OTHER_RELEASE)
    return training, kept


def _alike(ours: object, other: object) -> bool:
    """Whether two rounds ask the same but for the last digits: machines add in different orders.

    >>> _alike({"level": 0.1 + 0.2}, {"level": 0.3}), _alike([0.3], [0.3001]), _alike([1], [1, 2])
    (True, False, False)
    """
    if isinstance(ours, dict) and isinstance(other, dict):
        return ours.keys() == other.keys() and all(_alike(ours[key], other[key]) for key in ours)
    if isinstance(ours, list) and isinstance(other, list):
        return len(ours) == len(other) and all(map(_alike, ours, other))
    if isinstance(ours, float) and isinstance(other, float):
        return math.isclose(ours, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(ours) is type(other) and ours == other
