"""`murmur audit`: the exact privacy loss of a mechanism, and where it is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from murmuration.audit.admission import admit, in_words
from murmuration.audit.empirical import Evidence, attack, wire
from murmuration.audit.exact import RESTS_ON, Audit
from murmuration.audit.exact import audit as exact_audit
from murmuration.campaign.levels import Levels, Survey
from murmuration.cli.options import Json, Plot
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    errors,
    explain,
    pyplot,
    save_plot,
)
from murmuration.cli.parse import parse_epsilons, parse_value
from murmuration.errors import ParameterError
from murmuration.exact.exponential import within
from murmuration.exact.loss import Loss, PairwiseLoss
from murmuration.exact.randomness import system_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.number.or_none import OrNone
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.planning.auto import mechanism
from murmuration.planning.longitudinal import Fresh, InSpells, Permanent


def audit(
    name: Annotated[str, typer.Argument(help="A mechanism; `murmur mechanisms` lists them.")],
    epsilon: Annotated[
        str, typer.Option(help="The promise to check; graded: one for each range, as 0.5,0.1.")
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="A parameter: t=sub, k=16, edges=-0.2,0.5, semantics=min, or a matrix of budgets "
            "as semantics=2,1;1,1.",
            metavar="K=V",
        ),
    ] = None,
    empirical: Annotated[
        bool, typer.Option(help="Also attack real reports on the wire (100,000 of each input).")
    ] = False,
    accept_loss: Annotated[
        str | None, typer.Option(help="The sentence by which a campaign file accepts a loss.")
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(
            help="Audit levels that people choose, each a part of epsilon: "
            "high=1/3,medium=1/2,low=1.",
            metavar="NAME=PART,...",
        ),
    ] = None,
    reports: Annotated[
        int, typer.Option(min=0, help="Also say what so many tell, where answers are kept.")
    ] = 0,
    changes: Annotated[
        int, typer.Option(min=0, help="With --reports: in spells that allow for so many changes.")
    ] = 0,
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Verify a mechanism exactly; exit code 1 when its loss exceeds its budget.

    --plot draws the loss matrix of a graded mechanism as a heat map.
    """
    if levels is not None:
        if empirical or plot is not None or accept_loss is not None:
            raise ParameterError("--levels goes with --epsilon, --set k=.. and --json only")
        _audit_levels(name, epsilon, parse_settings(setting or []), levels, as_json)
        return
    settings = _inner_settings(name, parse_settings(setting or []))
    chosen = mechanism(name, epsilon=_budget(name, epsilon), **settings)
    if plot is not None:
        _require_graded(chosen, plot)
    over_time = _over_time(chosen, reports, changes)
    verdict = exact_audit(chosen)
    evidence = None
    if empirical and verdict.loss.holds:
        inputs = chosen.domain.told_apart(verdict.loss.inputs)
        evidence = attack(wire(chosen, system_rng()), *inputs)
    elif empirical:
        errors.print("not attacked on the wire: the law is broken already, no device sends by it")
    if as_json:
        emit_json(_as_dict(chosen, verdict, evidence) | over_time)
    else:
        _print(chosen, verdict, evidence, over_time)
    if plot is not None and isinstance(verdict.loss, PairwiseLoss):
        save_plot(draw(verdict.loss, chosen.name, _answers(chosen)), plot)
    if accept_loss is not None:
        admit(chosen, accept_loss)
        kept = "nothing to accept: the promise is kept"
        errors.print(kept if verdict.loss.holds else "accepted in the audit's own words")
    failed = not verdict.sampler_agrees or (accept_loss is None and not verdict.promise_kept)
    if failed or (evidence and evidence.epsilon > chosen.budget):
        raise typer.Exit(1)


def _audit_levels(
    name: str, epsilon: str, settings: dict[str, Any], levels: str, as_json: bool
) -> None:
    """Audit each level by itself: the level is public, so it alone decides what a person loses."""
    if unknown := set(settings) - {"k"}:
        raise ParameterError(f"levels take k only; got {', '.join(sorted(unknown))}")
    budget = parse_epsilons(epsilon)
    if len(budget) != 1:
        raise ParameterError("levels are parts of one epsilon")
    asked = Survey(budget[0], (settings.get("k", 0),), Levels.parse(levels), name, name)
    audits = dict(zip(asked.levels.names, map(exact_audit, asked.frame.cells), strict=True))
    passed = all(audit.passed for audit in audits.values())
    chosen = asked.frame.cells[0].name
    if as_json:
        each = {
            level: {
                "claimed": audit.loss.claimed,
                "loss": audit.loss.epsilon,
                "sampler": audit.how,
                "passed": audit.passed,
            }
            for level, audit in audits.items()
        }
        k = asked.domains[0] or None
        emit_json({"mechanism": chosen, "k": k, "levels": each, "passed": passed})
    else:
        table = Table("level", "promised", "exact loss", "", title=f"{chosen}, level by level")
        for level, audit in audits.items():
            kept = "[bold green]kept[/]" if audit.passed else "[bold red]BROKEN[/]"
            table.add_row(level, repr(audit.loss.claimed), repr(audit.loss.epsilon), kept)
        console.print(table)
        for level, audit in audits.items():
            console.print(f"{level}: the sampler {audit.how}", highlight=False)
        console.print(f"rests on {RESTS_ON}", highlight=False)
        explain(
            "The level travels in the open: it is not protected, and must not depend on the value."
        )
    if not passed:
        raise typer.Exit(1)


