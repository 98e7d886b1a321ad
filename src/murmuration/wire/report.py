"""The wire: what a device sends. Two forms of the same thing, and both are checked strictly.

A report is this format's number (`wire`), the campaign's digest, an id, and entries: for each the
number of a cell and the octets of that cell's own report, all of them small integers.

    JSON     {"wire": 1, "digest": "...", "id": "<32 hex>", "entries": [[cell, octet, ...]]}
             and "period": a number, where the campaign has periods; or a list of up to 10,000
    binary   "MURMRPTS", wire (2 bytes), digest (32), number of reports (4), all ids (16 each),
             all rows (the period's 4 bytes first, if there are periods); little-endian. For one
             campaign.

A report that is sent again has the same id (`wire.ids`) and is counted once.
"""

from __future__ import annotations

import struct
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain, pairwise

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.campaign.form import ReportForm
from murmuration.campaign.kind import WIRE
from murmuration.campaign.periods import PERIOD_BYTES, last_possible
from murmuration.errors import FormatError, ReportError
from murmuration.exact.arrays import Ints, Rows
from murmuration.mechanisms.packing import integer_rows
from murmuration.wire.ids import ID_BYTES, Ids

MOST_REPORTS, MOST_BODY, MOST_TOKEN = 10_000, 16 << 20, 4096
"""Of reports in one upload, of its bytes, inflated, and of the characters of a token."""
LONGEST, LONGEST_PER_NUMBER = 4096, 32
"""Bytes of JSON of one report, and what each number in its entries adds to that."""
MAGIC = b"MURMRPTS"
HEAD = struct.Struct("<8sH32sI")
JSON, BINARY = "application/json", "application/vnd.murmuration.reports"

Codes = NDArray[np.uint8]

FINE = 0
REASONS = {
    "malformed": "This is not a report: a field is missing, of the wrong type or unknown.",
    "unknown-digest": "The report was made for another campaign than this one.",
    "superseded": "The report was made for an earlier version of this campaign.",
    "stale-round": "The report was made for a round of this training that is closed.",
    "unknown-wire": "The report's wire, its format, is none that this collector reads.",
    "bad-id": "An id is 32 hexadecimal digits.",
    "bad-entries": "The entries are not those that a report of this campaign has.",
    "bad-symbol": "No device can have sent this report: it is outside the alphabet.",
    "outside-window": "The campaign has not opened yet, or it has closed.",
    "wrong-period": "The report's period is over, or there should be none.",
    "early-period": "The report's period has not begun here: send it again once it has.",
    "token-used": "A token has one report (in each period), sent alone; this one's was counted.",
    "duplicate": "A report with this id was counted before. It was counted once.",
    "round-full": "The round has all reports that it asks for.",
}
"""Why a report is not counted, in the order in which it is looked at."""
EARLY = "early-period"
"""The one reason that is not final: the device's clock is ahead, or the collector's behind."""
WHOLE = {"unreadable-body": 400, "too-large": 413, "unsupported-type": 415}
"""Why an upload as a whole is refused, and would be every time: problems and their status."""
FINAL = {**{reason: 422 for reason in REASONS if reason != EARLY}, **WHOLE}
"""Problems that are about the bytes, with their status: the same bytes are refused every time."""
BUSY = frozenset({429, 503})
"""Statuses of a collector that takes the same bytes later."""
PROBLEM = "application/problem+json"
PROBLEM_TYPE = "/problems/"
"""Before the name of a problem, in its type."""
CODES = {reason: code for code, reason in enumerate(REASONS, 1)}


def copy_first_outcome(fates: Codes, order: Ints, first: NDArray[np.bool_]) -> Codes:
    """Say of reports with one id in one upload what became of the first, where it was refused.

    Only where it was stored are the others duplicates: whoever hears that will not send it again.
    `order` and `first` are those of `in_order`.

    >>> fates = np.array([CODES["round-full"], FINE, CODES["duplicate"], CODES["duplicate"]])
    >>> order, first = np.array([0, 2, 1, 3]), np.array([True, False, True, False])
    >>> told = copy_first_outcome(fates, order, first)
    >>> [[*REASONS][code - 1] if code else "stored" for code in told]
    ['round-full', 'stored', 'round-full', 'duplicate']
    """
    leading = fates[order[first]][np.cumsum(first) - 1]
    told, refused = fates.copy(), leading != FINE
    told[order[refused]] = leading[refused]
    return told


