"""How long a device waits between attempts, and when it gives up."""

from __future__ import annotations

from murmuration.device import Patience


def patient(**more: float) -> tuple[Patience, list[float]]:
    """Patience without chance, and the waits that it notes."""
    waits: list[float] = []
    return Patience(sleep=waits.append, jitter=lambda most: most, **more), waits


def test_waits_double_up_to_the_longest() -> None:
    patience, waits = patient(first=0.5, most=3.0)
    assert [patience.wait(attempt, None, 100.0) for attempt in range(6)] == [True] * 5 + [False]
    assert waits == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_what_a_collector_asks_for_is_added() -> None:
    patience, waits = patient(first=0.5, most=3.0)
    assert patience.wait(0, 2.0, 100.0)
    assert not patience.wait(0, 3.5, 100.0), "longer than a device ever waits"
    assert waits == [2.5]


def test_nothing_is_waited_for_that_comes_too_late() -> None:
    patience, waits = patient(first=0.5)
    assert not patience.wait(0, None, 0.5)
    assert patience.wait(0, None, 0.6)
    assert waits == [0.5]
