"""Figures drawn: a mean as a point with its interval, shares as bars, a histogram as steps.

Each attribute has an axis of its own, because each has its own scale. `curves` draws lines of any
kind through points with standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

from murmuration.errors import ParameterError
from murmuration.results.table import needed

if TYPE_CHECKING:
    from murmuration.results.figure import Figure

MOST_BARS = 40
"""Bars of one attribute: the largest shares."""
MOST_AXES = 40
MOST_LINES = 8
"""Of one attribute's trend: the largest in the last period."""
AT_ONCE, BY_ITSELF = "intervals right all at once", "each interval right by itself"
"""What is noted where bars were picked by looking at all of them."""
MARKS = "osD^v<>PX*"
BAR, INTERVAL = "#6b93c0", "#1d2a3a"


def figures(all_of: Sequence[Figure], ax: Any = None) -> Any:
    """Draw all figures; return the axis, or the list of axes where there are several attributes."""
    panels = _panels(all_of)
    if not panels:
        raise ParameterError("there are no figures to draw")
    if len(panels) > MOST_AXES:
        raise ParameterError(
            f"{len(panels)} attributes are too many for one picture: draw some of them, "
            "result.of(attribute).plot()"
        )
    if ax is not None and len(panels) > 1:
        raise ParameterError(
            f"one axis is for one attribute; there are {len(panels)} (their scales differ). Leave "
            "ax out, or draw them one by one: result.of(attribute).plot(ax)"
        )
    axes = [ax] if ax is not None else _new_axes([_height(panel) for panel in panels])
    for own, panel in zip(axes, panels, strict=True):
        _drawn(own, panel)
    return axes[0] if len(axes) == 1 else axes


def _panels(all_of: Sequence[Figure]) -> list[list[Figure]]:
    """Return what belongs on one scale: an attribute's mean, its shares, its histogram."""
    panels: dict[tuple[str, bool, bool], list[Figure]] = {}
    for figure in all_of:
        place = (figure.attribute, figure.unit == "share", figure.stderr is None)
        panels.setdefault(place, []).append(figure)
    return list(panels.values())


def _new_axes(heights: list[float]) -> list[Any]:
    pyplot = needed("matplotlib.pyplot", "a plot", "pip install 'murmuration-ldp[plots]'")
    picture, grid = pyplot.subplots(
        len(heights),
        squeeze=False,
        figsize=(6.4, sum(heights)),
        height_ratios=heights,
        layout="constrained",
    )
    del picture
    return list(grid[:, 0])


def _height(panel: Sequence[Figure]) -> float:
    """Inches: more for more bars."""
    if _is_trend(panel):
        return 3.2
    return 2.4 if _is_histogram(panel) else 1.1 + 0.24 * min(len(panel), MOST_BARS)


def _is_trend(panel: Sequence[Figure]) -> bool:
    """Whether there are several periods of one figure."""
    return len({figure.period for figure in panel}) > 1


def _is_histogram(panel: Sequence[Figure]) -> bool:
    return len(panel) > 2 and all(figure.stderr is None for figure in panel)


def _drawn(ax: Any, panel: Sequence[Figure]) -> None:
    if _is_trend(panel):
        trends(ax, panel)
        return
    title = panel[0].attribute
    if _is_histogram(panel):
        _steps(ax, panel)
    elif panel[0].unit == "share":
        shown = sorted(panel, key=lambda figure: -figure.value)[:MOST_BARS]
        if len(shown) < len(panel):
            title = f"{title}: the {len(shown)} largest of {len(panel):,}".lstrip(": ")
            title += f", {AT_ONCE if AT_ONCE in panel[0].note else BY_ITSELF}"
        _bars(ax, shown if len(shown) < len(panel) else list(panel))
    else:
        _points(ax, panel)
    if title:
        ax.set_title(_text(title), loc="left", fontsize="medium")