class Report(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One report as JSON has it."""

    wire: int
    digest: str
    id: str
    entries: list[list[int]]
    period: int | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True)
class Upload:
    """Reports in columns: those that can be counted so far, and what is wrong with the others.

    `problems[i]` is 0 for a report that can be counted, else the code of the reason why not; `ids`
    and `rows` are those of the reports with a 0, in their order. A refused report has no row, so
    that what takes two bytes on the wire does not take a thousand here. `past` are the ids of those
    that are refused as "superseded", in their order: some may have been counted in their time.
    """

    ids: Ids
    rows: Rows
    problems: Codes
    past: Ids = field(default_factory=lambda: np.zeros((0, ID_BYTES), dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.problems)

    def refusing(self, which: NDArray[np.bool_], reason: str) -> Upload:
        """Return this without some of all its reports, unless they were refused before."""
        fine = self.problems == FINE
        problems = np.where(fine & which, CODES[reason], self.problems).astype(np.uint8)
        stay = ~which[fine]
        return replace(self, ids=self.ids[stay], rows=self.rows[stay], problems=problems)

    def renaming(self, reason: str, better: str) -> Upload:
        """Return this with another reason for what was refused for one."""
        if reason == better:
            return self
        named = self.problems == CODES[reason]
        problems = np.where(named, CODES[better], self.problems).astype(np.uint8)
        return replace(self, problems=problems)


@dataclass(frozen=True)
class Incoming:
    """One upload as it was decoded: cheap to make. Checking is done for many at once."""

    reports: list[Report]
    """Of a small upload in JSON: laying out many of these together is cheaper."""
    columns: Upload | None = None
    """Of any other."""

    def __len__(self) -> int:
        return len(self.reports) if self.columns is None else len(self.columns)


# --- writing -----------------------------------------------------------------------------------


def to_json(form: ReportForm, ids: Ids, rows: Rows) -> bytes:
    """Return one report as an object, several as a list."""
    reports = [
        Report(
            wire=WIRE,
            digest=form.digest,
            id=report_id.tobytes().hex(),
            entries=entries_of(form, row),
            period=msgspec.UNSET if form.every is None else period,
        )
        for report_id, row, period in zip(ids, rows, form.periods_of(rows).tolist(), strict=True)
    ]
    return msgspec.json.encode(reports[0] if len(reports) == 1 else reports)


def entries_of(form: ReportForm, row: NDArray[np.uint8]) -> list[list[int]]:
    """Return a row's entries: the cell's number, then the octets of the cell's report."""
    entries, start = [], form.head_bytes
    for width in form.frame.widths:
        octets = row[start : start + width].tolist()
        cell = int.from_bytes(bytes(octets[: form.frame.index_bytes]), "little")
        size = int(form.frame.sizes[cell])
        entries.append([cell, *octets[form.frame.index_bytes :][:size]])
        start += width
    return entries


def to_binary(form: ReportForm, ids: Ids, rows: Rows) -> bytes:
    """Return reports in columns."""
    head = HEAD.pack(MAGIC, WIRE, bytes.fromhex(form.digest), len(ids))
    return head + ids.tobytes() + rows.tobytes()


# --- reading -----------------------------------------------------------------------------------

SMALL = 1 << 14
"""A body of JSON up to this size is kept as objects."""
SLICE = 1 << 18
"""Bytes of JSON that are objects at once, in a larger one."""

_one_or_many = msgspec.json.Decoder(Report | list[Report])
_one = msgspec.json.Decoder(Report)
_many = msgspec.json.Decoder(list[Report])
_raw = msgspec.json.Decoder(list[msgspec.Raw])
_BROKEN = (msgspec.MsgspecError, RecursionError, UnicodeError)
_NOTHING = Report(wire=WIRE, digest="", id="", entries=[])
SHORTEST = len(msgspec.json.encode(_NOTHING))
"""Bytes of JSON that the least report has."""


def decode(form: ReportForm, body: bytes, kind: str, older: Container[str] = ()) -> Incoming:
    """Decode an upload of either form; refuse the body only if it cannot be read at all.

    `older` are the digests of earlier versions of the campaign. Whatever the body is, it never
    takes much more memory than its own size and that of the rows that are in it.
    """
    if kind == BINARY:
        return Incoming([], from_binary(form, body, older))
    if kind != JSON:
        raise ReportError(f"reports are sent as {JSON} or {BINARY}")
    if len(body) > SLICE:
        return Incoming([], _from_json(form, body, older))
    try:
        decoded = _one_or_many.decode(body)
    except _BROKEN:
        return Incoming([], _from_json(form, body, older))
    reports = [decoded] if isinstance(decoded, Report) else decoded
    if len(body) <= SMALL:
        return Incoming(reports)
    problems = np.zeros(len(reports), dtype=np.uint8)
    return Incoming([], _from_reports(form, reports, problems, older))


def _from_json(form: ReportForm, body: bytes, older: Container[str]) -> Upload:
    """Lay a body of JSON out in columns, a slice at a time."""
    parts = _parts(form, body)
    sizes = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts))
    cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // SLICE)) + 1
    edges = [0, *cuts.tolist(), len(parts)]
    return _together([_slice(form, parts[start:end], older) for start, end in pairwise(edges)])


