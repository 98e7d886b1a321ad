"""The reports of another store of a training into this one: round by round, each exactly once.

One store is ahead: it has closed rounds that the other has not. A store takes what the other is
ahead by: its rounds as they were published, their reports, and the model if there is one. Of the
last round that both have, the reports add up if it is open in both, up to its size. Rounds follow
from one another, so two stores whose rounds differ are two trainings, and are refused; and so is
what one store has closed without reports that are here, as nobody can add them any more.

So a second collector begins with what the first has (merge the first into it), collects for the
round that is open, and is merged into the first before that closes the round.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from murmuration.collector.merging.reports import Advance, Joined
from murmuration.collector.publish import served
from murmuration.collector.store import Store, rounds
from murmuration.collector.store.rounds import OPEN, StoredRound
from murmuration.collector.store.runs import picked
from murmuration.collector.training.rounds import (
    Tallies,
    Training,
    counted,
    require_following,
    round_of,
)
from murmuration.counting.periods import minus
from murmuration.errors import FormatError, MismatchError
from murmuration.exact.arrays import Rows
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.round import Round
from murmuration.wire.ids import Ids


@dataclass
class JoinedRounds(Joined):
    """What came of merging one training."""

    rounds: int = 0
    """Rounds that were closed there and are closed here."""
    late: int = 0
    """Reports of rounds that were closed here without them: they count for nothing here."""
    full: int = 0
    """Reports that the open round had no room for."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A training in two stores."""

    into: Store
    other: Store
    ours: Training
    theirs: Training
    joined: JoinedRounds

    @property
    def name(self) -> str:
        """The campaign's name."""
        return self.ours.campaign.name


def merge_rounds(
    into: Store, other: Store, name: str, advance: Advance | None = None
) -> JoinedRounds:
    """Merge a training of another store into this one, all of it or nothing."""
    if into.is_same(other):
        raise MismatchError("a store cannot be merged into itself")
    if name not in into.campaigns():
        raise MismatchError(f"this store does not have the campaign {name}")
    with other.snapshot(), into.transaction():
        joined = JoinedRounds(name)
        ours = served(into, name).of_kind(TrainingCampaign)
        theirs = served(other, name).of_kind(TrainingCampaign)
        if ours.campaign.digest != theirs.campaign.digest:
            raise MismatchError(
                f"{name}: the other store's training has other features, laws or terms (digest "
                f"{theirs.campaign.digest[:16]}); only the same questions and laws add up"
            )
        _merge(Pair(into, other, ours, theirs, joined), advance)
        into.add_counts(name, Counter(received=joined.new, stored=joined.new))
    return joined


def _merge(at: Pair, advance: Advance | None) -> None:
    here, there = rounds.rounds(at.into, at.ours.key), rounds.rounds(at.other, at.theirs.key)
    for one, two in zip(here, there, strict=False):
        if one.digest != two.digest:
            raise MismatchError(
                f"{at.name}: round {one.number} here is not round {two.number} of the other store: "
                "they are two trainings"
            )
    ended, over = (
        rounds.finished(at.other, at.theirs.key),
        rounds.finished(at.into, at.ours.key),
    )
    if ended is not None and over is None and len(here) > len(there):
        raise MismatchError(
            f"{at.name}: this store has gone on after the other one ended: it has {len(here)} "
            f"rounds, and the other's model is that of {len(there)}. Nothing was merged."
        )
    if over is not None and ended is None and len(there) > len(here):
        raise MismatchError(
            f"{at.name}: the other store has gone on after this one ended: it has {len(there)} "
            f"rounds, and the model here is that of {len(here)}. Nothing was merged."
        )
    for place, kept in enumerate(there):
        own = here[place] if place < len(here) else None
        if own is None or (own.state == OPEN and kept.state != OPEN):
            _adopt(at, own, kept)
        elif own.state == OPEN:
            _add(at, own, kept)
        else:
            _compare(at, own, kept)
        if advance is not None:
            advance(sum(tally.n for tally in _counted(at.other, at.theirs, kept)))
    if ended is not None and over is None:
        rounds.finish(at.into, at.ours.key, ended)
    require_following(at.into, at.ours)


def _counted(store: Store, training: Training, kept: StoredRound) -> Tallies:
    return counted(store, kept, round_of(training.campaign, kept))