def trends(ax: Any, panel: Sequence[Figure]) -> None:
    """Draw an attribute's figures over periods: a line each, with the interval as a band."""
    periods = sorted({figure.period for figure in panel})
    lines: dict[str, list[Figure]] = {}
    for figure in panel:
        lines.setdefault(figure.item, []).append(figure)
    largest = sorted(lines.items(), key=lambda line: -line[1][-1].value)[:MOST_LINES]
    for item, points in largest:
        places = [periods.index(one.period) for one in points]
        (line,) = ax.plot(
            places, [one.value for one in points], marker="o", ms=3, label=_text(item)
        )
        lows = [one.value if one.low is None else one.low for one in points]
        highs = [one.value if one.high is None else one.high for one in points]
        if len(points) > 1:
            ax.fill_between(places, lows, highs, color=line.get_color(), alpha=0.2, linewidth=0)
        else:
            ax.vlines(places, lows, highs, color=line.get_color())
    step = max(1, -(-len(periods) // 8))
    ax.set_xticks(range(0, len(periods), step), periods[::step])
    ax.set_ylabel(_text(panel[0].unit))
    ax.legend(fontsize="small")
    left = len(lines) - len(largest)
    more = f": the {MOST_LINES} largest of {len(lines):,}" if left else ""
    ax.set_title(_text(f"{panel[0].attribute}{more}"), loc="left", fontsize="medium")


def _steps(ax: Any, panel: Sequence[Figure]) -> None:
    ax.stairs([figure.value for figure in panel], fill=True, color=BAR)
    places = sorted({round(part * (len(panel) - 1) / 4) for part in range(5)})
    ax.set_xticks([place + 0.5 for place in places], [_text(panel[p].item) for p in places])
    ax.tick_params(axis="x", labelsize="small")
    ax.set_ylabel("share")


def _bars(ax: Any, panel: Sequence[Figure]) -> None:
    ax.barh(range(len(panel)), [figure.value for figure in panel], color=BAR, height=0.7)
    _intervals(ax, panel)
    ax.set_xlabel("share")


def _points(ax: Any, panel: Sequence[Figure]) -> None:
    ax.plot([figure.value for figure in panel], range(len(panel)), "o", color=INTERVAL)
    _intervals(ax, panel)
    ax.set_ylim(len(panel) - 0.3, -0.7)
    ax.set_xlabel(_text(panel[0].unit))


def _intervals(ax: Any, panel: Sequence[Figure]) -> None:
    """Draw a line from end to end, where there are ends; the first figure is on top."""
    for place, figure in enumerate(panel):
        low, high = figure.low, figure.high
        if low is not None and high is not None and math.isfinite(low) and math.isfinite(high):
            ax.plot([low, high], [place, place], color=INTERVAL, linewidth=1.5)
    ax.set_yticks(range(len(panel)), [_text(figure.item) for figure in panel])
    ax.set_ylim(len(panel) - 0.4, -0.6)


def _text(words: str) -> str:
    """Return words that matplotlib does not take for a formula."""
    return words.replace("$", r"\$")


# --- curves --------------------------------------------------------------------------------------


def side_by_side(panels: int, width: float, height: float) -> list[Any]:
    """Return axes side by side, three in a row at most."""
    pyplot = needed("matplotlib.pyplot", "a plot", "pip install 'murmuration-ldp[plots]'")
    across = min(panels, 3)
    down = -(-panels // across)
    picture, grid = pyplot.subplots(
        down, across, squeeze=False, figsize=(width * across, height * down), layout="constrained"
    )
    del picture
    axes = list(grid.ravel())
    for spare in axes[panels:]:
        spare.set_visible(False)
    return axes[:panels]


def curves(ax: Any, lines: Mapping[str, Sequence[tuple[float, float, float]]]) -> None:
    """Draw a line for each name, through (x, value, standard error)."""
    for place, (name, points) in enumerate(lines.items()):
        shown = [point for point in points if math.isfinite(point[1])]
        if not shown:
            continue
        x, value, error = zip(*shown, strict=True)
        ax.errorbar(
            x,
            value,
            yerr=error if any(error) else None,
            color=f"C{place % 10}",
            marker=MARKS[place % len(MARKS)],
            ms=4,
            capsize=2,
            label=_text(name),
        )


def save(figure: Any, file: IO[bytes], form: str) -> None:
    """Write a figure; the same figure has the same bytes. Its memory is free after that."""
    pyplot = needed("matplotlib.pyplot", "a plot", "pip install 'murmuration-ldp[plots]'")
    with pyplot.rc_context({"svg.hashsalt": "murmuration"}):
        dated = {"Date": None} if form == "svg" else {}
        figure.savefig(file, format=form, dpi=130, metadata=dated)
    pyplot.close(figure)
