"""Reports that are made of several entries: which cell, then that cell's own bytes.

A *cell* is one law: a mechanism, for an attribute (at a level, if people choose levels) or for all
attributes together. Cells come in groups, and the strategy says which groups a report names. A
report is a row of bytes of one length: for each entry the cell's number, the cell's report, and
zeros up to the longest that the entry can be. So no length depends on a value. A collector keeps
one tally per cell.

Campaigns, levels and the mechanisms that sample attributes are all frames.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.errors import MismatchError, ParameterError, ReportError
from murmuration.exact.arrays import Bits, Ints, Reports, Rows
from murmuration.exact.loss import Loss, product, size
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism, checked_rows
from murmuration.mechanisms.domain import Values
from murmuration.mechanisms.packing import integer_rows, row_integers
from murmuration.mechanisms.strategy import Strategy
from murmuration.mechanisms.tally import Tally

MOST_CELLS = 1 << 16
CellNumbers = NDArray[np.unsignedinteger[Any]]
Entry = tuple[CellNumbers, Rows]
"""One entry of many reports: the cells' numbers, and the cells' own bytes, zeros included."""
Entries = Sequence[Entry]


@dataclass(frozen=True, eq=False)
class Asked:
    """Some of `people` who answer one entry by one cell, and the values that they answer with."""

    people: int
    entry: int
    cell: int
    who: Ints
    values: Values

    def answered(self, law: Mechanism, rng: Rng) -> Rows:
        """Return their reports."""
        return law.to_rows(law.privatize(self.values, rng))


@dataclass(frozen=True)
class Frame:
    """Groups of cells, and the strategy by which a report names them.

    `numbered=False` leaves the cells' numbers out, where each entry can only be one cell.

    >>> from murmuration import mechanism, seeded_rng
    >>> from murmuration.mechanisms.strategy import Sample
    >>> frame = Frame(((mechanism("duchi", 1.0),), (mechanism("grr", 1.0, k=3),)), Sample())
    >>> rows = frame.privatize([np.array([0.5, 1.0]), np.array([2, 0])], seeded_rng(1))
    >>> rows.shape, [tally.n for tally in frame.tally(rows)], frame.loss(1.0).holds
    ((2, 2), [2, 0], True)
    """

    groups: tuple[tuple[Mechanism, ...], ...]
    strategy: Strategy
    numbered: bool = True

    def __post_init__(self) -> None:
        if not 0 < len(self.cells) <= MOST_CELLS:
            raise ParameterError(f"there are 1 to {MOST_CELLS:,} cells; got {len(self.cells)}")
        self.strategy.check(len(self.groups))

    # --- the shape of a report -------------------------------------------------------------------

    @cached_property
    def cells(self) -> tuple[Mechanism, ...]:
        """All laws, group by group."""
        return tuple(cell for group in self.groups for cell in group)

    @cached_property
    def cells_of(self) -> tuple[range, ...]:
        """The numbers of each group's cells."""
        ends = np.cumsum([0, *map(len, self.groups)]).tolist()
        return tuple(range(a, b) for a, b in pairwise(ends))

    @cached_property
    def group_of(self) -> Ints:
        """The group of each cell."""
        return np.repeat(np.arange(len(self.groups)), [len(group) for group in self.groups])

    @cached_property
    def index_bytes(self) -> int:
        """Bytes of a cell's number."""
        return 0 if not self.numbered else 1 if len(self.cells) <= 1 << 8 else 2

    @cached_property
    def slots(self) -> tuple[range, ...]:
        """The cells that each entry of a report can name."""
        return self.strategy.may_name(self.cells_of)

    @cached_property
    def sizes(self) -> Ints:
        """The bytes of each cell's own report."""
        return np.array([cell.report_bytes for cell in self.cells], dtype=np.int64)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """The bytes of each entry."""
        largest = (int(self.sizes[slot.start : slot.stop].max()) for slot in self.slots)
        return tuple(self.index_bytes + size for size in largest)

    @property
    def row_bytes(self) -> int:
        """The bytes of a report: the same for everybody."""
        return sum(self.widths)

    def entries(self, rows: Rows) -> list[Entry]:
        """Cut rows into entries."""
        parts = np.split(rows, np.cumsum(self.widths)[:-1], axis=1)
        cut = zip(self.slots, parts, strict=True)
        return [(self._numbers(slot, part), part[:, self.index_bytes :]) for slot, part in cut]

    def _numbers(self, slot: range, part: Rows) -> CellNumbers:
        if not self.numbered:
            return np.broadcast_to(np.uint16(slot.start), len(part))
        return row_integers(part[:, : self.index_bytes])

    # --- device ----------------------------------------------------------------------------------

    def privatize(self, values: Sequence[Values], rng: Rng, levels: Ints | None = None) -> Rows:
        """DEVICE. Turn checked values, one column per group, into reports."""
        asked = self.asked(values, rng, levels)
        return self.laid_out(
            [(some, some.answered(self.cells[some.cell], rng.only(some.who))) for some in asked]
        )

    def asked(
        self, values: Sequence[Values], rng: Rng, levels: Ints | None = None
    ) -> Iterator[Asked]:
        """DEVICE. Draw who answers what, in public, then yield each cell's people and values.

        `levels` says which cell of each group a person answers by: one row per person.
        """
        people = self.groups[0][0].domain.count(values[0])
        drawn = self.strategy.asked(len(self.groups), people, rng.public())
        for entry, groups in enumerate(drawn.T):
            for group in _different(groups):
                for level, cell in enumerate(self.cells_of[group]):
                    mine = groups == group
                    if levels is not None:
                        mine &= levels[:, group] == level
                    if len(who := np.flatnonzero(mine)):
                        own = self.cells[cell].domain.part(values[group], who)
                        yield Asked(people, entry, cell, who, own)

    def laid_out(self, answers: Sequence[tuple[Asked, Rows]]) -> Rows:
        """DEVICE. Write each cell's reports into the entries of those who sent them."""
        people = answers[0][0].people if answers else 0
        entries = [np.zeros((people, width), dtype=np.uint8) for width in self.widths]
        start = self.index_bytes
        for asked, sent in answers:
            entry, width = entries[asked.entry], self.cells[asked.cell].report_bytes
            entry[asked.who, :start] = integer_rows(np.array([asked.cell]), start)
            entry[asked.who, start : start + width] = sent
        return np.concatenate(entries, axis=1)

    # --- collector -------------------------------------------------------------------------------

    def valid(self, rows: Rows, name: str = "a frame") -> Bits:
        """COLLECTOR. Tell for each row whether a device can have sent it."""
        return self._possible(self.entries(checked_rows(rows, self.row_bytes, name)))

    def _possible(self, entries: Entries) -> Bits:
        fine = self._named(entries)
        whole = bool(fine.all())
        for slot, (numbers, octets) in zip(self.slots, entries, strict=True):
            named = numbers if whole else np.where(fine, numbers, slot.start)
            for cell, who, own in _by_cell(named, octets):
                fine[who] &= self._read(cell, own)[1]
        return fine

    def _named(self, entries: Entries) -> Bits:
        """Tell which reports name cells that their entries can have, groups going up."""
        fine, last = np.ones(len(entries[0][0]), dtype=bool), None
        for slot, (numbers, _) in zip(self.slots, entries, strict=True):
            if len(fine) and (numbers.min() < slot.start or numbers.max() >= slot.stop):
                fine &= (numbers >= slot.start) & (numbers < slot.stop)
            if len(self.slots) > 1:
                group = self.group_of[np.minimum(numbers, len(self.cells) - 1)]
                fine &= True if last is None else group > last
                last = group
        return fine

    def _read(self, cell: int, octets: Rows) -> tuple[Reports, Bits]:
        """Return a cell's reports, and which its mechanism takes, with nothing after them."""
        law = self.cells[cell]
        reports = law.from_rows(octets[:, : law.report_bytes])
        fits, rest = law.possible(reports), octets[:, law.report_bytes :]
        return reports, fits & ~rest.any(axis=1) if rest.any() else fits

    def complaint(self, rows: Rows, bad: int) -> str:
        """Say what is wrong with row number `bad`, which is not valid."""
        row = rows[bad : bad + 1]
        if not self._named(self.entries(row))[0]:
            return f"report {bad} names attributes that it cannot have"
        for numbers, octets in self.entries(row):
            cell = int(numbers[0])
            law, group = self.cells[cell], int(self.group_of[cell])
            if octets[:, law.report_bytes :].any():
                return f"report {bad} on attribute {group} is longer than it can be"
            sent = law.from_rows(octets[:, : law.report_bytes])
            if not law.possible(sent)[0]:
                return f"report {bad}, on attribute {group}: {law.complaint(sent, 0)}"
        raise ValueError("this row is valid")

    def tally(self, rows: Rows, name: str = "a frame") -> tuple[Tally, ...]:
        """COLLECTOR. Count reports, one tally per cell. Refuses what no device can have sent."""
        sums, fine = self.sift(self.entries(checked_rows(rows, self.row_bytes, name)))
        if not fine.all():
            raise ReportError(self.complaint(rows, int(fine.argmin())))
        return self.tallies(sums)

    def sift(self, entries: Entries) -> tuple[Ints, Bits]:
        """COLLECTOR. Add up the reports that devices can have sent; tell which these are.

        Nearly always all are: then each entry is decoded once.
        """
        sums, fine = np.zeros(self.ends[-1], dtype=np.int64), self._named(entries)
        if fine.all():
            for cell, _, own in _each(entries):
                reports, fits = self._read(cell, own)
                if not fits.all():
                    break
                self._add(sums, cell, reports)
            else:
                return sums, fine
        fine = self._possible(entries)
        return self._sums([(numbers[fine], octets[fine]) for numbers, octets in entries]), fine

    def sums(self, rows: Rows) -> Ints:
        """COLLECTOR. Add up rows that are known to be valid: nothing is checked twice.

        One vector: how many entries each cell has, then the counters of each cell.
        """
        return self._sums(self.entries(rows))

    def _sums(self, entries: Entries) -> Ints:
        sums = np.zeros(self.ends[-1], dtype=np.int64)
        for cell, _, own in _each(entries):
            law = self.cells[cell]
            self._add(sums, cell, law.from_rows(own[:, : law.report_bytes]))
        return sums

    def _add(self, sums: Ints, cell: int, reports: Reports) -> None:
        sums[cell] += len(reports)
        sums[self.ends[cell] : self.ends[cell + 1]] += self.cells[cell].count(reports)

    @cached_property
    def ends(self) -> list[int]:
        """Where each cell's counters begin in such a vector, and where the last one's end."""
        ends: list[int] = np.cumsum([len(self.cells), *(c.counters for c in self.cells)]).tolist()
        return ends

    def tallies(self, sums: Ints) -> tuple[Tally, ...]:
        """Return such a vector as tallies, one per cell."""
        own = zip(self.cells, pairwise(self.ends), sums.tolist(), strict=False)
        return tuple(Tally(cell, sums[start:end], n) for cell, (start, end), n in own)

    def empty(self) -> tuple[Tally, ...]:
        """Return the tallies of nobody."""
        return tuple(cell.empty() for cell in self.cells)

    # --- analyst ---------------------------------------------------------------------------------

    def reports(self, tallies: Sequence[Tally]) -> int:
        """Return how many reports these tallies count; at least, where cells were left out."""
        groups = [sum(tallies[cell].n for cell in cells) for cells in self.cells_of]
        return max(sum(groups) // len(self.slots), *groups)

    def by_group(self, tallies: Sequence[Tally]) -> list[list[Tally]]:
        """Return each group's tallies; refuse tallies of other laws."""
        if [tally.mechanism.fingerprint for tally in tallies] != self.fingerprints:
            raise MismatchError("these tallies are not of these laws, one for each")
        return [[tallies[cell] for cell in cells] for cells in self.cells_of]

    @cached_property
    def fingerprints(self) -> list[str]:
        """The laws' fingerprints."""
        return [cell.fingerprint for cell in self.cells]

    # --- auditor ---------------------------------------------------------------------------------

    def loss(self, claimed: float, level: int | None = None) -> Loss:
        """AUDITOR. The exact loss of one report, at a level or at the most open ones.

        The product of the ratios of the costliest groups that one report can name: which it names
        is drawn independently of the answers and tells nothing.
        """
        chosen = slice(None) if level is None else slice(level, level + 1)
        worst = [max((cell.loss() for cell in group[chosen]), key=size) for group in self.groups]
        return product(self.strategy.costliest(worst, size), claimed)

    def budget(self, level: int | None = None) -> Fraction:
        """Return what the budgets of the entries of one report come to, at most (at a level)."""
        chosen = slice(None) if level is None else slice(level, level + 1)
        worst = [max(Fraction(cell.budget) for cell in group[chosen]) for group in self.groups]
        return sum(self.strategy.costliest(worst, lambda budget: budget), start=Fraction(0))


def _different(numbers: Ints) -> list[int]:
    """Return the different ones among small numbers, in order, without sorting them all.

    >>> _different(np.array([3, 0, 3]))
    [0, 3]
    """
    different: list[int] = np.flatnonzero(np.bincount(numbers)).tolist()
    return different


def _each(entries: Entries) -> Iterator[tuple[int, slice | Ints, Rows]]:
    for numbers, octets in entries:
        yield from _by_cell(numbers, octets)


def _by_cell(numbers: CellNumbers, octets: Rows) -> Iterator[tuple[int, slice | Ints, Rows]]:
    """Yield each cell, who answers by it, and the bytes of these people."""
    if not len(numbers):
        return
    if numbers.min() == numbers.max():
        yield int(numbers[0]), slice(None), octets
        return
    order = np.argsort(numbers, kind="stable")  # of small integers: by counting, in linear time
    sizes = np.bincount(numbers)
    ends, ordered = np.cumsum(sizes), octets[order]
    for cell in np.flatnonzero(sizes).tolist():
        mine = slice(int(ends[cell] - sizes[cell]), int(ends[cell]))
        yield cell, order[mine], ordered[mine]
