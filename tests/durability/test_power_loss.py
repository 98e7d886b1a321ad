"""The power is cut at hundreds of places in a recorded run: what was acknowledged must be there.

The instrument is tested too: it must find what a careless store loses, and its reading of strace
must not take a sync for done before it is.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.support.file_trace import (
    TCP,
    Ack,
    Create,
    Existing,
    Operation,
    RecordingError,
    Rename,
    Sync,
    SyncFolder,
    Tracker,
    Truncate,
    Unlink,
    Write,
    read_calls,
)
from tests.support.places import SUPPORT
from tests.support.power_loss import (
    State,
    acked,
    cut_points,
    disk_after,
    losses,
    power_cuts,
    read_log,
    record,
    states,
    torn,
    write_files,
)

WORKLOAD = SUPPORT / "sqlite_workload.py"
CUTS = 500
GROUPS = 120


def workload(folder: Path, synchronous: str) -> list[Operation]:
    """A recording of the stand-in with this setting of SQLite."""
    data, acks = folder / "data", folder / "acks"
    data.mkdir()
    command = [sys.executable, str(WORKLOAD), str(data), str(acks), synchronous, str(GROUPS)]
    return record(command, data, folder / "strace.log", acks)


def lost(operations: list[Operation], cut: int, state: State) -> set[int]:
    """Recover one state, and count what was promised and is not there."""
    promised = {int(line) for line in acked(operations, cut)}
    with tempfile.TemporaryDirectory() as fresh:
        write_files(state, Path(fresh))
        return losses(Path(fresh), promised)


def python(folder: Path, code: str, acks: str | Path = "") -> list[Operation]:
    """A recording of a few lines of Python that run inside a folder."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    start = f"import os; os.chdir({str(data)!r})\n"
    return record([sys.executable, "-c", start + code], data, folder / "strace.log", acks)


# ----------------------------------------------------------------------------- SQLite


@pytest.mark.slow
def test_full_keeps_every_promise(tmp_path: Path) -> None:
    operations = workload(tmp_path, "FULL")
    rng = np.random.default_rng(1)
    cuts = cut_points(operations, CUTS, rng)
    assert len(cuts) == CUTS
    seen = list(power_cuts(operations, cuts, rng))
    assert len(seen) > 1.5 * CUTS
    assert [(cut, bad) for cut, state in seen if (bad := lost(operations, cut, state))] == []


@pytest.mark.slow
def test_normal_is_caught_losing(tmp_path: Path) -> None:
    operations = workload(tmp_path, "NORMAL")
    rng = np.random.default_rng(2)
    seen = power_cuts(operations, cut_points(operations, 200, rng), rng)
    assert sum(bool(lost(operations, cut, state)) for cut, state in seen) > 0


def test_the_recording_has_all_kinds_of_operations(tmp_path: Path) -> None:
    operations = workload(tmp_path, "FULL")
    kinds = {type(operation) for operation in operations}
    assert kinds >= {Write, Truncate, Sync, SyncFolder, Create, Unlink, Ack}
    assert {f"{each}" for each in range(GROUPS)} <= acked(operations, len(operations))
    checkpoints = [op for op in operations if op == Sync("store.db", getattr(op, "covers", 0))]
    assert len(checkpoints) > 10


# ----------------------------------------------------------------- recordings of small programs


def test_bytes_written_in_every_way(tmp_path: Path) -> None:
    operations = python(
        tmp_path,
        """
a = os.open("a", os.O_RDWR | os.O_CREAT)
os.write(a, b"0123456789"); os.lseek(a, 2, 0); os.write(a, b"xx"); os.writev(a, [b"y", b"z"])
os.pwrite(a, b"\\x00\\xff", 8); os.pwritev(a, [b"p", b"q"], 12); os.posix_fallocate(a, 0, 16)
b = os.open("b", os.O_WRONLY | os.O_CREAT | os.O_APPEND); os.write(b, b"one"); os.write(b, b"two")
os.truncate("b", 4); os.write(b, b"end"); os.link("b", "c"); os.rename("b", "a b"); os.unlink("c")
os.mkdir("sub"); os.replace("a b", "sub/b"); open("sub/b", "ab").write(b"!")
""",
    )
    kept = states(operations, len(operations), np.random.default_rng(0))[1]
    assert kept == {"a": b"01xxyz67\x00\xff\x00\x00pq\x00\x00", "sub/b": b"onetend!"}


def test_what_was_there_before_is_durable(tmp_path: Path) -> None:
    python(tmp_path, "open('a', 'wb').write(b'before')")
    operations = python(tmp_path, "open('a', 'wb').write(b'after')")
    rng = np.random.default_rng(0)
    assert operations[0] == Existing("a", b"before")
    assert states(operations, len(operations), rng)[:2] == [{"a": b"before"}, {"a": b"after"}]
    assert min(cut_points(operations, 99, rng)) == 1


