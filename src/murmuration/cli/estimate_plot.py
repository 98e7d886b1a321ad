"""The plot of `murmur estimate`: one panel for each attribute, on its own scale."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

from murmuration.analysis import select
from murmuration.analysis.figures import Attribute, Estimates, Trend
from murmuration.campaign.question import TABLE
from murmuration.cli.output import pyplot
from murmuration.results.figure import Figure
from murmuration.results.plot import trends

MOST_PANELS, MOST_COLUMNS = 12, 3
BLUE, GREY, DARK = "#4878a8", "#b8b8b8", "#222222"
LETTERS, TITLE_LETTERS = 28, 44
"""Of a label, or a title, on one line."""


def draw(results: Estimates) -> Any:
    """Return a figure: means on their range, shares as bars, distributions as histograms."""
    plt = pyplot()
    panels = results.by_attribute()[:MOST_PANELS]
    columns = min(MOST_COLUMNS, len(panels))
    lines = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    heights = [max(_height(rows) for _, rows in line) for line in lines]
    figure, axes = plt.subplots(
        *(len(lines), columns),
        figsize=(5.0 * max(columns, 1.4), sum(heights) + 0.6),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for panel, (attribute, rows) in zip(axes.flat, panels, strict=False):
        _panel(panel, attribute, rows)
    for panel in axes.flat[len(panels) :]:
        panel.set_axis_off()
    every = len(results.attributes)
    more = f"\nthe first {len(panels)} of {every} attributes" if every > len(panels) else ""
    percent = f"{100 * results.confidence:.6g}% intervals"
    name = _plain(results.campaign)
    figure.suptitle(f"{name}, {results.people:,} people, {percent}{more}")
    return figure


def draw_trend(trend: Trend, shown: Estimates) -> Any:
    """Return a figure: each attribute's figures, period by period, with their intervals."""
    plt = pyplot()
    kept = {(figure.attribute, figure.item) for figure in shown.estimates}
    figures = [figure for figure in trend.estimates if (figure.attribute, figure.item) in kept]
    names = list(dict.fromkeys(figure.attribute for figure in figures))[:MOST_PANELS]
    height = 3.2 * max(1, len(names))
    picture, axes = plt.subplots(
        max(1, len(names)), figsize=(8.0, height + 0.6), squeeze=False, layout="constrained"
    )
    for panel, name in zip(axes.flat, names, strict=False):
        trends(panel, [figure for figure in figures if figure.attribute == name])
    if not names:
        axes[0, 0].set_axis_off()
    percent = f"{100 * trend.confidence:.6g}% intervals"
    picture.suptitle(f"{_plain(trend.campaign)}, by {trend.every}, {percent}")
    return picture


def _height(rows: Sequence[Figure]) -> float:
    """Return the inches of a panel."""
    bars = sum(row.unit == "share" and row.low is not None for row in rows)
    return max(2.6, 1.3 + 0.24 * bars)


def _panel(axes: Any, attribute: Attribute, rows: Sequence[Figure]) -> None:
    head = [row for row in rows if attribute.missing and row.unit == "share"][:1]
    said = [f"answered: {100 * row.value:.1f}% ± {_half(row):.1f} pp" for row in head]
    rest = list(rows[len(head) :])
    if attribute.hidden or not rest:
        axes.set_axis_off()
        few = f"hidden: shown from\n{attribute.needed:,} answers on"
        text = few if attribute.hidden else "\n".join(said)
        axes.text(0.5, 0.5, text, ha="center", va="center", color=DARK)
    elif attribute.kind in ("category", TABLE):
        said += [f"{row.item}: {row.value:.2f}" for row in rest if row.unit != "share"]
        said += _bars(axes, attribute, [row for row in rest if row.unit == "share"])
    else:
        said += _number(axes, attribute, rest)
    lines = [_wrapped(attribute.name, TITLE_LETTERS), *said]
    axes.set_title("\n".join(lines), fontsize=10)


