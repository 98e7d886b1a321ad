"""The wire: what a device sends. Two forms of the same thing, and both are checked strictly.

A report is the campaign's digest, the version of this format, an id, and entries: for each the
number of a cell and the octets of that cell's own report, all of them small integers.

    JSON     {"digest": "...", "version": 1, "id": "<32 hex>", "entries": [[cell, octet, ...]]}
             or a list of up to 10,000 of these
    binary   "MURMRPTS", version (2 bytes), digest (32), number of reports (4), all ids (16 each),
             all rows; little-endian. For one campaign.

A report that is sent again has the same id (`wire.ids`) and is counted once.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.model import WIRE, Campaign
from murmuration.errors import FormatError, ReportError
from murmuration.exact.arrays import Ints, Rows
from murmuration.wire.ids import ID_BYTES, Ids

MOST_REPORTS = 10_000
MAGIC = b"MURMRPTS"
HEAD = struct.Struct("<8sH32sI")
JSON, BINARY = "application/json", "application/vnd.murmuration.reports"

Codes = NDArray[np.uint8]

FINE = 0
REASONS = {
    "malformed": "This is no report: a field is missing, of the wrong type or unknown.",
    "unknown-digest": "The report was made for another campaign than this one.",
    "superseded": "The report was made for an earlier version of this campaign.",
    "wrong-version": "The report is in a version of the format that this collector does not read.",
    "bad-id": "An id is 32 hexadecimal digits.",
    "bad-entries": "The entries are not those that a report of this campaign has.",
    "bad-symbol": "No device can have sent this report: it is outside the alphabet.",
    "outside-window": "The campaign has not opened yet, or it has closed.",
    "duplicate": "A report with this id was counted before. It was counted once.",
}
"""Why a report is not counted, in the order in which it is looked at."""
CODES = {reason: code for code, reason in enumerate(REASONS, 1)}


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One report as JSON has it."""

    digest: str
    version: int
    id: str
    entries: list[list[int]]


@dataclass(frozen=True)
class Upload:
    """Reports in columns: rows that fit the campaign, and what is wrong elsewhere.

    `problems[i]` is 0 for a report that can be counted, else the code of the reason why not.
    """

    ids: Ids
    rows: Rows
    problems: Codes

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Incoming:
    """One upload as it was decoded: cheap to make. Checking is done for many at once."""

    reports: list[Report]
    malformed: list[int]
    columns: Upload | None = None
    """For a binary upload."""

    def __len__(self) -> int:
        return len(self.reports) if self.columns is None else len(self.columns)


# --- writing -----------------------------------------------------------------------------------


def to_json(campaign: Campaign, ids: Ids, rows: Rows) -> bytes:
    """Return one report as an object, several as a list."""
    reports = [
        Report(campaign.digest, WIRE, one.tobytes().hex(), entries_of(campaign, row))
        for one, row in zip(ids, rows, strict=True)
    ]
    return msgspec.json.encode(reports[0] if len(reports) == 1 else reports)


def entries_of(campaign: Campaign, row: NDArray[np.uint8]) -> list[list[int]]:
    """Return a row's entries: the cell's number, then the octets of the cell's report."""
    found, start = [], 0
    for width in campaign.frame.widths:
        octets = row[start : start + width].tolist()
        cell = int.from_bytes(bytes(octets[: campaign.frame.index_bytes]), "little")
        size = int(campaign.frame.sizes[cell])
        found.append([cell, *octets[campaign.frame.index_bytes :][:size]])
        start += width
    return found


def to_binary(campaign: Campaign, ids: Ids, rows: Rows) -> bytes:
    """Return reports in columns."""
    head = HEAD.pack(MAGIC, WIRE, bytes.fromhex(campaign.digest), len(ids))
    return head + ids.tobytes() + rows.tobytes()


# --- reading -----------------------------------------------------------------------------------

_one_or_many = msgspec.json.Decoder(Report | list[Report])
_one = msgspec.json.Decoder(Report)
_raw = msgspec.json.Decoder(list[msgspec.Raw])
_NOTHING = Report("", WIRE, "", [])


def decode(campaign: Campaign, body: bytes, kind: str, older: Container[str] = ()) -> Incoming:
    """Decode an upload of either form; refuse the body only if it cannot be read at all.

    `older` are the digests of earlier versions of the campaign.
    """
    if kind == BINARY:
        return Incoming([], [], from_binary(campaign, body, older))
    if kind != JSON:
        raise ReportError(f"reports are sent as {JSON} or {BINARY}")
    _check_size(campaign, body)
    return Incoming(*_decoded(body))


