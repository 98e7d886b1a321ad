"""The report: one HTML page of all figures, claim, measured, verdict, and what it rests on."""

from __future__ import annotations

import base64
import html
from collections.abc import Sequence

from murmuration.reproduce import registry
from murmuration.reproduce.draw import picture
from murmuration.reproduce.figure import FALSE, HOLDS, IN_PART, Audited, Finding
from murmuration.reproduce.run import Outcome

TITLES = {
    "harmony": "Harmony (Nguyen et al. 2016)",
    "hiera": "HierA (Hao, Wu, Wan 2023)",
    "dct": "DCT (Zhu, Wang, Sun 2022)",
    "mpldp": "MPLDP (Feng, Zhang 2024)",
}
COLOURS = {HOLDS: "#1b6b3a", IN_PART: "#8a5a00", FALSE: "#a3202c"}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: .6rem 0 }
td, th { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #ddd }
td, th { vertical-align: top }
img { max-width: 100% }
.verdict { font-weight: 600 }
.quiet { color: #555; font-size: .9rem }
section { margin: 2.5rem 0 }
"""


def page(outcomes: Sequence[Outcome], scale: str, seed: int) -> str:
    """Return the whole page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Four papers, run again</title><style>{STYLE}</style></head><body>",
        "<h1>Four papers, run again</h1>",
        f"<p>Each claim beside what was measured. Scale: {html.escape(scale)}, seed {seed}. "
        "Numbers are means over runs ± standard errors. A finding is sure when it is 3 standard "
        "errors from its bound; “undecided” means that it is not.</p>",
        _overview(outcomes),
    ]
    for paper, title in TITLES.items():
        own = [outcome for outcome in outcomes if registry.paper_of(outcome.id) == paper]
        if own:
            parts.append(f"<h2>{title}</h2>")
            parts += map(_section, own)
    return "\n".join([*parts, "</body></html>\n"])


def _row(cells: Sequence[str], tag: str = "td") -> str:
    return "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "<table>" + _row(head, "th") + "".join(map(_row, rows)) + "</table>"


def _coloured(word: str) -> str:
    return f"<span class='verdict' style='color:{COLOURS.get(word, '#444')}'>{word}</span>"


def _overview(outcomes: Sequence[Outcome]) -> str:
    rows = [
        (
            f"<a href='#{one.id}'>{one.id}</a>",
            html.escape(one.figure.claim),
            _coloured(one.verdict),
            f"{one.seconds:.1f}",
        )
        for one in outcomes
    ]
    return _table(("id", "claim", "verdict", "seconds"), rows)


def _section(outcome: Outcome) -> str:
    figure = outcome.figure
    drawn = picture(outcome)
    image = base64.b64encode(drawn).decode()
    parts = [
        f"<section id='{outcome.id}'><h3>{outcome.id}: {html.escape(figure.where)}</h3>",
        f"<p><b>Claim.</b> {html.escape(figure.claim)}</p>",
        f"<p><b>Verdict.</b> {_coloured(outcome.verdict)}</p>",
        _findings(outcome.findings),
        f"<img alt='{outcome.id}' src='data:image/svg+xml;base64,{image}'>" if drawn else "",
        _audits(outcome.audits),
        f"<p><b>What to use.</b> {html.escape(figure.instead)}</p>",
        _choices(figure.choices),
        f"<p class='quiet'>{outcome.runs} runs of a series at most, {outcome.seconds:.1f} s of one "
        "core.</p></section>",
    ]
    return "\n".join(filter(None, parts))


def _findings(findings: Sequence[Finding]) -> str:
    words = {True: "yes", False: "no", None: "undecided"}
    rows = [
        (
            html.escape(one.says),
            html.escape(one.measured),
            words[one.holds] if one.counts else "beside",
            str(one.runs) if one.runs > 1 else "exact" if not one.stderr else "",
        )
        for one in findings
    ]
    return _table(("what is claimed", "measured", "so it is", "runs"), rows)


def _audits(audits: Sequence[Audited]) -> str:
    if not audits:
        return ""
    rows = [
        (
            html.escape(one.law),
            f"{one.promised:.6g}",
            f"{one.loss:.6g}",
            "kept" if one.kept else "<b>BROKEN</b>",
        )
        for one in audits
    ]
    return _table(("exact audit", "promised", "exact loss", ""), rows)


def _choices(choices: Sequence[str]) -> str:
    if not choices:
        return ""
    lines = "".join(f"<li>{html.escape(choice)}</li>" for choice in choices)
    return f"<details><summary>What the paper leaves open</summary><ul>{lines}</ul></details>"
