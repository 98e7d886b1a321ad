"""Our side of `make bench`: every mechanism as an entry, like the peers' (`contest.Entry`)."""

from __future__ import annotations

import murmuration
from benchmarks.contest import OURS, Entry
from benchmarks.peers import ATTRIBUTES, COORDINATES, SIZES
from murmuration.mechanisms.base import Task
from murmuration.mechanisms.domain import Number
from murmuration.mechanisms.registry import mechanisms_for

DEVICE = "R = m.privatize(X, rng)"
COLLECT = "H = m.estimate(m.tally(R)).value"
STEPS = {
    **dict.fromkeys(("oue", "sue", "subset"), 1 << 26),
    **{"olh": 1 << 27, "projective": 1 << 28, "bassily-smith": 1 << 24},
}
"""Of mechanisms whose cost grows with the number of items: how many items of all people."""
FEW = 1 << 14
"""People from whom the slope in n is taken, to as many as are timed."""


def _entry(task: str, name: str, given: str, people: int, size: int, more: str = "") -> Entry:
    prepare = (
        "import murmuration\nrng = murmuration.system_rng()\n"
        f"m = murmuration.mechanism({name!r}, epsilon=EPS{given})\n{more}"
    )
    return Entry(OURS, (), task, name, prepare, DEVICE, COLLECT, people, (size,), secure=True)


def numbers(people: int = 1 << 21) -> list[Entry]:
    """One number."""
    return [_entry("number", name, "", people, 1) for name in mechanisms_for(Number, kept=True)]


def items(size: int, people: int = 1 << 19) -> list[Entry]:
    """One of K items; fewer people where reports are wide."""
    kinds = murmuration.list_mechanisms().items()
    names = [name for name, kind in kinds if kind.answers is Task.FREQUENCY]
    return [
        _entry("item", name, ", k=K", min(people, STEPS.get(name, people * size) // size), size)
        for name in names
    ]


def vectors(size: int, people: int = 1 << 16) -> list[Entry]:
    """K numbers; those of a ball are made to fit into it."""
    some = min(people, (1 << 21) // size)
    ball = "X /= np.linalg.norm(X, axis=1, keepdims=True)"
    boxes = ("harmony", "block", "duchi-multi", "hybrid-composition", "sampled")
    return [
        *(_entry("vector", name, ", d=K", some, size) for name in boxes),
        _entry("vector", "privunit", ", d=K", some // 4, size, ball),
    ]


def surveys(size: int, people: int = 1 << 17) -> list[Entry]:
    """One of 16 items for each of K attributes; one attribute is asked."""
    return [
        Entry(
            OURS,
            (),
            "survey",
            f"one of several, {short}",
            "import murmuration\nrng = murmuration.system_rng()\n"
            "m = murmuration.mechanism('sampled', epsilon=EPS, domains=(16,) * K, "
            f"categorical={name!r})",
            DEVICE,
            "H = m.estimate(m.tally(R))",
            people,
            (size,),
            secure=True,
        )
        for name, short in (("grr", "grr"), ("subset", "ss"))
    ]


def everything() -> list[Entry]:
    """All that is shown."""
    return [
        *numbers(),
        *(entry for size in SIZES for entry in items(size)),
        *(entry for size in COORDINATES for entry in vectors(size)),
        *(entry for size in ATTRIBUTES for entry in surveys(size)),
    ]


def fewer() -> list[Entry]:
    """The same with few people, for slopes in n."""
    return [*numbers(1 << 19), *items(128, 4 * FEW), *vectors(16, FEW)]
