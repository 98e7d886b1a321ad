"""What the commands share: two consoles, JSON, progress, plots."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from murmuration.errors import ParameterError
from murmuration.mechanisms.graded.base import to_domain

SEMANTICS_HELP = (
    "What two values in different ranges may cost: max (the larger budget), min (the smaller), or "
    "a matrix as 2,1;1,1."
)

console = Console()
errors = Console(stderr=True)


def emit_json(data: Any) -> None:
    """Print machine-readable output; infinity, which JSON lacks, is null."""
    console.print_json(json.dumps(_finite(data)))


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def progress_bar() -> Progress:
    """Return a progress bar on standard error, gone when done: standard output stays clean."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=errors,
        transient=True,
        disable=not errors.is_terminal,
    )


def pyplot() -> Any:
    """Return matplotlib's pyplot for drawing into files, or say how to install it."""
    try:
        import_module("matplotlib").use("Agg")
        return import_module("matplotlib.pyplot")
    except ImportError:
        raise ParameterError(
            "plots need matplotlib: pip install 'murmuration[plots]', or pass --no-plot"
        ) from None


def checked_plot(path: Path) -> Path:
    """Say before the work, not after it, that a plot cannot be drawn or saved there."""
    pyplot()
    if path.suffix.lower() not in (".png", ".svg", ".pdf") or path.is_dir():
        raise ParameterError(f"a plot is a .png, .svg or .pdf file; got {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as problem:
        raise ParameterError(f"cannot write to {path}: {problem}") from None
    return path


def save_plot(figure: Any, path: Path) -> None:
    """Save a figure and print where."""
    figure.savefig(path, dpi=130, bbox_inches="tight")
    errors.print(f"plot: {path.resolve()}", highlight=False, soft_wrap=True)


def parse_epsilons(text: str) -> list[float]:
    """Read a comma-separated list of epsilons.

    >>> parse_epsilons("0.5, 1")
    [0.5, 1.0]
    """
    epsilons = parse_numbers("--epsilon", text)
    if not epsilons:
        raise ParameterError("--epsilon is empty")
    return list(epsilons)


def edges_in(text: str, low: float | None, high: float | None) -> tuple[float, ...]:
    """Read edges, in [-1, 1] or in the units of a range that is given."""
    edges = parse_numbers("--edges", text)
    return edges if low is None or high is None else to_domain(edges, low, high)


def parse_numbers(option: str, text: str) -> tuple[float, ...]:
    """Read the comma-separated numbers of an option; none are no numbers."""
    try:
        return tuple(float(part) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise ParameterError(f"{option} takes numbers with commas between; got {text!r}") from None


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
