"""What processes do to the files of one folder, read from the log of strace.

`traced` is the command to run, `read_calls` reads its log, and `Tracker` turns system calls into
operations on the folder's files. The order of the operations is the order in which they count: a
write or a sync from its end, an acknowledgement from its beginning, since the other side may have
it from then on. With several threads strace shows a call in two halves, between which others run.
"""

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import ClassVar

from tests.support.tools import require_tool

TCP = "TCP"  # in the place of a file of acknowledgements: whatever is sent over TCP
REBUILT = ("-shm",)  # SQLite's shared memory is made anew from the log when it is missing
LONGEST = 1 << 24  # bytes of one call that strace writes down; a longer call is an error
OPENS = ("open", "openat", "creat")
PLACED = ("pwrite64", "pwritev", "pwritev2")
WRITES = ("write", "writev", *PLACED, "sendto", "sendmsg")
SYNCS = ("fsync", "fdatasync")
SYNCS_OF_ALL = ("sync", "syncfs")
TRUNCATES = ("truncate", "ftruncate")
RENAMES = ("rename", "renameat", "renameat2")
UNLINKS = ("unlink", "unlinkat")
LINKS = ("link", "linkat")
TRACED = (
    *(*OPENS, *WRITES, *SYNCS, *SYNCS_OF_ALL, *TRUNCATES, *RENAMES, *UNLINKS, *LINKS),
    *("chdir", "fallocate", "lseek"),
)


class RecordingError(Exception):
    """The trace does not tell the whole story, so nothing may be concluded from it."""


@dataclass(frozen=True)
class Existing:
    """A file that was there, and durable, before the recording."""

    file: str
    data: bytes


@dataclass(frozen=True)
class Write:
    """Bytes put into a file at an offset."""

    file: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    """A file made to have this size, by cutting or by adding zeros."""

    file: str
    size: int


@dataclass(frozen=True)
class Sync:
    """An fsync that has returned: operations[:covers] on this file are durable."""

    file: str
    covers: int


@dataclass(frozen=True)
class SyncFolder:
    """An fsync of a folder ("" is the recorded one): names in it as of operations[:covers]."""

    folder: str
    covers: int


@dataclass(frozen=True)
class Create:
    """A new name for a new, empty file."""

    file: str


@dataclass(frozen=True)
class Rename:
    """A file gets another name, taking it from the file that had it."""

    file: str
    target: str


@dataclass(frozen=True)
class Link:
    """A file gets a further name."""

    file: str
    target: str


@dataclass(frozen=True)
class Unlink:
    """A name is removed."""

    file: str


@dataclass(frozen=True)
class Ack:
    """What the application told the world: bytes, and where it wrote them."""

    data: bytes
    channel: str


Change = Write | Truncate
Entry = Create | Rename | Link | Unlink
Operation = Existing | Change | Entry | Sync | SyncFolder | Ack


def parent(name: str) -> str:
    """The folder that a name is in; "" is the recorded one."""
    above = PurePosixPath(name).parent.as_posix()
    return "" if above == "." else above


def traced(command: Sequence[str], log: Path) -> list[str]:
    """The command under strace: children and threads too, paths beside descriptors, all in hex."""
    strace = [
        require_tool("strace"),
        "-f",
        "--seccomp-bpf",
        "-yy",
        "-xx",
        "-qq",
        "-s",
        f"{LONGEST}",
    ]
    calls = ",".join(f"?{name}" for name in TRACED)  # ?: not every machine has every call
    return [*strace, "-e", "signal=none", "-e", f"trace={calls}", "-o", str(log), "--", *command]


# --------------------------------------------------------------------------- strace's lines


@dataclass(frozen=True)
class Call:
    """One system call that succeeded, and the lines of the log where it began and ended.

    A write whose process was killed before strace saw its end has the result CUT: whoever it was
    for may have it.
    """

    process: str
    name: str
    arguments: str
    result: int
    opened: str
    began: int
    ended: int

    def effect(self, at_once: bool) -> int:
        """The line from which it counts: its end, or for an acknowledgement its beginning."""
        return self.began if at_once else self.ended


CUT = -1
LINE = re.compile(r"^(?:(\d+) +)?(.*)$")
UNFINISHED = " <unfinished ...>"
RESUMED = re.compile(r"^<\.\.\. \w+ resumed>")
CALL = re.compile(r"^(\w+)\((.*)\) += (\d+)(.*)$")
NEVER_ENDED = re.compile(r"^(\w+)\((.*?)(?:\) += \?.*)?$")
DESCRIPTOR = re.compile(r"^(\w+)<(.*?)>(\(deleted\))?(?=[,) ]|$)")
HEX = re.compile(r"^(?:\\x[0-9a-f]{2})+")
STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
PATH = re.compile(r'(?:\w+<([^<>]*)>, )?"((?:\\x[0-9a-f]{2})*)"')


