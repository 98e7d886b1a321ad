"""A folder of reports that any engine reads without us: Parquet parts by campaign, digest and day.

    commute/digest=3f2a90c1d7e84b56/_campaign.json        what was published: questions and laws
    commute/digest=3f2a90c1d7e84b56/_cells.csv            what each cell's number means
    commute/digest=3f2a90c1d7e84b56/day=2026-11-18/part-9c0e1f7a52b34d68-000001.parquet

The columns are those of `wire.parquet`. A part is written aside, synced, and renamed: it is whole
or not there, and never changes. Its name has that of the group of reports that it was made of: a
part of a store (`export`) or a log (`log`), whose reports stay the same for good. So what is in the
folder is known by the names that are there: made again after a crash, a part gets the same name.

Reports of a part are in the order of their ids, which tells nothing of who came when. Engines leave
alone what begins with `_` or `.`.
"""

from __future__ import annotations

import csv
import io
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from murmuration import files
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError, ParameterError
from murmuration.exact.arrays import Rows
from murmuration.files import OWNER, private_file, sync_folder, write_file
from murmuration.results.table import csv_cell
from murmuration.wire import parquet
from murmuration.wire.ids import Ids

DIGITS = 16
"""Hexadecimal digits of the digest in a folder's name."""
CAMPAIGN, CELLS, LOCK = "_campaign.json", "_cells.csv", "_lock"
GROUP_ROWS = 1 << 17
"""Reports in a row group: what a reader holds at once."""
PART_ROWS = 1 << 20
"""Reports in a part."""
PART = re.compile(r"part-(?P<group>[0-9a-f]{16})-(?P<number>\d{6,})\.parquet")
OWNERS, GROUPS = 0o700, 0o2750
GROUP_READS = 0o640


@dataclass(frozen=True)
class Place:
    """Where the reports of one digest are."""

    path: Path
    campaign: SurveyCampaign

    def parts(self) -> dict[str, Path]:
        """Return all parts by name."""
        paths = self.path.glob("day=*/part-*.parquet")
        return {path.name: path for path in paths if PART.fullmatch(path.name)}


def place_of(folder: Path, campaign: SurveyCampaign) -> Path:
    """Return the folder of a campaign's digest.

    >>> place_of(Path("reports"), campaign)  # doctest: +SKIP
    PosixPath('reports/commute/digest=3f2a90c1d7e84b56')
    """
    return folder / campaign.name / f"digest={campaign.digest[:DIGITS]}"


def described(folder: Path, campaign: SurveyCampaign, document: bytes) -> Place:
    """Make the folder of a campaign's digest, with what it means; return it."""
    path = place_of(folder, campaign)
    make(path, folder)
    text = io.StringIO()
    cells = parquet.cells(campaign)
    table = csv.DictWriter(text, cells[0], lineterminator="\n")
    table.writeheader()
    table.writerows({key: csv_cell(value) for key, value in row.items()} for row in cells)
    for name, data in ((CAMPAIGN, document), (CELLS, text.getvalue().encode())):
        file = path / name
        if not file.is_file() or file.read_bytes() != data:
            write_file(file, data, _mode(folder))
    return Place(path, campaign)


def opened(path: Path) -> Place:
    """Return the place at a path `.../NAME/digest=...`, by the campaign that lies there."""
    try:
        campaign = campaign_document.read((path / CAMPAIGN).read_bytes(), SurveyCampaign)
    except OSError:
        raise ParameterError(f"{path} has no {CAMPAIGN}: it is not a folder of reports") from None
    if path.name != f"digest={campaign.digest[:DIGITS]}":
        raise FormatError(f"{path} has the campaign of another digest, {campaign.digest[:DIGITS]}")
    return Place(path, campaign)


def make(path: Path, folder: Path) -> None:
    """Make a folder and those above it; only the owner looks inside, or the group that may.

    That is the group of the `folder` of all reports, if it may read there.
    """
    if path.is_dir():
        return
    make(path.parent, folder)
    try:
        shared = path != folder and _mode(folder) == GROUP_READS
        path.mkdir(exist_ok=True)
        path.chmod(GROUPS if shared else OWNERS)
        sync_folder(path.parent)
    except OSError as problem:
        raise ParameterError(f"cannot make {path}: {problem.strerror}") from None


