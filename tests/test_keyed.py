"""Words that follow from a secret."""

import hashlib
import hmac

import numpy as np
import pytest

from murmuration.errors import ParameterError
from murmuration.exact.keyed import Key, context
from murmuration.mechanisms.domain import Ball, Box, Items, Number

SECRET = bytes(range(32))


def test_words_are_those_that_the_page_describes() -> None:
    """Nothing of ours, only what a browser has as well."""
    text = b"\x00\x00\x00\x06answer\x00\x00\x00\x012"
    key = hmac.new(SECRET, text, hashlib.sha256).digest()
    blocks = [hmac.new(key, i.to_bytes(8, "big"), hashlib.sha256).digest() for i in range(3)]
    wanted = [int.from_bytes(b"".join(blocks)[8 * i :][:8], "little") for i in range(11)]
    rng = Key(SECRET).rng("answer", "2")
    assert [*rng.words(1), *rng.words(0), *rng.words(7), *rng.words(3)] == wanted


def test_no_two_purposes_share_words() -> None:
    key = Key(SECRET)
    contexts = [("a", "b"), ("ab",), ("a", "b", ""), ("", "ab"), ("a", b"\0\0\0\1b"), ()]
    assert len({context(*parts) for parts in contexts}) == len(contexts)
    assert len({key.rng(*parts).words(1).tobytes() for parts in contexts}) == len(contexts)
    assert Key.new().name() != Key.new().name()


def test_a_secret_is_long_enough_and_never_shown() -> None:
    for bad in (b"", b"short", "x" * 32, 5):
        with pytest.raises(ParameterError):
            Key(bad)  # type: ignore[arg-type]
    key = Key(SECRET)
    assert SECRET.hex() not in repr(key) + repr(key.rng("a"))


def test_written_values() -> None:
    assert (Number().written(np.array([0.0])) == Number().written(np.array([-0.0]))).all()
    assert Number().written(np.array([0.5, -1.0])).view("<f8").ravel().tolist() == [0.5, -1.0]
    assert Box((0, 3)).written([np.array([0.5]), np.array([2])]).shape == (1, 16)
    assert Ball(3).written(np.ones((4, 3)) / 3).shape == (4, 24)
    assert Items(9).written(np.array([8, 1], dtype=np.int64))[:, 0].tolist() == [8, 1]
