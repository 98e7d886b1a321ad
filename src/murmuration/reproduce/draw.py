"""A figure with the paper's axes: one panel for each of its parts, means with standard errors."""

from __future__ import annotations

import io
from typing import Any

from murmuration.reproduce.figure import Panel
from murmuration.reproduce.run import Outcome
from murmuration.results import plot

PANEL_WIDTH, HEIGHT = 5.2, 3.8


def draw(outcome: Outcome) -> Any:
    """Return the figure, or None where nothing is to be drawn."""
    panels = [panel for panel in outcome.figure.panels if outcome.curves.series(panel.name)]
    if not panels:
        return None
    axes = plot.side_by_side(len(panels), PANEL_WIDTH, HEIGHT)
    for own, panel in zip(axes, panels, strict=True):
        plot.curves(own, _lines(outcome, panel))
        own.set(xlabel=panel.x, ylabel=panel.y, title=panel.name)
        own.set(xscale="log" if panel.log_x else "linear")
        own.set(yscale="log" if panel.log_y else "linear")
        own.grid(alpha=0.3)
        own.legend(fontsize="small")
    return axes[0].figure


def _lines(outcome: Outcome, panel: Panel) -> dict[str, list[tuple[float, float, float]]]:
    curves = outcome.curves
    found = {}
    for series in curves.series(panel.name):
        xs = curves.xs(panel.name, series)
        means = [curves.at(panel.name, series, x) for x in xs]
        found[series] = [(x, mean.value, mean.stderr) for x, mean in zip(xs, means, strict=True)]
    return found


def picture(outcome: Outcome, form: str = "svg") -> bytes:
    """Return the figure as a file's bytes; none if nothing is drawn. The same points, the same."""
    figure = draw(outcome)
    if figure is None:
        return b""
    file = io.BytesIO()
    plot.save(figure, file, form)
    return file.getvalue()
