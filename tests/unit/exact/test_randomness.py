"""The source of randomness: fresh, uniform, never by accident a seeded or foreign one."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import numpy as np
import pytest

from murmuration import mechanism, seeded_rng, system_rng
from murmuration.errors import ParameterError, SourceError
from murmuration.exact.keyed import Key
from murmuration.exact.randomness import BULK, ScriptedRng
from murmuration.wire.ids import new_ids
from tests.support.checks import check_fork


@pytest.mark.parametrize("n", [0, 1, 7, BULK // 8, 200_000])
def test_the_system_gives_fresh_words(n: int) -> None:
    first, second = system_rng().words(n), system_rng().words(n)
    assert first.dtype == np.uint64
    assert len(first) == len(second) == n
    assert n == 0 or (first != second).any()


def test_every_bit_of_a_word_is_fair() -> None:
    words = system_rng().words(100_000)
    ones = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=0)
    assert (np.abs(ones.astype(np.int64) - 50_000) < 6 * np.sqrt(25_000)).all()


def test_a_fork_does_not_repeat_words() -> None:
    check_fork(system_rng())


def test_a_bulk_draw_after_a_fork_differs_too() -> None:
    class Bulk:
        def words(self, n: int):
            return system_rng().words(BULK)[:n]

    check_fork(Bulk())


def in_children(run: Callable[[], bytes], children: int = 3) -> list[bytes]:
    """What forked children say, one after the other."""
    said = []
    for _ in range(children):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(write, run())
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            said.append(pipe.read())
        assert os.waitpid(child, 0)[1] == 0
    return said


def test_a_fork_after_the_generator_was_used() -> None:
    """Bulk draws leave OpenSSL's generator with a state, which a child must not continue."""
    rng = system_rng()
    rng.words(BULK)

    def drawn() -> bytes:  # from OpenSSL, from the kernel, and from OpenSSL again
        parts = [rng.words(BULK)[:64], rng.words(64), rng.words(BULK)[-64:]]
        return np.concatenate(parts).tobytes()

    said = [*in_children(drawn), drawn()]
    words = np.frombuffer(b"".join(said), dtype=np.uint64)
    assert len(words) == 4 * 3 * 64
    assert len(set(words.tolist())) == len(words)


def test_a_keyed_generator_after_a_fork() -> None:
    """One purpose has the same words on both sides, by design: the same report, no fresh noise.

    No fork makes a generator go on in another purpose's words.
    """
    key = Key(bytes(range(32)))
    used = key.rng("answer", "yes")
    before = used.words(5).tobytes()

    def words() -> bytes:
        again = key.rng("answer", "yes").words(5)
        other = key.rng("answer", "no").words(50)
        return np.concatenate([again, used.words(5), other]).tobytes()

    said = [*in_children(words), words()]
    assert len(set(said)) == 1
    assert said[0][:40] == before
    found = np.frombuffer(said[0], dtype=np.uint64).tolist()
    assert len(set(found)) == len(found) == 60


def test_a_fork_while_threads_draw() -> None:
    """Nothing is held half-drawn for a child to go on with, whatever others do at that moment."""
    rng, ended, heard = system_rng(), threading.Event(), list[bytes]()

    def draw() -> None:
        while not ended.is_set():
            heard.append(rng.words(BULK // 8)[:8].tobytes() + rng.words(8).tobytes())

    threads = [threading.Thread(target=draw) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        said = in_children(lambda: rng.words(BULK // 8)[:64].tobytes() + rng.words(64).tobytes())
    finally:
        ended.set()
        for thread in threads:
            thread.join()
    words = np.frombuffer(b"".join([*said, *heard]), dtype=np.uint64).tolist()
    assert len(words) >= 3 * 128
    assert len(set(words)) == len(words)


def test_secrets_and_ids_after_a_fork() -> None:
    """What is made once, from the kernel: no two processes make the same, many at once included."""
    new_ids(BULK)  # ids of many are a bulk draw

    def made() -> bytes:
        names = [Key.new().name("x") for _ in range(4)]
        return b"".join(names) + new_ids(4).tobytes() + new_ids(BULK)[-4:].tobytes()

    said = [*in_children(made), made()]
    parts = [one[start : start + 16] for one in said for start in range(0, len(one), 16)]
    assert len(set(parts)) == len(parts) == 4 * (8 + 4 + 4)


def test_a_crowd_after_a_fork() -> None:
    """Each person's words are its own on both sides: the same for the same, and no one else's."""
    keys = Key(bytes(range(32))).each("row", np.arange(80, dtype=np.uint8).reshape(10, 8))
    used = keys.rng("answer")
    used.words(10)

    def words() -> bytes:
        return used.words(10).tobytes() + keys.rng("answer").words(20).tobytes()

    said = [*in_children(words), words()]
    assert len(set(said)) == 1
    after, again = said[0][:80], np.frombuffer(said[0][80:], dtype=np.uint64).reshape(10, 2)
    assert again[:, 1].tobytes() == after
    assert len(set(again.ravel().tolist())) == 20


def test_a_seed_repeats_and_says_so() -> None:
    assert seeded_rng(3).words(5).tolist() == seeded_rng(3).words(5).tolist()
    assert seeded_rng(3).words(5).tolist() != seeded_rng(4).words(5).tolist()
    assert "simulation only" in repr(seeded_rng(3))
    assert repr(system_rng()) == "SystemRng()"
    for seed in (-1, 1.5, True, None):
        with pytest.raises(ParameterError):
            seeded_rng(seed)


def test_other_sources_are_refused() -> None:
    duchi = mechanism("duchi", epsilon=1.0)
    for source in (np.random.default_rng(1), None, 42, np.random):
        with pytest.raises(SourceError, match="system_rng"):
            duchi.privatize([0.1], source)


def test_a_script_ends() -> None:
    with pytest.raises(SourceError, match="holds 1 words"):
        ScriptedRng([1]).words(2)
