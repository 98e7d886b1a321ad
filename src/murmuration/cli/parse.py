"""Options that are lists, matrices and ranges, read from their text."""

from __future__ import annotations

from typing import Any

from murmuration.errors import ParameterError


def parse_epsilons(text: str) -> list[float]:
    """Read a comma-separated list of epsilons.

    >>> parse_epsilons("0.5, 1")
    [0.5, 1.0]
    """
    epsilons = parse_numbers("--epsilon", text)
    if not epsilons:
        raise ParameterError("--epsilon is empty")
    return list(epsilons)


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Read the comma-separated numbers of an option; an empty text has none."""
    try:
        return tuple(float(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise ParameterError(f"{option} takes numbers with commas between; got {text!r}") from None


def parse_edges(text: str, low: float | None, high: float | None) -> tuple[float, ...]:
    """Read edges, in [-1, 1] or in the units of a range that is given."""
    from murmuration.mechanisms.graded.base import to_domain  # here: most commands have no edges

    edges = parse_numbers("--edges", text)
    return edges if low is None or high is None else to_domain(edges, low, high)


def parse_ranges(
    option: str, text: str, low: float | None, high: float | None
) -> list[tuple[float, ...]]:
    """Read ranges, each as low:high, in [-1, 1] or in the units of a range that is given.

    >>> parse_ranges("--between", "25:75", 0, 100)
    [(-0.5, 0.5)]
    """
    from murmuration.mechanisms.graded.base import to_domain  # here: most commands have no edges

    pairs = [parse_numbers(option, part.replace(":", ",")) for part in text.split(",")]
    if any(len(pair) != 2 for pair in pairs):
        raise ParameterError(f"{option} takes ranges as 30:60,70:80; got {text!r}")
    own = low is None or high is None
    return [pair if own else to_domain(pair, low, high) for pair in pairs]  # type: ignore[arg-type]


def parse_value(text: str) -> Any:
    """Read one value: a matrix has rows with ; between, a list has commas."""
    if ";" in text:
        return tuple(parse_value(row) for row in text.split(";"))
    return tuple(map(_number, text.split(","))) if "," in text else _number(text)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
