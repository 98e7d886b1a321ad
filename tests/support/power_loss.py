"""Cut the power of a process at any moment, and see what is left on the disk.

`record` runs a command under strace and gives back, in order, everything it did to the files of one
folder, and the acknowledgements it gave. `states` says what the folder may hold if the power goes
after the first `cut` of these operations. What was synced is there. Of the rest, any part may be:

    operations = record([sys.executable, "server.py", str(folder)], folder, log, acks)
    for cut, state in power_cuts(operations, cut_points(operations, 200, rng), rng):
        write_files(state, fresh)
        assert not losses(fresh, acked(operations, cut))

The disk of this model: a write is durable once an fsync or fdatasync of its file, begun after the
write had returned, has returned. Before that, each write may be lost, kept, or torn at a sector
boundary, without regard to order. A new name is durable once its file or its folder is synced; a
rename or removal once its folder is. The operations on one name keep their order. O_SYNC is taken
as an ordinary write. An acknowledgement counts from the moment the call that sends it begins.

`record` compares the replay of everything with the folder as it really is afterwards, so a change
that strace does not show (a shared memory map, io_uring, sendfile) is an error, not a wrong result.
"""

import dataclasses
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from tests.support import warm
from tests.support.file_trace import (
    REBUILT,
    Ack,
    Change,
    Create,
    Entry,
    Existing,
    Link,
    Operation,
    RecordingError,
    Rename,
    Sync,
    SyncFolder,
    Tracker,
    Truncate,
    Unlink,
    Write,
    parent,
    read_calls,
    traced,
)

SECTOR = 512
State = dict[str, bytes]
Id = TypeVar("Id", bound=Hashable)
Fate = Callable[[Change | Entry], Change | Entry | None]


def acked(operations: Sequence[Operation], cut: int) -> set[str]:
    """The complete lines acknowledged before the cut."""
    said: dict[str, bytes] = {}
    for operation in operations[:cut]:
        if isinstance(operation, Ack):
            said[operation.channel] = said.get(operation.channel, b"") + operation.data
    return {
        line for text in said.values() for line in text.decode(errors="replace").split("\n")[:-1]
    }


# ------------------------------------------------------------------------------- recording


def record(
    command: Sequence[str], folder: Path, log: Path, acks: str | Path = ""
) -> list[Operation]:
    """Run a command to its end; what it and its children did to the folder, in order.

    `log` is where strace writes; `acks` is the file whose writes are acknowledgements, or TCP. For
    a server, start `traced(command, log)` yourself, end the server (not strace), and then call
    `read_log` with the `existing` of before the start.
    """
    before = existing(folder)
    done = subprocess.run(
        traced(command, log), capture_output=True, text=True, env=warm.unmeasured()
    )
    if done.returncode != 0:
        raise RecordingError(f"{command} under strace ended with {done.returncode}: {done.stderr}")
    return read_log(log, folder, before, acks)


def existing(folder: Path) -> list[Operation]:
    """The files of a folder as they are now, to begin a recording with."""
    return [Existing(name, data) for name, data in read_files(folder).items()]


def read_log(
    log: Path, folder: Path, before: Sequence[Operation], acks: str | Path = ""
) -> list[Operation]:
    """The operations in strace's log, checked against the folder as it is now."""
    tracker = Tracker(folder, acks, before)
    with log.open() as lines:
        for call in sorted(read_calls(lines), key=lambda call: call.effect(tracker.is_ack(call))):
            tracker.follow(call)
    _check_complete(tracker.operations, folder)
    return tracker.operations


def _check_complete(operations: Sequence[Operation], folder: Path) -> None:
    """Refuse a recording whose replay is not the folder that the process really left."""
    replayed, real = disk_after(operations).snapshot(_kept), read_files(folder)
    names = sorted(n for n in replayed.keys() | real.keys() if replayed.get(n) != real.get(n))
    if names:
        raise RecordingError(f"the replay differs from the real folder in {names}")


