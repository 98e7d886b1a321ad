"""Files of reports: which there are, and their batches. Parquet, Arrow (IPC) and CSV.

Files may be anyone's. Whatever is in them, a batch is small, and what cannot be read is said in one
line with the file's name.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmuration.campaign.form import ReportForm
from murmuration.campaign.survey import SurveyCampaign
from murmuration.counting import kernel
from murmuration.counting.engines import texts
from murmuration.counting.sums import Sums
from murmuration.definition import document as campaign_document
from murmuration.definition.load import load
from murmuration.errors import FormatError, MurmurationError, ParameterError
from murmuration.wire.ids import ID_BYTES
from murmuration.wire.parquet import DIGEST, arrow, layout

PARQUET, IPC, CSV = (".parquet", ".pq"), (".arrow", ".ipc", ".feather"), (".csv",)
CAMPAIGNS = ("_campaign.json", "campaign.json")
"""The published document, in the folder of its reports or above."""
BATCH_ROWS, BATCH_BYTES = 1 << 16, 1 << 24
UNIT_ROWS = 1 << 22
"""About how many reports one thread takes at a time."""
ENDS = 1 << 16
"""Bytes at each end of a file that its checksum is of."""
ROOM = 4
"""How many times its rows' bytes a column of Parquet may say to have, and a megabyte."""


@dataclass(frozen=True)
class Part:
    """One file, as it was when it was found."""

    path: Path
    """From the root: workers have folders of their own."""
    name: str
    """Below the folder that was asked for."""
    size: int
    changed: int
    """When, in nanoseconds."""

    def ends(self) -> int:
        """Return a checksum of the file's ends."""
        with self.path.open("rb") as file:
            checksum = zlib.crc32(file.read(ENDS))
            file.seek(max(0, self.size - ENDS))
            return zlib.crc32(file.read(ENDS), checksum)


@dataclass(frozen=True)
class Unit:
    """Some of a part's row groups or batches, or all of it."""

    part: Part
    first: int = 0
    last: int = 0
    reports: int = 0
    """How many it says to have; 0 if that is not known before reading."""


def find(places: Sequence[Path]) -> list[Part]:
    """Return the files of reports in these folders, or named themselves, in the order of names.

    As everywhere, names that begin with `_` or `.` are not data. A file to which several of these
    places lead is one part.
    """
    parts: dict[Path, Part] = {}
    for place in places:
        if not place.exists():
            raise ParameterError(f"there is no file or folder {place}")
        inside = [place] if place.is_file() else sorted(place.rglob("*"))
        for path in inside:
            name = path.name if path == place else path.relative_to(place).as_posix()
            hidden = any(piece[0] in "._" for piece in name.split("/"))
            if path.suffix.lower() in PARQUET + IPC + CSV and path.is_file() and not hidden:
                about, whole = path.stat(), path.resolve()
                called = name if len(places) == 1 else path.as_posix()
                parts.setdefault(whole, Part(whole, called, about.st_size, about.st_mtime_ns))
    if not parts:
        raise ParameterError(
            f"no reports in {', '.join(map(str, places))}: files end in "
            f"{', '.join(PARQUET + IPC + CSV)}"
        )
    return [*parts.values()]


def campaign_of(places: Sequence[Path], given: Path | None = None) -> SurveyCampaign:
    """Return the campaign that was given (as .toml, or published), or the one of the places.

    A folder's is the document in it, else the nearest above; a file's the one inside it, else the
    nearest document above.
    """
    if given is not None:
        if given.suffix.lower() == ".toml":
            return load(given, SurveyCampaign)
        return _published(given)
    found = [campaign for place in places for campaign in _inside(place) or _beside(place)]
    campaigns = {campaign.digest: campaign for campaign in found}
    if len(campaigns) != 1:
        what = "several campaigns" if campaigns else "no campaign"
        raise ParameterError(f"there is {what} with these reports: name its file by --campaign")
    return next(iter(campaigns.values()))


def _beside(place: Path) -> list[SurveyCampaign]:
    """Return the campaigns of the documents in a folder, else that of the nearest above."""
    below = [path for name in CAMPAIGNS if place.is_dir() for path in place.rglob(name)]
    if below:
        return [_published(path) for path in sorted(below)]
    home = (place if place.is_dir() else place.parent).resolve()
    for above in [home, *home.parents][:4]:
        if here := [above / name for name in CAMPAIGNS if (above / name).is_file()]:
            return [_published(here[0])]
    return []


def _inside(place: Path) -> list[SurveyCampaign]:
    """Return the campaign in the metadata of a file that was exported alone."""
    if not place.is_file() or place.suffix.lower() not in PARQUET:
        return []
    with _readable(place):
        metadata = arrow().parquet.ParquetFile(place).metadata.metadata or {}
    text = metadata.get(b"murmuration.campaign")
    return [] if text is None else [campaign_document.read(text, SurveyCampaign)]


