"""What the commands share: two consoles, tables that lose nothing, JSON, progress, plots."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from murmuration.cli.extras import require
from murmuration.errors import ParameterError
from murmuration.files import ANYBODY, private_file, write_file

UNPRINTABLE = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]"
)
"""What a terminal obeys instead of showing it: escape codes, and turns of the writing direction."""


def printable(text: str) -> str:
    r"""Return text from outside so that a terminal only shows it.

    >>> printable("bus\x1b[2J")
    'bus�[2J'
    """
    return UNPRINTABLE.sub("\ufffd", text)


class Screen(Console):
    """A terminal on which no table is cut, however narrow it is, and nothing printed is obeyed."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Render; what is text is only shown, whoever wrote it."""
        for segment in super().render(renderable, options):
            if segment.control is None and UNPRINTABLE.search(segment.text):
                yield Segment(printable(segment.text), segment.style)
            else:
                yield segment

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; tables are fitted to the width first."""
        fit = (fitted(item, self.width) if isinstance(item, Table) else item for item in objects)
        super().print(*fit, **options)


console = Screen()
errors = Screen(stderr=True)

# --- tables that lose nothing --------------------------------------------------------------------


def fitted(table: Table, width: int) -> Table:
    """Return a table that fits: lines are broken between words, and nothing is cut.

    Columns that are not to be wrapped break in their headings only. What is too wide even so is
    laid out with one line for each cell, its heading before it.

    >>> wide = Table("name", "what it does")
    >>> wide.add_row("estimate", "prints means and shares")
    >>> [len(fitted(wide, width).columns) for width in (80, 40, 20)]
    [2, 2, 2]
    >>> [fitted(wide, width).show_header for width in (80, 40, 20)]
    [True, True, False]
    """
    for column in table.columns:
        column.overflow = "fold"
    edges = [_edges(column, table) for column in table.columns]
    least, most = [low for low, _ in edges], [high for _, high in edges]
    room = width - 3 * len(table.columns) - 1
    if sum(most) <= room:
        return table
    if sum(least) > room:
        return _stacked(table)
    while sum(most) > room:  # the widest that can gives way first
        spare = [(high, place) for place, high in enumerate(most) if high > least[place]]
        _, widest = max(spare)
        most[widest] -= 1
    for column, each in zip(table.columns, most, strict=True):
        column.width, column.no_wrap = each, False
    return table


def table_of(title: str, words: Sequence[str], numbers: Sequence[str]) -> Table:
    """Return a table without rows: columns of words, then of numbers, which stand to the right."""
    table = Table(title=title)
    for heading in words:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _edges(column: Column, table: Table) -> tuple[int, int]:
    """Return how narrow a column may be, and how wide its longest line is."""
    heading = _text(column.header) if table.show_header else Text()
    cells = [_text(cell) for cell in column.cells]
    lines = [line.cell_len for text in (heading, *cells) for line in text.split("\n")]
    whole = cells if column.no_wrap else []
    words = [cell_len(word) for text in (heading, *cells) for word in text.plain.split()]
    longest = [line.cell_len for text in whole for line in text.split("\n")]
    return max([1, *words, *longest]), max([1, *lines])


def _text(cell: RenderableType) -> Text:
    return cell if isinstance(cell, Text) else console.render_str(str(cell))


def _stacked(table: Table) -> Table:
    """Return the same cells, one below the other, each beside its heading."""
    stacked = Table(title=table.title, show_header=False)
    stacked.add_column(overflow="fold")
    stacked.add_column(overflow="fold")
    columns = [(column.header, list(column.cells)) for column in table.columns]
    for place in range(table.row_count):
        for heading, cells in columns:
            if _text(cells[place]).plain:
                stacked.add_row(heading if table.show_header else "", cells[place])
        stacked.add_section()
    return stacked


# --- text ----------------------------------------------------------------------------------------


NO_CROWD = "Not what honest devices send (nothing was removed):"
"""Before each warning."""
PICTURES = (".png", ".svg", ".pdf")


def say(text: str, *, markup: bool = True) -> None:
    """Print text as it is: its lines are not broken, its numbers not coloured."""
    console.print(text, highlight=False, soft_wrap=True, markup=markup)


def remark(text: str) -> None:
    """Print text on standard error, where it does not get into a file or a pipe."""
    errors.print(text, highlight=False, soft_wrap=True, markup=False)


def explain(text: str) -> None:
    """Print what the columns above are, less brightly than they."""
    console.print(text, style="dim", markup=False, highlight=False)


def emit_json(data: Any) -> None:
    """Print machine-readable output; infinity, which JSON lacks, is null.

    It is coloured on a terminal only: for 5,000 labels that takes seconds.
    """
    text = json.dumps(_finite(data), indent=2, ensure_ascii=False)
    text = UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # the same in JSON
    if console.is_terminal:
        console.print_json(text, ensure_ascii=False)
    else:
        say(text, markup=False)


def emit(text: str) -> None:
    """Write text as it is; on a terminal, so that it is only shown."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


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


def two_panels(epsilons: Iterable[float] = ()) -> tuple[Any, Any, Any]:
    """Return a figure and its two panels, the left one by epsilon where there are any."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(12.5, 5))
    if ticks := sorted(set(epsilons)):
        left.set(xscale="log", xlabel="epsilon")
        left.set_xticks(ticks)
        left.get_xaxis().set_major_formatter(plt.FormatStrFormatter("%g"))
        left.get_xaxis().set_minor_locator(plt.NullLocator())
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure, left, right


def style_of(place: int) -> dict[str, Any]:
    """Return the colour and the mark of one of several lines."""
    return {"color": f"C{place % 10}", "marker": "osD^v<>PX*"[place % 10], "ms": 5}


def legend_beside(figure: Any, axes: Any) -> None:
    """Name the lines of a panel to the right of both."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="center left", bbox_to_anchor=(0.91, 0.5), fontsize=9)


def checked_plot(path: Path | None) -> None:
    """Say before the work, not after it, that a plot cannot be drawn or saved there."""
    if path is None:
        return
    require("plots")
    if path.suffix.lower() not in PICTURES or path.is_dir():
        raise ParameterError(f"a plot is a .png, .svg or .pdf file; got {path}")
    checked_place(path)


def checked_place(path: Path) -> None:
    """Say before the work, not after it, that no file can be written there; make its folder."""
    try:
        if path.is_dir():
            raise IsADirectoryError("it is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as problem:
        raise ParameterError(f"cannot write to {path}: {problem}") from None


def save_plot(figure: Any, path: Path) -> None:
    """Save a figure, free its memory, and print where it is."""
    with private_file(path, ANYBODY) as file:
        kind = path.suffix.lower().removeprefix(".")
        figure.savefig(file, format=kind, dpi=130, bbox_inches="tight")
    pyplot().close(figure)
    remark(f"plot: {path.resolve()}")


def save(data: bytes, path: Path, form: str) -> None:
    """Write a whole file, and print where it is."""
    write_file(path, data, ANYBODY)
    remark(f"{form}: {path.resolve()}")
