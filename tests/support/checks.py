"""What tests of mechanisms share beside the contract, which is `murmuration.testing`."""

from __future__ import annotations

import os

import numpy as np

from murmuration.exact.arrays import Floats
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.domain import Number


def people(n: int, seed: int = 5) -> Floats:
    """Numbers of a skewed crowd with some at both ends and most between grid points."""
    return Number().crowd(n, np.random.default_rng(seed))


def check_fork(rng: Rng) -> None:
    """A forked child never repeats its parent's words."""
    rng.words(4)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, rng.words(4).tobytes())
        os._exit(0)
    os.waitpid(child, 0)
    theirs = np.frombuffer(os.read(read, 64), dtype=np.uint64)
    os.close(read)
    os.close(write)
    assert (theirs != rng.words(4)).all()