def longest(form: ReportForm) -> int:
    """Return how many bytes of JSON a report may have: with much white space, and not without end.

    `LONGEST_PER_NUMBER` for each number in its entries, and `LONGEST` besides.
    """
    numbers = form.row_bytes + 2 * len(form.frame.widths)
    return LONGEST + LONGEST_PER_NUMBER * numbers


def _parts(form: ReportForm, body: bytes) -> Sequence[msgspec.Raw]:
    """Cut a list into its elements without looking at them; a report alone is one."""
    if body.lstrip(b" \t\r\n")[:1] == b"{":
        if len(body.strip(b" \t\r\n")) > longest(form) or _report(msgspec.Raw(body)) is _NOTHING:
            raise FormatError("the body is an object, but not a report of this campaign")
        return [msgspec.Raw(body)]
    try:
        parts = _raw.decode(body) if body.count(b",") < MOST_REPORTS else _first(body)
    except _BROKEN:
        raise FormatError("the body is neither a report nor a list of reports") from None
    if len(parts) > MOST_REPORTS:
        raise FormatError(f"at most {MOST_REPORTS:,} reports fit one upload")
    return parts


def _first(body: bytes) -> Sequence[msgspec.Raw]:
    """Return as many elements as matter: a list of millions is never there."""
    parts = msgspec.structs.astuple(_counted().decode(body))
    return parts[: next((n for n, part in enumerate(parts) if not len(part)), len(parts))]


@cache
def _counted() -> msgspec.json.Decoder[msgspec.Struct]:
    """Return a decoder of one element more than there may be: the rest is skipped."""
    fields = [(f"part{n}", msgspec.Raw, msgspec.Raw()) for n in range(MOST_REPORTS + 1)]
    return msgspec.json.Decoder(msgspec.defstruct("Counted", fields, array_like=True))


def _slice(form: ReportForm, parts: Sequence[msgspec.Raw], older: Container[str]) -> Upload:
    """Lay some reports out; if one is none, or too long, they are looked at one by one."""
    problems, most = np.zeros(len(parts), dtype=np.uint8), longest(form)
    sizes = [len(part) for part in parts]
    try:
        if max(sizes, default=0) > most or min(sizes, default=SHORTEST) < SHORTEST:
            raise msgspec.ValidationError
        reports = _many.decode(b"[" + b",".join(parts) + b"]")
    except _BROKEN:
        fair = [SHORTEST <= size <= most for size in sizes]
        reports = [_report(p) if fine else _NOTHING for p, fine in zip(parts, fair, strict=True)]
        _mark(problems, [size > most for size in sizes], "bad-entries")
        _mark(problems, [report is _NOTHING for report in reports], "malformed")
    return _from_reports(form, reports, problems, older)