def test_a_change_that_strace_does_not_show_is_refused(tmp_path: Path) -> None:
    unseen = "import mmap; a = open('a', 'w+b'); a.truncate(99); mmap.mmap(a.fileno(), 99)[0] = 7"
    with pytest.raises(RecordingError, match="differs from the real folder in \\['a'\\]"):
        python(tmp_path, unseen)


def test_a_command_that_fails_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="ZeroDivisionError"):
        python(tmp_path, "1 / 0")


def test_what_is_sent_over_tcp_can_be_the_acknowledgement(tmp_path: Path) -> None:
    code = """
import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
a = os.open("a", os.O_WRONLY | os.O_CREAT); os.write(a, b"report"); os.fsync(a)
server.accept()[0].sendall(b"stored 1\\n")
"""
    operations = python(tmp_path, code, TCP)
    assert [type(op) for op in operations] == [Create, Write, Sync, Ack]
    assert acked(operations, 4) == {"stored 1"}
    assert acked(operations, 3) == set()


def test_a_careless_replacement_of_a_file_is_caught(tmp_path: Path) -> None:
    """Rename without a sync of the contents: the old file is gone, the new one is empty."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a").write_bytes(b"old")
    step = "b = os.open('b', os.O_WRONLY | os.O_CREAT); os.write(b, b'new')"
    last = "os.replace('b', 'a'); os.fsync(os.open('.', 0))"
    operations = python(tmp_path, f"{step}; {last}")
    assert states(operations, len(operations), np.random.default_rng(0))[0] == {"a": b""}
    operations = python(tmp_path, f"{step}; os.fsync(b); {last}")
    assert states(operations, len(operations), np.random.default_rng(0)) == [{"a": b"new"}]


THREADS = """
import threading
def store(worker):
    file = os.open(f"{worker}", os.O_WRONLY | os.O_CREAT)
    acks = os.open(ACKS, os.O_WRONLY | os.O_APPEND)
    for number in range(40):
        os.write(file, number.to_bytes(1, "big"))
        SYNC
        os.write(acks, f"{worker} {number}\\n".encode())
threads = [threading.Thread(target=store, args=(worker,)) for worker in range(4)]
[thread.start() for thread in threads]; [thread.join() for thread in threads]
"""


@pytest.mark.slow
@pytest.mark.parametrize(("sync", "safe"), [("os.fsync(file)", True), ("pass", False)])
def test_threads_at_once(tmp_path: Path, sync: str, safe: bool) -> None:
    """Calls of several threads overlap in the log; a promise is still found kept or broken."""
    acks = tmp_path / "acks"
    acks.touch()
    code = THREADS.replace("SYNC", sync).replace("ACKS", repr(str(acks)))
    operations = python(tmp_path, code, acks)
    assert not safe or "<unfinished ...>" in (tmp_path / "strace.log").read_text()
    assert len(acked(operations, len(operations))) == 160
    cuts = power_cuts(operations, range(len(operations)), np.random.default_rng(6))
    assert all(there(acked(operations, cut), state) for cut, state in cuts) == safe


def there(promised: set[str], state: State) -> bool:
    """Whether every promised number is in its worker's file, at its place."""
    pairs = [map(int, line.split()) for line in promised]
    return all(state.get(f"{w}", b"")[n : n + 1] == bytes([n]) for w, n in pairs)


# -------------------------------------------------------------------------- strace's log

TWO_THREADS = """\
7 openat(AT_FDCWD<D>, "D/a", O_WRONLY|O_CREAT, 0600) = 3<D/a>
7 pwrite64(3<D/a>, "\\x41", 1, 0) = 1
7 fdatasync(3<D/a> <unfinished ...>
8 pwrite64(3<D/a>, "\\x42", 1, 1) = 1
8 write(4<D/../acks>, "\\x31\\x0a", 2 <unfinished ...>
7 <... fdatasync resumed>)          = 0
8 <... write resumed>)              = 2
8 fsync(3<D/a> <unfinished ...>
"""


def hexed(log: str, folder: Path) -> str:
    """Paths as strace -xx writes them."""
    for path in (f"{folder.parent}/acks", f"{folder}/a", f"{folder}"):
        log = log.replace(path, "".join(f"\\x{byte:02x}" for byte in path.encode()))
    return log


