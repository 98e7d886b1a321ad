"""What the commands share: two consoles, JSON, progress, plots."""

from __future__ import annotations

import json
import math
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from murmuration.cli.extras import require
from murmuration.errors import ParameterError

console = Console()
errors = Console(stderr=True)


def say(text: str, *, markup: bool = True) -> None:
    """Print text as it is: its lines are not broken, its numbers not coloured."""
    console.print(text, highlight=False, soft_wrap=True, markup=markup)


def remark(text: str) -> None:
    """Print text on standard error, where it does not get into a file or a pipe."""
    errors.print(text, highlight=False, soft_wrap=True, markup=False)


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
    require("plots")
    import_module("matplotlib").use("Agg")
    return import_module("matplotlib.pyplot")


def checked_plot(path: Path | None) -> None:
    """Say before the work, not after it, that a plot cannot be drawn or saved there."""
    if path is None:
        return
    require("plots")
    if path.suffix.lower() not in (".png", ".svg", ".pdf") or path.is_dir():
        raise ParameterError(f"a plot is a .png, .svg or .pdf file; got {path}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab"):
            pass
    except OSError as problem:
        raise ParameterError(f"cannot write to {path}: {problem}") from None


def save_plot(figure: Any, path: Path) -> None:
    """Save a figure, free its memory, and print where it is."""
    figure.savefig(path, dpi=130, bbox_inches="tight")
    pyplot().close(figure)
    remark(f"plot: {path.resolve()}")