def _mode(folder: Path) -> int:
    """Return who reads files in a folder: its group too if its owner has set g+s (chmod 2750)."""
    mode = folder.stat().st_mode
    return GROUP_READS if mode & stat.S_ISGID and mode & stat.S_IRGRP else OWNER


@contextmanager
def alone(place: Place) -> Iterator[None]:
    """Let no other program write to this place meanwhile."""
    busy = f"another program is writing to {place.path}: try again"
    with files.alone(place.path / LOCK, busy):
        yield


# --- writing -------------------------------------------------------------------------------------

Chunks = Iterable[tuple[Ids, Rows]]


def names(group: str, n: int) -> list[str]:
    """Return the names of the parts that a group of n reports makes.

    >>> names("9c0e1f7a52b34d68", PART_ROWS + 1)[1]
    'part-9c0e1f7a52b34d68-000002.parquet'
    """
    return [f"part-{group}-{number:06}.parquet" for number in range(1, -(-n // PART_ROWS) + 1)]


def write(
    place: Place,
    day: date,
    group: str,
    chunks: Chunks,
    advance: Callable[[int], None] | None = None,
) -> int:
    """Write the parts of a group that are not there yet; return how many reports they have.

    `chunks` are its reports in the order of their ids, always the same ones.
    """
    there, home = place.parts(), place.path / f"day={day.isoformat()}"
    make(home, place.path)
    for left in place.path.glob(f"day=*/.part-{group}-*"):
        left.unlink(missing_ok=True)  # of a program that was killed
    written, number = 0, 0
    groups = regrouped(chunks, GROUP_ROWS)
    first = next(groups, None)
    while first is not None:
        number += 1
        name = f"part-{group}-{number:06}.parquet"
        rest = _some(first, groups, PART_ROWS // GROUP_ROWS)
        if name in there:
            for _ in rest:
                pass
        else:
            written += _write_part(home / name, place.campaign, rest, advance)
        first = next(groups, None)
    return written


def _some(first: tuple[Ids, Rows], rest: Iterator[tuple[Ids, Rows]], most: int) -> Chunks:
    """Yield one and those after it, as many as make a part."""
    yield first
    for _ in range(most - 1):
        if (following := next(rest, None)) is None:
            return
        yield following


def _write_part(
    path: Path, campaign: SurveyCampaign, chunks: Chunks, advance: Callable[[int], None] | None
) -> int:
    """Write one part; it gets its name when it is whole and on the disk."""
    schema, written = parquet.schema(campaign.form), 0
    with private_file(path, _mode(path.parent)) as file, parquet.writer(file, schema) as out:
        for ids, rows in chunks:
            out.write_batch(
                parquet.batch(campaign.form, ids, rows, schema), row_group_size=GROUP_ROWS
            )
            written += len(ids)
            if advance is not None:
                advance(len(ids))
    return written


def regrouped(chunks: Chunks, size: int) -> Iterator[tuple[Ids, Rows]]:
    """Yield the same reports in chunks of one size; the last one may be smaller.

    >>> some = [(np.zeros((n, 16), np.uint8), np.zeros((n, 1), np.uint8)) for n in (3, 0, 4)]
    >>> [len(ids) for ids, _ in regrouped(some, 5)]
    [5, 2]
    """
    waiting: list[tuple[Any, Any]] = []
    count = 0
    for ids, rows in chunks:
        waiting.append((ids, rows))
        count += len(ids)
        if count >= size:
            whole = _joined(waiting)
            for start in range(0, count - count % size, size):
                yield whole[0][start : start + size], whole[1][start : start + size]
            start = count - count % size
            waiting, count = [(whole[0][start:], whole[1][start:])], count - start
    if count:
        yield _joined(waiting)


def _joined(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    if len(parts) == 1:
        return parts[0]
    ids, rows = zip(*parts, strict=True)
    return np.concatenate(ids), np.concatenate(rows)