def test_a_sync_counts_from_its_end_for_what_was_there_at_its_beginning(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "a").write_bytes(b"AB")
    text = TWO_THREADS.replace("D/../acks", f"{tmp_path}/acks").replace("D", str(folder))
    (tmp_path / "log").write_text(hexed(text, folder))
    operations = read_log(tmp_path / "log", folder, [], tmp_path / "acks")
    assert operations == [
        Create("a"),
        Write("a", 0, b"A"),
        Write("a", 1, b"B"),
        Ack(b"1\n", f"{tmp_path}/acks"),  # begun, so the client may have it: before the sync
        Sync("a", 2),
    ]
    assert states(operations, 5, np.random.default_rng(0))[:2] == [{"a": b"A"}, {"a": b"AB"}]


def test_calls_that_failed_or_never_ended_do_not_count() -> None:
    failed = "7 fsync(3</a>)  = -1 EIO (Input/output error)"
    lines = [
        failed,
        "7 fsync(3</a>) = ?",
        "8 fsync(3</a> <unfinished ...>",
        "+++ exited with 0 +++",
    ]
    assert list(read_calls(lines)) == []


@pytest.mark.parametrize(
    "lines",
    [
        [
            '7 sendto(3<TCP:[1]>, "\\x41", 1, 0, NULL, 0 <unfinished ...>',
            "+++ killed by SIGKILL +++",
        ],
        ['7 sendto(3<TCP:[1]>, "\\x41", 1, 0, NULL, 0) = ?'],
        [
            "7 sendto(3<TCP:[1]>, <unfinished ...>",
            '7 <... sendto resumed>"\\x41", 1, 0, NULL, 0) = ?',
        ],
    ],
)
def test_an_acknowledgement_cut_short_by_a_kill_may_have_arrived(lines: list[str]) -> None:
    tracker = Tracker(Path("/nowhere"), TCP, [])
    for call in read_calls(lines):
        tracker.follow(call)
    assert tracker.operations == [Ack(b"A", "TCP:[1]")]


# -------------------------------------------------------------------------------- the disk


def possible(operations: list[Operation]) -> set[tuple[tuple[str, bytes], ...]]:
    """Every state that comes up in many power cuts at the end."""
    disk, rng = disk_after(operations), np.random.default_rng(3)
    return {tuple(state.items()) for _ in range(200) for state in disk.states(rng)}


def test_writes_that_are_not_synced_are_lost_in_any_combination() -> None:
    operations: list[Operation] = [Existing("a", b"..")]
    operations += [Write("a", 0, b"x"), Write("a", 1, b"y")]
    contents = {dict(state)["a"] for state in possible(operations)}
    assert contents == {b"..", b"x.", b".y", b"xy"}
    assert len(possible([*operations, Sync("a", 3)])) == 1


def test_torn_writes_end_at_sectors() -> None:
    rng = np.random.default_rng(4)
    write = Write("a", 500, bytes(range(256)) * 8)
    parts = [part for _ in range(200) if (part := torn(write, rng))]
    assert {part.offset for part in parts} == {500, 512, 1024, 1536, 2048, 2540 // 512 * 512}
    for part in parts:
        end = part.offset + len(part.data)
        assert part.data == write.data[part.offset - 500 : end - 500]
        assert part.offset == 500 or part.offset % 512 == 0
        assert end == 2548 or end % 512 == 0
    assert {torn(Write("a", 0, b"small"), rng) for _ in range(50)} == {
        None,
        Write("a", 0, b"small"),
    }


def test_names_need_a_sync_and_keep_their_order() -> None:
    operations: list[Operation] = [Existing("a", b"1"), Create("b"), Write("b", 0, b"2")]
    operations += [Sync("b", 3), Rename("b", "a"), Create("c"), Unlink("a")]
    old, new = (("a", b"1"), ("b", b"2")), (("a", b"2"),)
    without_c = {tuple(e for e in state if e[0] != "c") for state in possible(operations)}
    assert without_c == {old, new, ()}
    assert possible([*operations, SyncFolder("", 5), SyncFolder("", 7)]) == {(("c", b""),)}


def test_a_new_file_under_an_old_name_brings_the_removal_with_it() -> None:
    operations: list[Operation] = [Existing("a", b"1"), Unlink("a"), Create("a")]
    operations += [Write("a", 0, b"2"), Sync("a", 4)]
    assert possible(operations) == {(("a", b"2"),)}


def test_cut_points_are_different_and_near_syncs() -> None:
    operations: list[Operation] = [Write("a", n, b"x") for n in range(1000)]
    operations[500] = Sync("a", 500)
    points = cut_points(operations, 100, np.random.default_rng(5))
    assert {500, 501} <= set(points)
    assert len(set(points)) == 100
    assert points == sorted(points)
    assert min(points) >= 0
    assert max(points) <= 1000