def _report(part: msgspec.Raw) -> Report:
    try:
        return _one.decode(part)
    except _BROKEN:
        return _NOTHING


def joined(form: ReportForm, parts: Sequence[Incoming], older: Container[str] = ()) -> Upload:
    """Put uploads together, those of objects first, and check every report."""
    listed = [part.reports for part in parts if part.columns is None]
    columns = [part.columns for part in parts if part.columns is not None]
    if listed:
        reports = list(chain.from_iterable(listed))
        problems = np.zeros(len(reports), dtype=np.uint8)
        columns.insert(0, _from_reports(form, reports, problems, older))
    return checked(form, _together(columns))


def _together(parts: Sequence[Upload]) -> Upload:
    if len(parts) == 1:
        return parts[0]
    return Upload(
        np.concatenate([upload.ids for upload in parts]),
        np.concatenate([upload.rows for upload in parts]),
        np.concatenate([upload.problems for upload in parts]),
        np.concatenate([upload.past for upload in parts]),
    )


def _from_reports(
    form: ReportForm, reports: Sequence[Report], problems: Codes, older: Container[str]
) -> Upload:
    """Lay decoded reports out in columns; note what is wrong with them where nothing is yet."""
    if {report.digest for report in reports} - {form.digest}:
        past = [r.digest != form.digest and r.digest in older for r in reports]
        _mark(problems, past, "superseded")
        _mark(problems, [r.digest != form.digest for r in reports], "unknown-digest")
    if {report.wire for report in reports} - {WIRE}:
        _mark(problems, [report.wire != WIRE for report in reports], "unknown-wire")
    ids = _ids(reports, problems)
    rows = _rows(form, reports, problems)
    past = ids[problems == CODES["superseded"]]
    return Upload(ids if len(rows) == len(ids) else ids[problems == FINE], rows, problems, past)


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


def _rows(form: ReportForm, reports: Sequence[Report], problems: Codes) -> Rows:
    """Lay entries out as rows; a report whose entries do not fit is a bad one, and has none."""
    entries = [report.entries for report in reports]
    counts = np.fromiter(map(len, entries), dtype=np.int64, count=len(entries))
    _mark(problems, (counts != len(form.frame.widths)).tolist(), "bad-entries")
    periods = _periods(form, reports, problems)
    todo = np.flatnonzero(problems == FINE)
    rows = np.zeros((len(todo), form.row_bytes), dtype=np.uint8)
    fits = np.ones(len(todo), dtype=bool)
    if form.every is not None:
        rows[:, :PERIOD_BYTES] = integer_rows(periods[todo], PERIOD_BYTES)
    start = form.head_bytes
    for slot, width in enumerate(form.frame.widths):
        who = np.flatnonzero(fits)
        mine = [entries[report][slot] for report in todo[who].tolist()]
        fits[who] = _lay(form, mine, rows, who, start)
        start += width
    problems[todo[~fits]] = CODES["bad-entries"]
    return rows if fits.all() else rows[fits]


def _periods(form: ReportForm, reports: Sequence[Report], problems: Codes) -> Ints:
    """Return what reports say about their period; refuse one that is missing, or is none."""
    said = [report.period for report in reports]
    if form.every is None:
        if any(period is not msgspec.UNSET for period in said):
            _mark(problems, [period is not msgspec.UNSET for period in said], "wrong-period")
        return np.zeros(0, dtype=np.int64)
    last = last_possible(form.every)
    fine = [isinstance(period, int) and 0 <= period <= last for period in said]
    _mark(problems, [not good for good in fine], "wrong-period")
    listed = [period if good else 0 for period, good in zip(said, fine, strict=True)]
    return np.array(listed, dtype=np.int64)


