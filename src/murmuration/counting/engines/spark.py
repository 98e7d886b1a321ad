"""The same tallies on Spark: paths go to the workers, and the same kernel counts there.

Reports do not pass through the JVM, unless they are a DataFrame's: then they come as Arrow batches.
Sums are added up in a tree. To count each id once, ids and rows are shuffled in blocks by the
partition that an id is in, and each partition's are looked at by one worker.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.form import ReportForm
from murmuration.counting.engines import spill
from murmuration.counting.engines.parts import Part, Unit, counted, units
from murmuration.counting.engines.session import tidy_errors
from murmuration.counting.engines.spill import BITS, PARTITIONS, Salt
from murmuration.counting.kernel import CountedReports, count, count_rows
from murmuration.counting.sums import Sums, total
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.exact.randomness import seeded_rng, system_rng
from murmuration.files import ANYBODY, draft_of
from murmuration.wire.ids import new_ids
from murmuration.wire.parquet import arrow, batch, layout, schema, writer

SLICES = 4
"""Tasks for each core: so that no core waits long for another's last."""
FEW = 64
"""Up to so many sums are added here: a stage of Spark takes longer."""
TOGETHER = 1 << 26
"""About the bytes of ids and rows that one worker looks at together."""
Block = tuple[int, Any]
"""A partition and reports of it; -1 and sums; -2 and what went wrong."""
SUMS, WRONG = -1, -2
Crowd = Callable[[int, int], list[NDArray[np.generic]]]
"""Returns the encoded columns of people, from their first to their last number."""


def tally(session: Any, form: ReportForm, parts: Sequence[Part], *, dedup: bool = True) -> Sums:
    """Count the reports of files that all workers can open at the same paths."""
    with tidy_errors():
        context = session.sparkContext
        work = [unit for part in parts for unit in units(part)]
        held = context.broadcast(form)
        salt = spill.new_salt()
        slices = min(len(work), SLICES * context.defaultParallelism)
        files = context.parallelize(work, max(1, slices))
        if not dedup:
            return _added(
                files.mapPartitions(lambda own: _guarded(_summed(_counted(held.value, own, False))))
            )
        keys = _keys(sum(unit.reports for unit in work), form, context)
        blocks = files.mapPartitions(
            lambda own: _guarded(_blocks(held.value, _counted(held.value, own, True), salt, keys))
        )
        return _shuffled(blocks, held, keys)


def tally_frame(session: Any, form: ReportForm, frame: Any, *, dedup: bool = True) -> Sums:
    """Count the reports of a DataFrame that has the columns of `wire.parquet`, wherever from."""
    names = ["id"] * dedup + [column.name for column in layout(form)]
    if missing := [name for name in names if name not in frame.columns]:
        raise ParameterError(f"the DataFrame has no column {', '.join(missing)}")
    with tidy_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas 3, which these calls do not touch
        context, salt = session.sparkContext, spill.new_salt()
        held, keys = context.broadcast(form), max(2, 2 * context.defaultParallelism)
        keys = 1 << (keys - 1).bit_length()

        def packed(own: Iterable[Any]) -> Iterator[Any]:
            pairs = (count(held.value, batch, ids=dedup) for batch in own)
            blocks = _blocks(held.value, pairs, salt, keys) if dedup else _summed(pairs)
            for key, value in _guarded(blocks):
                made = {"key": [key], "data": [pickle.dumps(value)]}
                yield arrow().RecordBatch.from_pydict(made)

        rows = frame.select(*names).mapInArrow(packed, "key long, data binary").rdd
        blocks = rows.map(lambda row: (row[0], pickle.loads(bytes(row[1]))))  # noqa: S301 - ours
        return _shuffled(blocks, held, keys) if dedup else _added(blocks)


# --- on the workers ------------------------------------------------------------------------------