def read_files(folder: Path) -> State:
    """All files under a folder, by relative name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path: path.relative_to(folder).as_posix() for path in files}
    return {name: path.read_bytes() for path, name in names.items() if not name.endswith(REBUILT)}


# ---------------------------------------------------------------------------------- replay


def _kept(operation: Change | Entry) -> Change | Entry | None:
    """The fate of everything if the disk was quick."""
    return operation


def _dropped(operation: Change | Entry) -> Change | Entry | None:
    """The fate of everything if the disk had not begun."""
    return None


def _by_chance(rng: np.random.Generator) -> Fate:
    """Each is kept, lost or torn at random; how many are kept differs from disk to disk."""
    keep = rng.choice([0.1, 0.5, 0.9])

    def fate(operation: Change | Entry) -> Change | Entry | None:
        if isinstance(operation, Write) and rng.random() < 0.2:
            return torn(operation, rng)
        return operation if rng.random() < keep else None

    return fate


def torn(write: Write, rng: np.random.Generator) -> Write | None:
    """The part of a write before, or the part after, one of the sector boundaries in it."""
    first = write.offset - write.offset % SECTOR + SECTOR
    boundaries = range(first, write.offset + len(write.data), SECTOR)
    if not boundaries:  # one sector is written whole or not at all
        return write if rng.random() < 0.5 else None
    place = int(rng.choice(boundaries)) - write.offset
    if rng.random() < 0.5:
        return dataclasses.replace(write, data=write.data[:place])
    return Write(write.file, write.offset + place, write.data[place:])


@dataclass
class Inode:
    """A file without its name: its durable bytes, and the changes that may be lost."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, Change]] = field(default_factory=list)

    def settle(self, covers: int) -> None:
        """The changes made before operation `covers` become durable."""
        for when, change in self.pending:
            if when < covers:
                _change(self.durable, change)
        self.pending = [(when, change) for when, change in self.pending if when >= covers]

    def content(self, fate: Fate) -> bytes:
        """The bytes after a power cut that deals with every pending change as fate says."""
        content = bytearray(self.durable)
        for _, change in self.pending:
            survived = fate(change)
            if isinstance(survived, Write | Truncate):
                _change(content, survived)
        return bytes(content)


def _change(content: bytearray, change: Change) -> None:
    if isinstance(change, Truncate):
        content.extend(bytes(max(0, change.size - len(content))))
        del content[change.size :]
        return
    content.extend(bytes(max(0, change.offset - len(content))))
    content[change.offset : change.offset + len(change.data)] = change.data


Names = dict[str, Inode]


class Disk:
    """What is durable and what is not, operation after operation."""

    def __init__(self) -> None:
        self._time = 0
        self._seen: Names = {}  # the names as running processes see them
        self._durable: Names = {}
        self._pending: list[tuple[int, Entry, Inode]] = []

    def apply(self, operation: Operation) -> None:
        """Go on by one operation."""
        if isinstance(operation, Existing):
            self._seen[operation.file] = Inode(bytearray(operation.data))
            self._durable[operation.file] = self._seen[operation.file]
        elif isinstance(operation, Change):
            self._seen[operation.file].pending.append((self._time, operation))
        elif isinstance(operation, Entry):
            self._change_names(operation)
        elif isinstance(operation, Sync):
            self._sync(operation)
        elif isinstance(operation, SyncFolder):
            self._sync_folder(operation)
        self._time += 1

    def _change_names(self, entry: Entry) -> None:
        inode = Inode() if isinstance(entry, Create) else self._seen[entry.file]
        self._pending.append((self._time, entry, inode))
        _enter(self._seen, entry, inode)

    def _sync(self, sync: Sync) -> None:
        if sync.file not in self._seen:  # removed while it was being synced
            return
        inode = self._seen[sync.file]
        inode.settle(sync.covers)
        self._settle(
            number
            for number, (when, entry, made) in enumerate(self._pending)
            if when < sync.covers and made is inode and isinstance(entry, Create)
        )

    def _sync_folder(self, sync: SyncFolder) -> None:
        self._settle(
            number
            for number, (when, entry, _) in enumerate(self._pending)
            if when < sync.covers and sync.folder in map(parent, _touched(entry))
        )

    def _settle(self, wanted: Iterable[int]) -> None:
        """These pending entries, and what they rest on, become durable."""
        numbers = self._with_history(set(wanted))
        for number in sorted(numbers):
            _, entry, inode = self._pending[number]
            _enter(self._durable, entry, inode)
        self._pending = [p for n, p in enumerate(self._pending) if n not in numbers]

    def _with_history(self, wanted: set[int]) -> set[int]:
        """Add the earlier entries on the same names: a name's history keeps its order."""
        names: set[str] = set()
        result: set[int] = set()
        for number in range(len(self._pending) - 1, -1, -1):
            touched = _touched(self._pending[number][1])
            if number in wanted or touched & names:
                result.add(number)
                names |= touched
        return result

    def snapshot(self, fate: Fate) -> State:
        """The files after a power cut now, if fate deals so with what is pending."""
        names = dict(self._durable)
        survive = {n for n, (_, entry, _) in enumerate(self._pending) if fate(entry) is not None}
        for number in sorted(self._with_history(survive)):
            _, entry, inode = self._pending[number]
            _enter(names, entry, inode)
        return {name: inode.content(fate) for name, inode in sorted(names.items())}

    def states(self, rng: np.random.Generator) -> list[State]:
        """Everything pending lost; everything kept; and by chance. Each different state once."""
        different: list[State] = []
        for fate in (_dropped, _kept, _by_chance(rng)):
            state = self.snapshot(fate)
            if state not in different:
                different.append(state)
        return different