def _lay(
    form: ReportForm, entries: list[list[int]], rows: Rows, who: Ints, start: int
) -> NDArray[np.bool_]:
    """Write these entries, one per report, from byte `start` of their rows on; say which fit."""
    sizes = np.fromiter(map(len, entries), dtype=np.int64, count=len(entries))
    numbers = _octets(chain.from_iterable(entries), int(sizes.sum()))
    firsts = np.cumsum(sizes) - sizes
    fits = sizes > 1
    cells = np.zeros(len(entries), dtype=np.int64)
    cells[fits] = numbers[firsts[fits]]
    fits &= (cells >= 0) & (cells < len(form.frame.cells))
    lengths = form.frame.sizes
    fits[fits] &= sizes[fits] == 1 + lengths[cells[fits]]
    owner = np.repeat(np.arange(len(entries)), sizes)
    place = np.arange(len(numbers)) - firsts[owner]
    payload = place > 0
    outside = payload & ((numbers < 0) | (numbers > 255))
    fits[owner[outside]] = False
    put = payload & fits[owner]
    rows[who[owner[put]], start + form.frame.index_bytes + place[put] - 1] = numbers[put]
    rows[who[fits], start] = cells[fits] & 255
    if form.frame.index_bytes == 2:
        rows[who[fits], start + 1] = cells[fits] >> 8
    return fits


def _octets(numbers: chain[int], count: int) -> Ints:
    """Return integers as an array; one too large for 64 bits is as bad as -1."""
    listed = list(numbers)
    try:
        return np.fromiter(listed, dtype=np.int64, count=count)
    except OverflowError:
        return np.array([n if 0 <= n < 1 << 32 else -1 for n in listed], dtype=np.int64)


def from_binary(form: ReportForm, body: bytes, older: Container[str] = ()) -> Upload:
    """Read reports in columns; refuse the body if its length is not that of its reports."""
    if len(body) < HEAD.size:
        raise FormatError("the upload is shorter than its head")
    magic, wire, digest, count = HEAD.unpack_from(body)
    if magic != MAGIC:
        raise FormatError("these bytes are not reports")
    if count > MOST_REPORTS:
        raise FormatError(f"at most {MOST_REPORTS:,} reports fit one upload")
    if len(body) < HEAD.size + ID_BYTES * count:
        raise FormatError("the upload ends before its last id")
    problems = np.zeros(count, dtype=np.uint8)
    ids = np.frombuffer(body, np.uint8, ID_BYTES * count, HEAD.size).reshape(-1, ID_BYTES)
    wrong = None
    if digest != bytes.fromhex(form.digest):
        wrong = "superseded" if digest.hex() in older else "unknown-digest"
    elif wire != WIRE:
        wrong = "unknown-wire"
    if wrong is not None:
        problems[:] = CODES[wrong]
        past = ids if wrong == "superseded" else ids[:0]
        return Upload(ids[:0], np.zeros((0, form.row_bytes), dtype=np.uint8), problems, past)
    if len(body) != HEAD.size + (ID_BYTES + form.row_bytes) * count:
        raise FormatError(f"{count} reports do not fit a body of {len(body)} bytes")
    rows = np.frombuffer(body, np.uint8, offset=HEAD.size + ID_BYTES * count)
    return Upload(ids, rows.reshape(-1, form.row_bytes), problems)


def checked(form: ReportForm, upload: Upload) -> Upload:
    """Refuse the rows that no device can have sent."""
    valid = form.valid(upload.rows)
    if valid.all():
        return upload
    bad = np.zeros(len(upload), dtype=bool)
    bad[np.flatnonzero(upload.problems == FINE)[~valid]] = True
    return upload.refusing(bad, "bad-symbol")


def read(form: ReportForm, body: bytes, kind: str, older: Container[str] = ()) -> Upload:
    """Decode one upload and check every report in it."""
    return joined(form, [decode(form, body, kind, older)], older)