def _check_size(campaign: Campaign, body: bytes) -> None:
    """Refuse more lists and numbers than the largest upload has, before they are all objects."""
    lists = 1 + len(campaign.frame.widths)
    commas = 3 + lists + campaign.row_bytes
    if body.count(b"[") > MOST_REPORTS * lists + 1 or body.count(b",") > MOST_REPORTS * commas:
        raise FormatError(f"at most {MOST_REPORTS:,} reports of this campaign fit one upload")


def joined(campaign: Campaign, parts: Sequence[Incoming], older: Container[str] = ()) -> Upload:
    """Put uploads together, those of JSON first, and check every report."""
    listed = [part for part in parts if part.columns is None]
    columns = [part.columns for part in parts if part.columns is not None]
    if listed:
        columns.insert(0, _from_reports(campaign, listed, older))
    if len(columns) == 1:
        return checked(campaign, columns[0])
    together = Upload(
        np.concatenate([one.ids for one in columns]),
        np.concatenate([one.rows for one in columns]),
        np.concatenate([one.problems for one in columns]),
    )
    return checked(campaign, together)


def _from_reports(campaign: Campaign, parts: Sequence[Incoming], older: Container[str]) -> Upload:
    """Lay decoded reports out in columns."""
    reports = list(chain.from_iterable(part.reports for part in parts))
    problems = np.zeros(len(reports), dtype=np.uint8)
    start = 0
    for part in parts:
        for place in part.malformed:
            problems[start + place] = CODES["malformed"]
        start += len(part)
    if {report.digest for report in reports} - {campaign.digest}:
        past = [r.digest != campaign.digest and r.digest in older for r in reports]
        _mark(problems, past, "superseded")
        _mark(problems, [r.digest != campaign.digest for r in reports], "unknown-digest")
    if {report.version for report in reports} - {WIRE}:
        _mark(problems, [r.version != WIRE for r in reports], "wrong-version")
    ids = _ids(reports, problems)
    return Upload(ids, _rows(campaign, reports, problems), problems)


def _decoded(body: bytes) -> tuple[list[Report], list[int]]:
    """Return the reports, and which of them are none; those are looked at one by one."""
    try:
        found = _one_or_many.decode(body)
        reports = [found] if isinstance(found, Report) else found
        if len(reports) > MOST_REPORTS:
            raise FormatError(f"at most {MOST_REPORTS:,} reports fit one upload")
        return reports, []
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    try:
        parts = _raw.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        raise FormatError("the body is neither a report nor a list of reports") from None
    if len(parts) > MOST_REPORTS:
        raise FormatError(f"at most {MOST_REPORTS:,} reports fit one upload")
    reports = [_report(part) for part in parts]
    return reports, [place for place, report in enumerate(reports) if report is _NOTHING]


def _report(part: msgspec.Raw) -> Report:
    try:
        return _one.decode(part)
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        return _NOTHING


def _mark(problems: Codes, where: Sequence[bool], reason: str) -> None:
    """Note a reason where none was found before."""
    problems[np.asarray(where, dtype=bool) & (problems == FINE)] = CODES[reason]


def _ids(reports: Sequence[Report], problems: Codes) -> Ids:
    """Return the ids as bytes; zeros where an id is none."""
    texts = [report.id for report in reports]
    try:
        if {len(text) for text in texts} <= {2 * ID_BYTES}:
            data = bytes.fromhex("".join(texts))
            if len(data) == ID_BYTES * len(texts):
                return np.frombuffer(data, dtype=np.uint8).reshape(-1, ID_BYTES)
    except ValueError:
        pass
    fine = [_is_id(text) for text in texts]
    _mark(problems, [not good for good in fine], "bad-id")
    data = b"".join(
        bytes.fromhex(text) if good else bytes(ID_BYTES)
        for text, good in zip(texts, fine, strict=True)
    )
    return np.frombuffer(data, dtype=np.uint8).reshape(-1, ID_BYTES)


def _is_id(text: str) -> bool:
    return len(text) == 2 * ID_BYTES and all(c in "0123456789abcdefABCDEF" for c in text)