def _enter(names: Names, entry: Entry, inode: Inode) -> None:
    """Change the names as one entry says."""
    if isinstance(entry, Rename | Unlink):
        names.pop(entry.file)
    if isinstance(entry, Rename | Link):
        names[entry.target] = inode
    if isinstance(entry, Create):
        names[entry.file] = inode


def _touched(entry: Entry) -> set[str]:
    return {entry.file, entry.target} if isinstance(entry, Rename | Link) else {entry.file}


def disk_after(operations: Iterable[Operation]) -> Disk:
    """The disk after these operations."""
    disk = Disk()
    for operation in operations:
        disk.apply(operation)
    return disk


def states(operations: Sequence[Operation], cut: int, rng: np.random.Generator) -> list[State]:
    """What the folder may hold if the power is cut after the first `cut` operations."""
    return disk_after(operations[:cut]).states(rng)


def power_cuts(
    operations: Sequence[Operation], cuts: Iterable[int], rng: np.random.Generator
) -> Iterator[tuple[int, State]]:
    """The states of many cuts, in one pass over the operations."""
    disk, done = Disk(), 0
    for cut in sorted(cuts):
        for operation in operations[done:cut]:
            disk.apply(operation)
        done = cut
        for state in disk.states(rng):
            yield cut, state


def cut_points(operations: Sequence[Operation], n: int, rng: np.random.Generator) -> list[int]:
    """Different places to cut: half of them just before or after a sync or acknowledgement."""
    start = sum(isinstance(operation, Existing) for operation in operations)
    points = np.arange(start, len(operations) + 1)
    turns = [i for i, op in enumerate(operations) if isinstance(op, Sync | SyncFolder | Ack)]
    near = np.isin(points, [*turns, *(i + 1 for i in turns)])
    weights = 1 / len(points) + near / max(1, near.sum())
    chosen = rng.choice(points, min(n, len(points)), replace=False, p=weights / weights.sum())
    return sorted(int(point) for point in chosen)


def write_files(state: State, folder: Path) -> None:
    """Put the files of a state into a fresh folder."""
    for name, data in state.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


# --------------------------------------------------------------------------- what is lost


def losses(
    folder: Path, acked: set[Id], database: str = "store.db", query: str = "SELECT id FROM reports"
) -> set[Id]:
    """The acknowledged ids that are not in a SQLite database exactly once, after its recovery.

    A database that is damaged is an AssertionError or a sqlite3.DatabaseError.
    """
    with closing(sqlite3.connect(folder / database)) as connection:
        connection.execute("PRAGMA synchronous = OFF")  # nobody cuts the power of the check
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        found = Counter(_ids(connection, query))
    return {each for each in acked if found[each] != 1}


def _ids(connection: sqlite3.Connection, query: str) -> list[Hashable]:
    """The ids that are there; none if the power went before the table was made."""
    try:
        return [row[0] for row in connection.execute(query)]
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return []