def _guarded(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks; a file that cannot be read is told as such, not as a failure of the worker."""
    try:
        yield from blocks
    except MurmurationError as problem:
        yield WRONG, problem


def _counted(
    form: ReportForm, work: Iterable[Unit], ids: bool
) -> Iterator[tuple[Sums, CountedReports | None]]:
    for unit in work:
        yield from counted(unit, form, ids=ids)


def _summed(pairs: Iterable[tuple[Sums, CountedReports | None]]) -> Iterator[Block]:
    yield SUMS, total(sums for sums, _ in pairs)


def _blocks(
    form: ReportForm, pairs: Iterable[tuple[Sums, CountedReports | None]], salt: Salt, keys: int
) -> Iterator[Block]:
    """Yield the ids and rows of each partition; last what was refused."""
    sums, held = Sums(), 0
    waiting: list[CountedReports] = []
    most = max(1, min(spill.BLOCK_ROWS, spill.BLOCK_BYTES // (16 + form.row_bytes)))
    for added, kept in pairs:
        sums.add(Sums(added.read, 0, added.refused))  # rows are counted where they meet
        if kept is not None:
            waiting.append(kept)
            held += len(kept.ids)
        if held >= most:
            yield from _cut(waiting, salt, keys)
            waiting, held = [], 0
    if held:
        yield from _cut(waiting, salt, keys)
    yield SUMS, sums


def _cut(waiting: list[CountedReports], salt: Salt, keys: int) -> Iterator[Block]:
    """Yield reports by partition."""
    high, low = spill.halves(np.concatenate([kept.ids for kept in waiting]))
    rows = np.concatenate([kept.rows for kept in waiting])
    shift = np.uint16(BITS - keys.bit_length() + 1)
    where = spill.partition(high, low, salt) >> shift
    order = np.argsort(where, kind="stable")
    sizes = np.bincount(where, minlength=keys)
    ends = np.cumsum(sizes)
    high, low, rows = high[order], low[order], np.take(rows, order, axis=0)
    for key in np.flatnonzero(sizes).tolist():
        mine = slice(int(ends[key] - sizes[key]), int(ends[key]))
        yield key, (high[mine], low[mine], rows[mine])


def _met(form: ReportForm, blocks: Iterable[Block]) -> Iterator[Block]:
    """Count the reports of partitions, each id once."""
    held: dict[int, list[Any]] = {}
    sums = Sums()
    for key, value in blocks:
        if key == SUMS:
            sums.add(value)
        elif key == WRONG:
            yield WRONG, value
            return
        else:
            held.setdefault(key, []).append(value)
    while held:
        _, parts = held.popitem()
        high, low, rows = (np.concatenate(column) for column in zip(*parts, strict=True))
        counts = np.ones(len(high), dtype=bool)
        counts[spill.surplus_of(high, low, rows)] = False
        counted = count_rows(form, rows[counts])
        sums.add(Sums(0, len(high) - counted.read, periods=counted.periods))
    yield SUMS, sums


# --- bringing it together ------------------------------------------------------------------------


def _keys(reports: int, form: ReportForm, context: Any) -> int:
    """Return into how many partitions reports are shuffled: a power of two."""
    wanted = max(reports * (16 + form.row_bytes) // TOGETHER, 2 * context.defaultParallelism)
    return min(PARTITIONS, 1 << (max(1, int(wanted)) - 1).bit_length())


def _shuffled(blocks: Any, held: Any, keys: int) -> Sums:
    met = blocks.partitionBy(keys, lambda key: max(key, 0))
    return _added(met.mapPartitions(lambda own: _guarded(_met(held.value, own))))


def _added(sums_of_workers: Any) -> Sums:
    """Add sums, in a tree if there are many; raise what went wrong on a worker, as it was there."""
    few = sums_of_workers.getNumPartitions() <= FEW
    key, value = (
        reduce(_both, sums_of_workers.collect(), (SUMS, Sums()))
        if few
        else sums_of_workers.treeReduce(_both, depth=2)
    )
    if key == WRONG:
        raise FormatError(str(value)) from None
    sums: Sums = value
    return sums


def _both(block: Block, other: Block) -> Block:
    if WRONG in (block[0], other[0]):
        return block if block[0] == WRONG else other
    return SUMS, total([block[1], other[1]])


# --- privatising ---------------------------------------------------------------------------------


def privatize(
    session: Any,
    campaign: Any,
    crowd: Crowd,
    people: int,
    folder: Path,
    *,
    parts: int = 16,
    seed: int | None = None,
) -> list[Path]:
    """Play many devices on the workers, which write Parquet parts into a folder that all share.

    `crowd(first, last)` returns the encoded columns of some people. Words are the operating
    system's, unless there is a seed. For simulation: a real device keeps its answer to itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, people, parts + 1).astype(int).tolist()
    pieces = [(place, edges[place], edges[place + 1]) for place in range(parts)]
    with tidy_errors():
        context = session.sparkContext
        held = context.broadcast(campaign)

        def written(piece: tuple[int, int, int]) -> str:
            return str(_written(held.value, crowd, folder, piece, seed))

        return [Path(path) for path in context.parallelize(pieces, parts).map(written).collect()]


def _written(
    campaign: Any, crowd: Crowd, folder: Path, piece: tuple[int, int, int], seed: int | None
) -> Path:
    """Write one part, aside and renamed: a worker that is killed leaves none with its name."""
    place, first, last = piece
    rng = system_rng() if seed is None else seeded_rng(seed * 1_000_003 + place)
    path, kind = folder / f"part-{place:06}.parquet", schema(campaign.form)
    with draft_of(path, ANYBODY) as draft, writer(draft, kind) as file:
        for start in range(first, last, 1 << 18):
            end = min(last, start + (1 << 18))
            rows = campaign.privatize(crowd(start, end), rng)
            file.write_batch(batch(campaign.form, new_ids(end - start, rng), rows, kind))
    return path
