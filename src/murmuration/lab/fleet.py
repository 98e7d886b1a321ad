"""Many devices at once: reports in batches over several connections. For simulations and tests.

A real device keeps its value, its ledger, its key and its report to itself (`device.client`); here
one process plays them all, each with one report and a key of its own, which follows from one secret
and the number of the device.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.form import ReportForm
from murmuration.campaign.survey import SurveyCampaign
from murmuration.device.sending import (
    DUPLICATE,
    REFUSED,
    STORED,
    Link,
    Patience,
    deliver,
    outcomes,
)
from murmuration.device.training import answers
from murmuration.device.words import CrowdWords, answered, remembered
from murmuration.errors import ParameterError, SendError
from murmuration.exact.arrays import Floats, Ints, Reports, Rows
from murmuration.exact.keyed import Key, Keys
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.frame import Asked
from murmuration.training.round import Round
from murmuration.wire import report
from murmuration.wire.address import Address
from murmuration.wire.ids import ID_BYTES, Ids
from murmuration.wire.report import MOST_REPORTS

FORMS = {"binary": (report.BINARY, report.to_binary), "json": (report.JSON, report.to_json)}
MOST_BYTES = 2 << 20
"""Of one upload, about: long reports travel in smaller batches than was asked for."""
JSON_BYTES = 4
"""What a byte becomes in JSON, at most."""
JSON_HEAD = 160


@dataclass(frozen=True)
class Sent:
    """What became of many reports; those of several calls add."""

    counts: Counter[str] = field(default_factory=Counter)
    """By outcome: stored, duplicate, refused:<reason>."""
    unsent: int = 0
    """Nobody answered for these: they may have arrived, or not."""
    seconds: float = 0.0
    problem: str = ""
    """Why there are unsent ones."""

    @property
    def stored(self) -> int:
        """Counted by the collector, now."""
        return self.counts[STORED]

    @property
    def duplicates(self) -> int:
        """Counted by the collector before."""
        return self.counts[DUPLICATE]

    @property
    def refused(self) -> dict[str, int]:
        """Not counted, by reason."""
        refused = {k.removeprefix(REFUSED): n for k, n in self.counts.items() if REFUSED in k}
        return dict(sorted(refused.items()))

    @property
    def answered(self) -> int:
        """Reports that the collector said something about."""
        return self.counts.total()

    @property
    def rate(self) -> float:
        """Reports a second, answered for."""
        return self.answered / self.seconds if self.seconds > 0 else 0.0

    def __add__(self, other: Sent) -> Sent:
        return Sent(
            self.counts + other.counts,
            self.unsent + other.unsent,
            self.seconds + other.seconds,
            self.problem or other.problem,
        )


def keys_of(secret: Key, devices: Ints) -> Keys:
    """Return the key of each device: PRF(secret; "row", its number in 8 bytes, big-endian)."""
    numbers = devices.astype(">u8").view(np.uint8).reshape(-1, 8)
    return secret.each("row", numbers)


def made(
    campaign: SurveyCampaign,
    words: CrowdWords,
    columns: Sequence[NDArray[np.generic]],
    levels: Ints | None = None,
    turn: str = "",
    begun: SpellStarts | None = None,
) -> tuple[Ids, Rows]:
    """Return the ids and the rows of all devices' reports: each is what that device alone makes.

    `columns` are encoded with `words.spread`. Where the campaign has periods, `turn` names one. In
    a spell, `columns` are what people have when it begins, unless `begun` knows better.
    """
    asked = campaign.asked(columns, words.which(turn), levels)
    period = None if campaign.every is None else campaign.period_named(turn)
    spell, cells = campaign.spell_of(period), campaign.frame.cells
    parts = []
    for column in asked:
        own, law = words.only(column.who), cells[column.cell]
        kept = None if spell is None or begun is None else begun.kept(column, law, own, spell)
        parts.append((column, answered(column, law, own, turn, kept, spell)))
    return words.ids(turn), campaign.form.dated(campaign.frame.laid_out(parts), period)


class SpellStarts:
    """What spells began with, for devices that are played over several periods.

    >>> import numpy as np
    >>> begun = SpellStarts(np.array([7, 3]))
    >>> begun.first((0, 0), np.array([3, 7]), np.array([1, 0])).tolist()
    [1, 0]
    >>> begun.first((0, 0), np.array([7, 5]), np.array([1, 1])).tolist()
    [0, 1]
    """

    def __init__(self, devices: Ints) -> None:
        self.devices = devices
        """Those of the rows that are made next."""
        self._known: dict[tuple[int, int], tuple[Ints, Reports]] = {}

    def kept(self, asked: Asked, law: Mechanism, words: CrowdWords, spell: int) -> Reports:
        """Return the permanent answers of a spell: as they are known, or of the values of now."""
        drawn = remembered(asked, law, words, spell)
        return self.first((asked.cell, spell), self.devices[asked.who], drawn)

    def first(self, place: tuple[int, int], devices: Ints, drawn: Reports) -> Reports:
        """Return the first answers that these devices came with; note those that are new."""
        known, answers = self._known.get(place, (devices[:0], drawn[:0]))
        every = np.concatenate([known, devices])
        different, at, back = np.unique(every, return_index=True, return_inverse=True)
        first = np.concatenate([answers, drawn])[at]
        self._known[place] = different, first
        return np.asarray(first[back[len(known) :]])


def made_for_round(
    asked_round: Round, keys: Keys, origin: str, x: Floats, y: Floats
) -> tuple[Ids, Rows]:
    """Return the ids and the rows of devices in a round: each is what that device alone makes.

    x and y are encoded (`TrainingCampaign.encode`, by words of the campaign's digest).
    """
    ids = CrowdWords(keys, origin, asked_round.campaign.digest).ids("")
    return ids, answers(asked_round, CrowdWords(keys, origin, asked_round.digest), x, y)


def send_all(
    url: str,
    made_for: ReportForm,
    ids: Ids,
    rows: Rows,
    *,
    batch: int = 1000,
    connections: int = 4,
    token: str | None = None,
    tokens: Sequence[str] | None = None,
    progress: Callable[[int], None] | None = None,
    form: str = "binary",
    allow_plain_http: bool = False,
    patience: Patience | None = None,
) -> Sent:
    """Send one report a device; say what became of them.

    A batch is sent again as it is while the collector is busy. When nobody answers, the rest is
    left unsent. `progress` is called with the number of reports that were answered for. `tokens`:
    one for each device; then each report travels alone.
    """
    if tokens is not None and len(tokens) != len(ids):
        raise ParameterError(f"{len(ids):,} devices have a token each; got {len(tokens):,}")
    if form not in FORMS:
        raise ParameterError(f"reports are sent as {' or '.join(FORMS)}; got {form!r}")
    if not 1 <= batch <= MOST_REPORTS or connections < 1:
        raise ParameterError(f"a batch is 1 to {MOST_REPORTS:,} reports, over 1 connection or more")
    address = Address.parse(url, allow_plain_http)
    size = min(batch, _fitting(made_for, form)) if tokens is None else 1
    fleet = _Fleet(made_for, ids, rows, size, form, patience or Patience(), progress, tokens)
    start = time.perf_counter()
    with ThreadPoolExecutor(connections, thread_name_prefix="murmur-send") as pool:
        links = [Link(address, token) for _ in range(connections)]
        for running in [pool.submit(fleet.run, link) for link in links]:
            running.result()
    answered = fleet.counts.total()
    seconds = time.perf_counter() - start
    return Sent(fleet.counts, len(ids) - answered, seconds, fleet.problem)


def _fitting(made_for: ReportForm, form: str) -> int:
    """Return how many reports fit an upload."""
    plain = ID_BYTES + made_for.row_bytes
    size = plain if form == "binary" else JSON_HEAD + JSON_BYTES * plain
    return max(1, MOST_BYTES // size)


class _Fleet:
    """What the threads share: the next batch, and what became of those before."""

    def __init__(
        self,
        made_for: ReportForm,
        ids: Ids,
        rows: Rows,
        size: int,
        form: str,
        patience: Patience,
        progress: Callable[[int], None] | None,
        tokens: Sequence[str] | None,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.problem = ""
        self._made_for, self._ids, self._rows = made_for, ids, rows
        self._kind, self._write = FORMS[form]
        self._patience, self._progress, self._tokens = patience, progress, tokens
        self._starts = iter(range(0, len(ids), size))
        self._size, self._lock = size, threading.Lock()

    def run(self, link: Link) -> None:
        """Send batches until there are none, or nobody answers."""
        with link:
            while (start := self._next()) is not None:
                ids = self._ids[start : start + self._size]
                body = self._write(self._made_for, ids, self._rows[start : start + self._size])
                token = None if self._tokens is None else self._tokens[start]
                try:
                    answer = deliver(link, body, self._kind, self._patience, token)
                    counts = outcomes(answer, len(ids))
                except SendError as problem:
                    self.problem = self.problem or str(problem)
                    return
                self._note(counts)

    def _next(self) -> int | None:
        with self._lock:
            return None if self.problem else next(self._starts, None)

    def _note(self, counts: Counter[str]) -> None:
        with self._lock:
            self.counts += counts
            if self._progress is not None:
                self._progress(counts.total())