def _reports(at: Pair, kept: StoredRound, asked: Round) -> tuple[Ids, Rows]:
    """Return the reports that the other store keeps of a round; they must be what it has counted.

    None, where it keeps none.
    """
    found = [
        (picked(ids, numbers), rows)
        for ids, rows, numbers in at.other.kept_reports(kept.own, asked.form.row_bytes)
    ]
    ids = np.concatenate([np.zeros((0, 16), dtype=np.uint8), *(ids for ids, _ in found)])
    rows = np.concatenate(
        [np.zeros((0, asked.form.row_bytes), dtype=np.uint8), *(rows for _, rows in found)]
    )
    if len(ids) == 0 and not at.theirs.campaign.terms.keep_reports:
        return ids, rows
    if not asked.form.valid(rows).all():
        raise FormatError(f"{at.name}: the other store has reports that nobody can send")
    told = asked.form.tallies(rows).get(0) or asked.frame.empty()
    if told != _counted(at.other, at.theirs, kept):
        raise FormatError(f"{at.name}: the other store's reports and tallies do not agree")
    return ids, rows


def _adopt(at: Pair, own: StoredRound | None, kept: StoredRound) -> None:
    """Take a round as the other store has it, with all that it has counted."""
    asked = round_of(at.ours.campaign, kept)  # its document is checked
    if own is None:
        rounds.publish(at.into, at.ours.key, kept.number, kept.digest, kept.document, kept.opened)
        own = rounds.numbered(at.into, at.ours.key, kept.number)
    if own is None:  # pragma: no cover - it was published
        raise MismatchError(f"{at.name}: round {kept.number} is not here")
    before, after = (
        _counted(at.into, at.ours, own),
        _counted(at.other, at.theirs, kept),
    )
    if sum(tally.n for tally in before):
        _require_known_there(at, kept.number)
    try:
        more = minus({0: after}, {0: before})
    except FormatError:
        raise MismatchError(
            f"{at.name}: round {kept.number} was closed in the other store without reports that "
            "are here"
        ) from None
    at.into.add_tallies(own.own, more)
    ids, rows = _reports(at, kept, asked)
    if at.ours.campaign.terms.keep_reports:
        at.into.add_reports(own.own, ids, rows)
    _note(at, ids, sum(tally.n for tally in after))
    if kept.state != OPEN:
        rounds.settle(at.into, at.ours.key, kept.number, kept.state)
        at.joined.rounds += 1


def _require_known_there(at: Pair, number: int) -> None:
    """Refuse to leave reports out that were counted here."""
    for ids, _, _ in at.into.kept_reports(at.ours.key, 0):
        if not at.other.known_reports(at.theirs.key, ids).all():
            raise MismatchError(
                f"{at.name}: round {number} was closed in the other store without reports that are "
                "here: merge this store into that one before it closes a round"
            )


def _note(at: Pair, ids: Ids, people: int) -> None:
    """Note who has answered: from the reports, or where none are kept, from all ids."""
    if len(ids) == people:
        new = at.into.note_ids(at.ours.key, ids)
        at.joined.new += int(new.sum())
        at.joined.known += int((~new).sum())
        return
    for every, _, _ in at.other.kept_reports(at.theirs.key, 0):
        new = at.into.note_ids(at.ours.key, every)
        at.joined.new += int(new.sum())


def _add(at: Pair, own: StoredRound, kept: StoredRound) -> None:
    """Add the reports of a round that is open in both stores, as many as it has room for."""
    asked = round_of(at.ours.campaign, own)
    ids, rows = _reports(at, kept, asked)
    people = sum(tally.n for tally in _counted(at.other, at.theirs, kept))
    if people > len(ids):
        raise MismatchError(
            f"{at.name}: the other store keeps no reports (keep_reports = false), so that those of "
            f"the open round {own.number} cannot be told apart. Nothing was merged."
        )
    room = asked.size - sum(tally.n for tally in _counted(at.into, at.ours, own))
    new = np.flatnonzero(~at.into.known_reports(at.ours.key, ids)) if len(ids) else np.arange(0)
    taken = new[: max(room, 0)]
    at.joined.known += len(ids) - len(new)
    at.joined.full += len(new) - len(taken)
    at.joined.new += len(taken)
    mine, answers = picked(ids, taken), picked(rows, taken)
    at.into.note_ids(at.ours.key, mine)
    if at.ours.campaign.terms.keep_reports:
        at.into.add_reports(own.own, mine, answers)
    at.into.add_tallies(own.own, asked.form.tallies(answers))


def _compare(at: Pair, own: StoredRound, kept: StoredRound) -> None:
    """Count the reports of a round that is closed here: those that are new come too late."""
    if kept.state != OPEN and _counted(at.into, at.ours, own) != _counted(
        at.other, at.theirs, kept
    ):
        raise MismatchError(
            f"{at.name}: round {own.number} was closed in both stores, with other reports"
        )
    ids, _ = _reports(at, kept, round_of(at.ours.campaign, own))
    known = at.into.known_reports(at.ours.key, ids) if len(ids) else np.zeros(0, dtype=bool)
    at.joined.known += int(known.sum())
    at.joined.late += int((~known).sum())