def _bars(axes: Any, attribute: Attribute, rows: Sequence[Figure]) -> list[str]:
    """Draw shares with their intervals; return what the title says besides."""
    bars = [row for row in rows if not row.note.endswith(select.TOGETHER)]
    rest = [row for row in rows if row.note.endswith(select.TOGETHER)]
    places, ends = range(len(bars)), [_ends(row) for row in bars]
    values = [row.value for row in bars]
    far = [
        [max(0.0, value - low) for value, (low, _) in zip(values, ends, strict=True)],
        [max(0.0, high - value) for value, (_, high) in zip(values, ends, strict=True)],
    ]
    nothing = [low <= 0 for low, _ in ends]
    colours = [GREY if none else BLUE for none in nothing]
    axes.barh(places, values, xerr=far, color=colours, ecolor=DARK, capsize=2.5, height=0.7)
    axes.set_yticks(places, [_wrapped(row.item, LETTERS) for row in bars], fontsize=8)
    axes.invert_yaxis()
    axes.axvline(0, color=DARK, lw=0.8)
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    of = "share of those who answered" if attribute.missing else "share"
    axes.set_xlabel(f"{of} (grey: not distinguishable from 0)" if any(nothing) else of)
    together = [f"and {row.item} labels, together {100 * row.value:.1f}%" for row in rest]
    at_once = "all at once" if any("all at once" in row.note for row in bars) else ""
    kept = f"{len(bars)} of {attribute.labels:,} labels" if len(bars) < attribute.labels else ""
    said = ", ".join(filter(None, [kept, at_once and f"intervals right {at_once}"]))
    return [*filter(None, [said]), *together]


def _number(axes: Any, attribute: Attribute, rows: Sequence[Figure]) -> list[str]:
    """Draw a mean on the attribute's range, over the histogram if there is one."""
    bins = [row for row in rows if row.unit == "share"]
    means = [row for row in rows if row.unit != "share" and row.low is not None]
    low, high = attribute.low or 0.0, attribute.high or 0.0
    if bins:
        edges = [low + (high - low) * place / len(bins) for place in range(len(bins) + 1)]
        axes.stairs([row.value for row in bins], edges, fill=True, color=BLUE, alpha=0.6)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
        axes.set_ylabel("share of people")
    else:
        axes.set_yticks([])
        axes.set_ylim(-1, 1)
        axes.set_box_aspect(0.3)
        axes.set_anchor("N")
        axes.plot([low, high], [0, 0], color=GREY, lw=5, solid_capstyle="butt", zorder=1)
        for side in ("left", "right", "top"):
            axes.spines[side].set_visible(False)
    said = []
    for row in means:
        start, end = _ends(row)
        if bins:
            axes.axvspan(start, end, color=DARK, alpha=0.25, lw=0)
            axes.axvline(row.value, color=DARK, lw=1)
        else:
            far = [[row.value - start], [end - row.value]]
            look = {"color": DARK, "ecolor": BLUE, "elinewidth": 5, "capsize": 9, "capthick": 1.5}
            axes.errorbar([row.value], [0], xerr=far, fmt="|", ms=14, mew=1.5, zorder=2, **look)
        digits = max(0, 1 - math.floor(math.log10(row.stderr))) if row.stderr else 2
        half = (end - start) / 2
        said.append(
            f"mean {row.value:,.{digits}f} ± {half:,.{digits}f} {_plain(attribute.unit)}".strip()
        )
    ends = [low, high, *(end for row in means for end in _ends(row))]
    margin = 0.03 * (max(ends) - min(ends))
    axes.set_xlim(min(ends) - margin, max(ends) + margin)
    axes.set_xlabel(_plain(attribute.unit))
    return said


def _ends(row: Figure) -> tuple[float, float]:
    """Return an interval; the value itself where there is none."""
    return (
        row.value if row.low is None else row.low,
        row.value if row.high is None else row.high,
    )


def _half(row: Figure) -> float:
    """Return half of a share's interval, in percentage points."""
    low, high = _ends(row)
    return 100 * (high - low) / 2


def _plain(text: str) -> str:
    """Return text that is not taken for a formula."""
    return text.replace("$", r"\$")


def _wrapped(text: str, letters: int) -> str:
    return "\n".join(textwrap.wrap(_plain(text), letters)) or _plain(text)