def _rows(campaign: Campaign, reports: Sequence[Report], problems: Codes) -> Rows:
    """Lay entries out as rows; a report whose entries do not fit is a bad one."""
    entries = [report.entries for report in reports]
    rows = np.zeros((len(reports), campaign.row_bytes), dtype=np.uint8)
    counts = np.fromiter(map(len, entries), dtype=np.int64, count=len(entries))
    _mark(problems, (counts != len(campaign.frame.widths)).tolist(), "bad-entries")
    todo = np.flatnonzero(problems == FINE)
    start = 0
    for slot, width in enumerate(campaign.frame.widths):
        mine = [entries[report][slot] for report in todo.tolist()]
        fits = _lay(campaign, mine, rows, todo, start)
        problems[todo[~fits]] = CODES["bad-entries"]
        todo, start = todo[fits], start + width
    return rows


def _lay(
    campaign: Campaign, entries: list[list[int]], rows: Rows, who: Ints, start: int
) -> NDArray[np.bool_]:
    """Write these entries, one per report, from byte `start` of their rows on; say which fit."""
    sizes = np.fromiter(map(len, entries), dtype=np.int64, count=len(entries))
    numbers = _octets(chain.from_iterable(entries), int(sizes.sum()))
    firsts = np.cumsum(sizes) - sizes
    fits = sizes > 1
    cells = np.zeros(len(entries), dtype=np.int64)
    cells[fits] = numbers[firsts[fits]]
    fits &= (cells >= 0) & (cells < len(campaign.frame.cells))
    lengths = campaign.frame.sizes
    fits[fits] &= sizes[fits] == 1 + lengths[cells[fits]]
    owner = np.repeat(np.arange(len(entries)), sizes)
    place = np.arange(len(numbers)) - firsts[owner]
    payload = place > 0
    outside = payload & ((numbers < 0) | (numbers > 255))
    fits[owner[outside]] = False
    put = payload & fits[owner]
    rows[who[owner[put]], start + campaign.frame.index_bytes + place[put] - 1] = numbers[put]
    rows[who[fits], start] = cells[fits] & 255
    if campaign.frame.index_bytes == 2:
        rows[who[fits], start + 1] = cells[fits] >> 8
    return fits


def _octets(numbers: chain[int], count: int) -> Ints:
    """Return integers as an array; one too large for 64 bits is as bad as -1."""
    listed = list(numbers)
    try:
        return np.fromiter(listed, dtype=np.int64, count=count)
    except OverflowError:
        return np.array([n if 0 <= n < 1 << 32 else -1 for n in listed], dtype=np.int64)


def from_binary(campaign: Campaign, body: bytes, older: Container[str] = ()) -> Upload:
    """Read reports in columns; refuse the body if its length is not that of its reports."""
    if len(body) < HEAD.size:
        raise FormatError("the upload is shorter than its head")
    magic, version, digest, count = HEAD.unpack_from(body)
    if magic != MAGIC:
        raise FormatError("these bytes are no reports")
    if count > MOST_REPORTS:
        raise FormatError(f"at most {MOST_REPORTS:,} reports fit one upload")
    if len(body) < HEAD.size + ID_BYTES * count:
        raise FormatError("the upload ends before its last id")
    problems = np.zeros(count, dtype=np.uint8)
    ids = np.frombuffer(body, np.uint8, ID_BYTES * count, HEAD.size).reshape(-1, ID_BYTES)
    wrong = None
    if digest != bytes.fromhex(campaign.digest):
        wrong = "superseded" if digest.hex() in older else "unknown-digest"
    elif version != WIRE:
        wrong = "wrong-version"
    if wrong is not None:
        problems[:] = CODES[wrong]
        return Upload(ids, np.zeros((count, campaign.row_bytes), dtype=np.uint8), problems)
    if len(body) != HEAD.size + (ID_BYTES + campaign.row_bytes) * count:
        raise FormatError(f"{count} reports do not fit a body of {len(body)} bytes")
    rows = np.frombuffer(body, np.uint8, offset=HEAD.size + ID_BYTES * count)
    return Upload(ids, rows.reshape(-1, campaign.row_bytes), problems)


def checked(campaign: Campaign, upload: Upload) -> Upload:
    """Note which rows no device can have sent."""
    todo = np.flatnonzero(upload.problems == FINE)
    if len(todo) == len(upload):
        bad = np.flatnonzero(~campaign.valid(upload.rows))
    else:
        bad = todo[~campaign.valid(upload.rows[todo])]
    if len(bad):
        upload.problems[bad] = CODES["bad-symbol"]
    return upload


def read(campaign: Campaign, body: bytes, kind: str, older: Container[str] = ()) -> Upload:
    """Decode one upload and check every report in it."""
    return joined(campaign, [decode(campaign, body, kind, older)], older)