def _published(path: Path) -> SurveyCampaign:
    try:
        return campaign_document.read(path.read_bytes(), SurveyCampaign)
    except (OSError, MurmurationError) as problem:
        raise ParameterError(f"{path} is not a published campaign: {problem}") from None


# --- reading -------------------------------------------------------------------------------------


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read, and why, in one line."""
    pa = arrow()
    try:
        yield
    except FormatError as problem:
        raise FormatError(f"{path}: {problem}") from None
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as problem:
        text = " ".join(str(problem).split()) or type(problem).__name__
        raise FormatError(f"{path} cannot be read: {text[:300]}") from None


def units(part: Part) -> list[Unit]:
    """Cut a part into what one thread takes at a time."""
    if part.path.suffix.lower() not in PARQUET:
        return [Unit(part)]
    with _readable(part.path):
        about = arrow().parquet.ParquetFile(part.path).metadata
        sizes = [about.row_group(place).num_rows for place in range(about.num_row_groups)]
    cut, first, held = [], 0, 0
    for place, size in enumerate(sizes):
        held += size
        if held >= UNIT_ROWS or place == len(sizes) - 1:
            cut.append(Unit(part, first, place + 1, held))
            first, held = place + 1, 0
    return cut or [Unit(part)]


def counted(
    unit: Unit, form: ReportForm, *, ids: bool
) -> Iterator[tuple[Sums, kernel.CountedReports | None]]:
    """Count a unit, batch by batch; with `ids` also yield what was counted."""
    with _readable(unit.part.path):
        for batch, sums in batches(unit, form, ids=ids):
            kept = None
            if batch is not None:
                added, kept = kernel.count(form, batch, ids=ids)
                sums.add(added)
            yield sums, kept


def batches(unit: Unit, form: ReportForm, *, ids: bool) -> Iterator[tuple[Any, Sums]]:
    """Yield Arrow batches, and what was refused before there was a batch."""
    path = unit.part.path
    wanted = ["id"] * ids + [column.name for column in layout(form)]
    rows = max(1, min(BATCH_ROWS, BATCH_BYTES // (ID_BYTES + form.row_bytes)))
    if path.suffix.lower() in PARQUET:
        return _parquet(unit, form, wanted, rows)
    if path.suffix.lower() in IPC:
        return _ipc(path, form, wanted, rows)
    return texts.batches(path, form, ids=ids)


def _parquet(
    unit: Unit, form: ReportForm, wanted: list[str], rows: int
) -> Iterator[tuple[Any, Sums]]:
    pa = arrow()
    with pa.parquet.ParquetFile(unit.part.path) as file:
        reports = file.metadata.num_rows if unit.first == 0 else 0
        if (refused := _of_another(file.metadata.metadata, form, reports)) is not None:
            yield None, refused
            return
        _checked(file.schema_arrow, wanted)
        groups = range(unit.first, unit.last)
        for group in groups:
            _sane(file.metadata.row_group(group), wanted, form.row_bytes)
        stream = file.iter_batches(rows, row_groups=groups, columns=wanted, use_threads=False)
        for batch in stream:
            yield batch, Sums()


def _ipc(path: Path, form: ReportForm, wanted: list[str], rows: int) -> Iterator[tuple[Any, Sums]]:
    pa = arrow()
    with pa.memory_map(str(path)) as file:
        try:
            opened = pa.ipc.open_file(file)
            stream = (opened.get_batch(place) for place in range(opened.num_record_batches))
        except pa.ArrowInvalid:
            file.seek(0)
            opened = pa.ipc.open_stream(file)
            stream = iter(opened)
        other = _of_another(opened.schema.metadata, form, 0)
        if other is None:
            _checked(opened.schema, wanted)
        for batch in stream:
            batch.validate(full=True)
            if other is not None:
                yield None, Sums(read=batch.num_rows, refused=_all(batch.num_rows))
                continue
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows), Sums()


def _of_another(metadata: Any, form: ReportForm, reports: int) -> Sums | None:
    """Return all reports as refused, if the file says that they are of another campaign."""
    digest = (metadata or {}).get(DIGEST)
    if digest is None or digest == form.digest.encode():
        return None
    return Sums(read=reports, refused=_all(reports))


def _all(reports: int) -> Counter[str]:
    return Counter({"unknown-digest": reports} if reports else {})


def _checked(schema: Any, wanted: list[str]) -> None:
    """Refuse a file without the columns, before anything is read."""
    for name in wanted:
        if schema.get_field_index(name) < 0:
            raise FormatError(f"there is no column {name}, or more than one")


def _sane(group: Any, wanted: list[str], row_bytes: int) -> None:
    """Refuse columns that say to have far more bytes than their rows: they would fill memory."""
    most = ROOM * group.num_rows * (ID_BYTES + row_bytes) + (1 << 20)
    for place in range(group.num_columns):
        column = group.column(place)
        if column.path_in_schema.split(".")[0] in wanted and column.total_uncompressed_size > most:
            raise FormatError(
                f"column {column.path_in_schema} has {column.total_uncompressed_size:,} bytes for "
                f"{group.num_rows:,} rows"
            )