def read_calls(lines: Iterable[str]) -> Iterator[Call]:
    """Put the two halves of interrupted lines together; calls that failed go.

    So do calls that never ended, but for writes.
    """
    halves: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        process, text = LINE.match(line.rstrip("\n")).groups(default="")  # type: ignore[union-attr]
        if text.endswith(UNFINISHED):
            halves[process] = number, text.removesuffix(UNFINISHED)
            continue
        began, half = halves.pop(process) if RESUMED.match(text) else (number, "")
        whole = half + RESUMED.sub("", text)
        if match := CALL.match(whole):
            name, arguments, result, opened = match.groups()
            yield Call(process, name, arguments, int(result), opened, began, number)
        elif " = ?" in whole:
            halves[process] = began, whole
    for process, (began, half) in halves.items():
        match = NEVER_ENDED.match(half)
        if match and match[1] in WRITES:
            yield Call(process, match[1], match[2], CUT, "", began, sys.maxsize)


def _unhex(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _path(text: str) -> str:
    """A path as -yy prints it: in hex if it has a name, else something like TCP:[...]."""
    name = HEX.match(text)  # after it, a device says what kind it is
    return os.fsdecode(_unhex(name[0])) if name else text


def _data(call: Call) -> bytes:
    """The bytes that a call has written: of one buffer or of many."""
    parts = STRING.findall(call.arguments)
    if any(shortened for _, shortened in parts):
        raise RecordingError(f"a {call.name} of more than {LONGEST} bytes was cut short")
    whole = b"".join(_unhex(text) for text, _ in parts)
    return whole if call.result == CUT else whole[: call.result]


def _last_number(call: Call) -> int:
    return int(call.arguments.rsplit(", ", 1)[1])


# ------------------------------------------------------------- from calls to operations


Handler = Callable[["Tracker", Call], Iterator[Operation]]


class Tracker:
    """Follows the calls in order and notes what they do to the folder's files.

    It keeps the size of every file and the position of every descriptor, because a plain write
    says neither where it goes nor whether it adds to the end.
    """

    def __init__(self, folder: Path, acks: str | Path, before: Sequence[Operation]) -> None:
        self.operations: list[Operation] = list(before)
        self._folder = os.path.realpath(folder)
        self._acks = TCP if acks == TCP else os.path.realpath(acks) if acks else ""
        self._sizes = {op.file: len(op.data) for op in before if isinstance(op, Existing)}
        self._positions: dict[tuple[str, str], int | None] = {}  # None: always at the end
        self._working: dict[str, str] = {}  # the working folder of each process, when it is told
        self._effects = [-1] * len(before)  # the line from which each operation counts

    def follow(self, call: Call) -> None:
        """Note one call."""
        if self.is_ack(call):
            self._note(Ack(_data(call), self._described(call)[1]), call.began)
        if self.is_ack(call) or call.result == CUT:
            return
        for names, handler in self._handlers.items():
            if call.name in names:
                for operation in handler(self, call):
                    self._note(operation, call.ended)

    def is_ack(self, call: Call) -> bool:
        """Whether a call sends an acknowledgement."""
        if not self._acks or call.name not in WRITES:
            return False
        target = self._described(call)[1]
        return target.startswith(TCP) if self._acks == TCP else target == self._acks

    def _note(self, operation: Operation, effect: int) -> None:
        self.operations.append(operation)
        self._effects.append(effect)

    def _described(self, call: Call) -> tuple[str, str]:
        """Number and path of the descriptor a call works on; no path if it is deleted."""
        match = DESCRIPTOR.match(call.arguments)
        if not match or match[3]:
            return "", ""
        return match[1], _path(match[2])

    def _name(self, path: str) -> str | None:
        """A path's name inside the folder; None if it is outside or does not matter."""
        if path == self._folder:
            return ""
        inside = path.startswith(f"{self._folder}/") and not path.endswith(REBUILT)
        return path.removeprefix(f"{self._folder}/") if inside else None

    def _named(self, call: Call) -> list[str | None]:
        """The names of the paths a call is given."""
        paths = [self._absolute(call, *found) for found in PATH.findall(call.arguments)]
        return [self._name(os.path.join(os.path.realpath(p.parent), p.name)) for p in paths]

    def _absolute(self, call: Call, base: str, text: str) -> Path:
        """A path, from the folder that stands beside it or else the one the process works in."""
        working = _path(base) or self._working.get(call.process, "")
        return Path(os.path.normpath(Path.cwd() / working / _path(text)))

    def _covers(self, call: Call) -> int:
        """How many operations were over when a sync began."""
        over = len(self._effects)
        while over and self._effects[over - 1] >= call.began:
            over -= 1
        return over

    def _open(self, call: Call) -> Iterator[Operation]:
        match = DESCRIPTOR.match(f"{call.result}{call.opened}")
        name = self._name(_path(match[2])) if match and not match[3] else None
        if match is None or not name:
            return
        makes = call.name == "creat"
        if name not in self._sizes and (makes or "O_CREAT" in call.arguments):
            self._sizes[name] = 0
            yield Create(name)
        if self._sizes.get(name) and (makes or "O_TRUNC" in call.arguments):
            self._sizes[name] = 0
            yield Truncate(name, 0)
        self._positions[match[1], name] = None if "O_APPEND" in call.arguments else 0

    def _write(self, call: Call) -> Iterator[Operation]:
        descriptor, path = self._described(call)
        name = self._name(path)
        if name is None:
            return
        data = _data(call)
        offset = self._offset(call, descriptor, name)
        self._sizes[name] = max(self._size(call, name), offset + len(data))
        if call.name not in PLACED and self._positions[descriptor, name] is not None:
            self._positions[descriptor, name] = offset + len(data)
        yield Write(name, offset, data)

    def _offset(self, call: Call, descriptor: str, name: str) -> int:
        """Where a write goes: where it says, at the end, or where the descriptor stands."""
        if (descriptor, name) not in self._positions and call.name not in PLACED:
            raise RecordingError(
                f"{call.name} to {name} by a descriptor whose opening was not seen"
            )
        if self._positions.get((descriptor, name), 0) is None:  # Linux: also when placed
            return self._size(call, name)
        if call.name == "pwritev2":
            return int(call.arguments.split(", ")[-2])
        return _last_number(call) if call.name in PLACED else self._positions[descriptor, name] or 0

    def _size(self, call: Call, name: str) -> int:
        if name not in self._sizes:
            raise RecordingError(f"{call.name} on {name}, which was never seen to be made")
        return self._sizes[name]

    def _chdir(self, call: Call) -> Iterator[Operation]:
        self._working[call.process] = str(self._absolute(call, *PATH.findall(call.arguments)[0]))
        yield from ()

    def _seek(self, call: Call) -> Iterator[Operation]:
        descriptor, path = self._described(call)
        key = descriptor, self._name(path) or ""
        if self._positions.get(key) is not None:
            self._positions[key] = call.result
        yield from ()

    def _truncate(self, call: Call) -> Iterator[Operation]:
        name = self._name(self._described(call)[1]) if call.name == "ftruncate" else None
        name = self._named(call)[0] if call.name == "truncate" else name
        if name is not None:
            self._size(call, name)
            self._sizes[name] = _last_number(call)
            yield Truncate(name, self._sizes[name])

    def _allocate(self, call: Call) -> Iterator[Operation]:
        name = self._name(self._described(call)[1])
        if name is None:
            return
        mode, offset, length = call.arguments.split(", ")[-3:]
        if mode != "0":
            raise RecordingError(f"fallocate of {name} with mode {mode} is not modelled")
        if int(offset) + int(length) > self._size(call, name):
            self._sizes[name] = int(offset) + int(length)
            yield Truncate(name, self._sizes[name])

    def _sync(self, call: Call) -> Iterator[Operation]:
        name = self._name(self._described(call)[1])
        if name is not None:
            covers = self._covers(call)
            yield Sync(name, covers) if name in self._sizes else SyncFolder(name, covers)

    def _sync_all(self, call: Call) -> Iterator[Operation]:
        covers = self._covers(call)
        yield from [Sync(name, covers) for name in self._sizes]
        yield from [SyncFolder(name, covers) for name in {"", *map(parent, self._sizes)}]

    def _rename(self, call: Call) -> Iterator[Operation]:
        source, target = self._named(call)
        if source is None and target is None:
            return
        if source is None or source not in self._sizes or "RENAME_EXCHANGE" in call.arguments:
            raise RecordingError(f"{call.name} of {source} to {target} is not modelled")
        size = self._sizes.pop(source)
        if target is not None:
            self._sizes[target] = size
        for (descriptor, name), position in list(self._positions.items()):
            if name == source and target is not None:
                self._positions[descriptor, target] = position
        yield Unlink(source) if target is None else Rename(source, target)

    def _link(self, call: Call) -> Iterator[Operation]:
        source, target = self._named(call)
        if target is not None:
            if source is None or source not in self._sizes:
                raise RecordingError(f"{call.name} of {source} to {target} is not modelled")
            self._sizes[target] = self._sizes[source]
            yield Link(source, target)

    def _unlink(self, call: Call) -> Iterator[Operation]:
        name = self._named(call)[0]
        if name is not None and name in self._sizes:  # else it was a folder
            del self._sizes[name]
            yield Unlink(name)

    _handlers: ClassVar[dict[tuple[str, ...], Handler]] = {
        OPENS: _open,
        WRITES: _write,
        SYNCS: _sync,
        SYNCS_OF_ALL: _sync_all,
        TRUNCATES: _truncate,
        RENAMES: _rename,
        UNLINKS: _unlink,
        LINKS: _link,
        ("chdir",): _chdir,
        ("fallocate",): _allocate,
        ("lseek",): _seek,
    }