def _budget(name: str, text: str) -> float | list[float]:
    """Read epsilon: one number, or a list for a mechanism that is graded."""
    budgets = parse_epsilons(text)
    kind = list_mechanisms().get(name)
    if kind is not None and (kind.graded or (kind is OrNone and len(budgets) > 1)):
        return budgets
    if (kind is not None or name == "auto") and len(budgets) > 1:
        raise ParameterError(f"{name} has one epsilon; graded mechanisms have one for each range")
    return budgets[0]


def _inner_settings(name: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Hand what is set on to the mechanism inside, where there is one."""
    if name != OrNone.name:
        return settings
    given = {"inner": settings.pop("inner")} if "inner" in settings else {}
    return {**given, "settings": tuple(settings.items())}


def _require_graded(chosen: Mechanism, plot: Path) -> None:
    """Say before the work that there is nothing to draw, or nowhere to draw it."""
    if not chosen.graded:
        raise ParameterError("--plot draws the loss matrix of a graded mechanism; this is not one")
    checked_plot(plot)


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Read K=V pairs; numbers become numbers.

    >>> parse_settings(["t=sub", "kappa=1.5", "domains=0,0,12"])
    {'t': 'sub', 'kappa': 1.5, 'domains': (0, 0, 12)}
    >>> parse_settings(["semantics=2,1;1,1"])
    {'semantics': ((2, 1), (1, 1))}
    """
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (key and equals):
            raise ParameterError(f"--set takes NAME=VALUE, such as t=sub; got {setting!r}")
        if key == "epsilon":
            raise ParameterError("epsilon is given by --epsilon, not by --set")
        if key in parsed:
            raise ParameterError(f"--set gives {key} twice")
        parsed[key] = parse_value(text)
    return parsed


def _as_dict(chosen: Mechanism, verdict: Audit, evidence: Evidence | None) -> dict[str, Any]:
    loss, long_run = verdict.loss, chosen.long_run()
    ratio = None if loss.ratio is None else [loss.ratio.numerator, loss.ratio.denominator]
    return {
        "mechanism": chosen.name,
        "parameters": chosen.parameters,
        "fingerprint": chosen.fingerprint,
        "claimed": loss.claimed,
        "loss": loss.epsilon,
        "finite": loss.ratio is not None,
        "ratio": ratio,
        "inputs": list(loss.inputs),
        "output": loss.output,
        "pairwise": loss.pairwise.tolist(),
        "budgets": _budgets(loss),
        "sampler": {
            "words": verdict.words_tried,
            "disagreements": verdict.disagreements,
            "tests": len(verdict.tests),
            "failed": len(verdict.failed),
            "least_p_value": min((test.p_value for test in verdict.tests), default=None),
            "tried": verdict.tried,
        },
        "empirical": evidence
        and {
            "at_least": evidence.epsilon,
            "confidence": evidence.confidence,
            "by": evidence.feature,
        },
        "rests_on": RESTS_ON,
        "long_run": None if long_run is None else long_run.epsilon,
        "passed": verdict.passed,
        "accept_loss": None if loss.holds else in_words(loss),
    }


def _budgets(loss: Loss) -> list[list[float]]:
    """The promise as a matrix, one range against another; a single number for ordinary ones."""
    if isinstance(loss, PairwiseLoss):
        return [list(row) for row in loss.budgets]
    return [[loss.claimed]]


def _over_time(chosen: Mechanism, reports: int, changes: int) -> dict[str, Any]:
    """Return what so many reports tell: of a value that stays, of one that changes, in spells."""
    if not reports:
        if changes:
            raise ParameterError("--changes needs --reports")
        return {}
    if not chosen.memoised:
        return {"reports": reports, "fresh": Fresh(chosen).stays(reports)}
    law = Permanent(chosen)
    losses = {"reports": reports, "stays": law.stays(reports), "changes": law.changes(reports)}
    if not changes:
        return losses
    if changes >= reports:
        raise ParameterError(f"changes are fewer than the {reports} reports; got {changes}")
    spells = InSpells(chosen, -(-reports // (changes + 1)))
    return {**losses, "spell": spells.length, "spells": spells.changes(reports)}


def _told(chosen: Mechanism, losses: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Say what so many reports tell."""
    many = f"{losses['reports']:,} reports"
    if "fresh" in losses:
        yield many, f"{losses['fresh']!r}: each has fresh noise"
        return
    least = "at least " if chosen.by_value else ""
    yield f"{many}, it stays", repr(losses["stays"])
    yield f"{many}, it changes", f"{least}{losses['changes']!r}: when is not hidden"
    if "spells" in losses:
        which = f"spells of {losses['spell']:,}"
        yield f"{many}, {which}", f"{losses['spells']!r}, whatever it does and when"


def _print(
    chosen: Mechanism, verdict: Audit, evidence: Evidence | None, over_time: dict[str, Any]
) -> None:
    loss = verdict.loss
    table = Table(title=f"{chosen}", show_header=False)
    ratio = (
        "infinite" if loss.ratio is None else f"{loss.ratio.numerator} / {loss.ratio.denominator}"
    )
    high, low = loss.inputs
    graded = isinstance(loss, PairwiseLoss)
    table.add_row("largest budget" if graded else "promised", f"epsilon {loss.claimed!r}")
    amount = f"{loss.epsilon!r}  = ln({ratio})" if loss.ratio is not None else "infinite"
    table.add_row("largest loss" if graded else "exact loss", amount)
    table.add_row("reached by", f"{chosen.domain.place(high)} against {chosen.domain.place(low)}")
    says = "" if loss.ratio is not None else ", which only the first can send: it gives it away"
    table.add_row("by the report", f"{loss.output}{says}")
    if (long_run := chosen.long_run()) is not None:
        limit = f"{long_run.epsilon!r}, promised {long_run.claimed!r}"
        table.add_row("any number of reports", f"{limit} (about one value, which is kept)")
    for what, told in _told(chosen, over_time) if over_time else ():
        table.add_row(what, told)
    table.add_row("sampler", verdict.how)
    table.add_row("rests on", RESTS_ON)
    if evidence:
        table.add_row(
            "on the wire",
            f"at least {evidence.epsilon:.4f} by {evidence.feature}, "
            f"confidence {evidence.confidence:.2%}",
        )
    table.add_row("fingerprint", chosen.fingerprint[:16])
    console.print(table)
    if isinstance(loss, PairwiseLoss):
        console.print(_matrix(loss, _answers(chosen)))
    if verdict.passed:
        console.print("[bold green]kept[/]: the loss is within its budget")
        return
    console.print("[bold red]BROKEN[/]: this is not as private as it says")
    if not loss.holds:
        console.print(
            "to use it all the same, say so (--accept-loss, or in a campaign file):\n"
            f'  accept_loss = "{in_words(loss)}"',
            highlight=False,
            soft_wrap=True,
        )


def _answers(chosen: Mechanism) -> list[str]:
    """Name what has a budget of its own: ranges, or items."""
    domain = chosen.domain
    return domain.ranges() or [f"item {item}" for item in range(domain.items)]


def _matrix(loss: PairwiseLoss, names: Sequence[str]) -> Table:
    """The exact loss of two answers / their budget; the diagonal is the loss inside a range."""
    table = Table(title="exact loss / budget (diagonal: inside a range; !: broken)")
    table.add_column("answer")
    for h in range(len(names)):
        table.add_column(str(h + 1), justify="right", no_wrap=True)
    for g, (losses, budgets) in enumerate(zip(loss.pairwise, loss.budgets, strict=True)):
        cells = []
        for h, (row, budget) in enumerate(zip(losses, budgets, strict=True)):
            ratio = loss.ratios[g][h]
            broken = ratio is None or not within(ratio, budget)
            text = f"{row:.3g}" if not broken else f"[bold red]!{row:.3g}[/]"
            cells.append(f"{text}\n/ {budget:.4g}")
        table.add_row(f"{g + 1}: {names[g]}", *cells, end_section=True)
    return table


def draw(loss: PairwiseLoss, title: str, names: Sequence[str]) -> Any:
    """Return a heat map: the exact loss between answers, and how many times its budget that is."""
    plt = pyplot()
    budgets = np.array(loss.budgets)
    size = max(4.6, 0.62 * len(budgets) + 1.5)
    figure, panels = plt.subplots(1, 2, figsize=(2.3 * size, size), layout="constrained")
    steps = [0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 4]  # the colour turns at 1
    broken = plt.matplotlib.colors.BoundaryNorm(steps, 256, extend="max")
    for axes, matrix, name, norm, colours in (
        (panels[0], loss.pairwise, "exact loss (budget)", None, "viridis"),
        (panels[1], loss.pairwise / budgets, "loss / budget", broken, "RdYlGn_r"),
    ):
        finite = np.where(np.isfinite(matrix), matrix, np.nan)
        image = axes.imshow(
            finite, cmap=plt.get_cmap(colours).with_extremes(bad="black"), norm=norm
        )
        figure.colorbar(image, ax=axes, shrink=0.85, extend="max" if norm else "neither")
        for (g, h), value in np.ndenumerate(matrix):
            text = f"{value:.3g}" + ("" if norm else f"\n({budgets[g, h]:.3g})")
            axes.text(h, g, text, ha="center", va="center", fontsize=8, bbox=_PAPER)
        axes.set(title=name)
        places = range(len(budgets))
        axes.set_xticks(places, [str(p + 1) for p in places])
        axes.set_yticks(places, [f"{p + 1}: {names[p]}" for p in places])
    verdict = "kept" if loss.holds else "BROKEN where loss / budget is above 1 (black: infinite)"
    figure.suptitle(f"{title}, answer against answer (diagonal: inside a range): {verdict}")
    return figure


_PAPER = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1}
