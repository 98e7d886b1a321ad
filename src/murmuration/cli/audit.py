"""`murmur audit`: the exact privacy loss of a mechanism, and where it is reached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from murmuration.audit.admission import admit, in_words
from murmuration.audit.empirical import Evidence, attack, wire
from murmuration.audit.exact import Audit
from murmuration.audit.exact import audit as exact_audit
from murmuration.auto import mechanism
from murmuration.cli.output import (
    checked_plot,
    console,
    emit_json,
    parse_epsilons,
    pyplot,
    save_plot,
)
from murmuration.contract import Mechanism, Task
from murmuration.errors import ParameterError
from murmuration.graded import GradedMechanism
from murmuration.law import within
from murmuration.levels import Leveled, Levels
from murmuration.loss import Loss, PairwiseLoss
from murmuration.mechanisms import mechanisms
from murmuration.randomness import system_rng


def audit(
    name: Annotated[str, typer.Argument(help="A mechanism; `murmur mechanisms` lists them.")],
    epsilon: Annotated[
        str, typer.Option(help="The promise to check; graded: one for each range, as 0.5,0.1.")
    ],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, such as t=sub.", metavar="K=V")
    ] = None,
    empirical: Annotated[
        bool, typer.Option(help="Also attack real reports on the wire (100,000 of each input).")
    ] = False,
    accept_loss: Annotated[
        str | None, typer.Option(help="The sentence by which a campaign file accepts a loss.")
    ] = None,
    levels: Annotated[
        str | None,
        typer.Option(help="Audit personal levels, as high=1/3,medium=1/2,low=1.", metavar="N=F,.."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Save the loss matrix of a graded mechanism as a heat map.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify a mechanism exactly; exit code 1 when its loss exceeds its budget."""
    if levels is not None:
        if empirical or plot is not None or accept_loss is not None:
            raise ParameterError("--levels goes with --epsilon, --set k=.. and --json only")
        _audit_levels(name, epsilon, parse_settings(setting or []), levels, as_json)
        return
    chosen = mechanism(name, epsilon=_budget(name, epsilon), **parse_settings(setting or []))
    if plot is not None:
        _require_graded(chosen, plot)
    verdict = exact_audit(chosen)
    evidence = None
    if empirical and chosen.answers is Task.VECTOR:
        raise ParameterError(
            "--empirical attacks one attribute: audit the mechanisms that the tuple uses"
        )
    if empirical and verdict.loss.holds:  # a broken law is not sent, and needs no attack
        evidence = attack(wire(chosen, system_rng()), *verdict.loss.inputs)
    if as_json:
        emit_json(_as_dict(chosen, verdict, evidence))
    else:
        _print(chosen, verdict, evidence)
    if plot is not None and isinstance(verdict.loss, PairwiseLoss):
        save_plot(draw(verdict.loss, str(chosen.name)), plot)
    if accept_loss is not None:
        admit(chosen, accept_loss)
        console.print("accepted in the campaign file's own words")
    failed = verdict.disagreements > 0 or (accept_loss is None and not verdict.loss.holds)
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
    asked = Leveled(budget[0], settings.get("k"), Levels.parse(levels), name)
    losses = dict(zip(asked.levels.names, asked.losses(), strict=True))
    if as_json:
        emit_json(
            {
                level: {"claimed": loss.claimed, "loss": loss.epsilon, "passed": loss.holds}
                for level, loss in losses.items()
            }
        )
    else:
        table = Table("level", "promised", "exact loss", "", title=f"{name}, a level each")
        for level, loss in losses.items():
            kept = "[bold green]kept[/]" if loss.holds else "[bold red]BROKEN[/]"
            table.add_row(level, repr(loss.claimed), repr(loss.epsilon), kept)
        console.print(table)
        console.print(
            "The level travels in the open: it is not protected, and must not depend on the value.",
            style="dim",
        )
    if not all(loss.holds for loss in losses.values()):
        raise typer.Exit(1)


def _budget(name: str, text: str) -> float | list[float]:
    """Read epsilon: one number, or a list for a mechanism that is graded."""
    budgets = parse_epsilons(text)
    kind = mechanisms().get(name)
    if kind is not None and issubclass(kind, GradedMechanism):
        return budgets
    if kind is not None and len(budgets) > 1:
        raise ParameterError(f"{name} has one epsilon; graded mechanisms have one for each range")
    return budgets[0]


def _require_graded(chosen: Mechanism, plot: Path) -> None:
    """Say before the work that there is nothing to draw, or nowhere to draw it."""
    if not isinstance(chosen, GradedMechanism):
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
        parsed[key] = _parsed(text)
    return parsed


def _parsed(text: str) -> Any:
    """Read one value: a matrix has rows with ; between, a list has commas."""
    if ";" in text:
        return tuple(_parsed(row) for row in text.split(";"))
    return tuple(map(_number, text.split(","))) if "," in text else _number(text)


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _as_dict(chosen: Mechanism, verdict: Audit, evidence: Evidence | None) -> dict[str, Any]:
    loss = verdict.loss
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
        "sampler": {"words": verdict.words_tried, "disagreements": verdict.disagreements},
        "empirical": evidence
        and {
            "at_least": evidence.epsilon,
            "confidence": evidence.confidence,
            "by": evidence.feature,
        },
        "passed": verdict.passed,
        "accept_loss": None if loss.holds else in_words(loss),
    }


def _budgets(loss: Loss) -> list[list[float]]:
    """The promise as a matrix, one range against another; a single number for ordinary ones."""
    if isinstance(loss, PairwiseLoss):
        return [list(row) for row in loss.budgets]
    return [[loss.claimed]]


def _print(chosen: Mechanism, verdict: Audit, evidence: Evidence | None) -> None:
    loss = verdict.loss
    table = Table(title=f"{chosen}", show_header=False)
    ratio = (
        "infinite" if loss.ratio is None else f"{loss.ratio.numerator} / {loss.ratio.denominator}"
    )
    high, low = loss.inputs
    table.add_row("promised", f"epsilon {loss.claimed!r}")
    table.add_row("exact loss", f"{loss.epsilon!r}  = ln({ratio})")
    table.add_row("reached by", f"x = {high:g} against x = {low:g}, report {loss.output}")
    table.add_row("sampler", _agreement(verdict))
    if evidence:
        table.add_row(
            "on the wire",
            f"at least {evidence.epsilon:.4f} by {evidence.feature}, "
            f"confidence {evidence.confidence:.2%}",
        )
    table.add_row("fingerprint", chosen.fingerprint[:16])
    console.print(table)
    if isinstance(loss, PairwiseLoss):
        console.print(_matrix(loss, getattr(chosen, "edges", ())))
    if verdict.passed:
        console.print("[bold green]kept[/]: the loss is within its budget")
        return
    console.print("[bold red]BROKEN[/]: this is not as private as it says")
    if not loss.holds:
        console.print(
            f'a campaign that wants it all the same has to say\n  accept_loss = "{in_words(loss)}"',
            highlight=False,
            soft_wrap=True,
        )


def _matrix(loss: PairwiseLoss, edges: Sequence[float]) -> Table:
    """The exact loss between ranges / the budget; the diagonal is the loss inside a range."""
    table = Table(title="exact loss / budget, range against range (diagonal: inside)")
    table.add_column("range", no_wrap=True)
    for h in range(len(loss.budgets)):
        table.add_column(str(h + 1), justify="right", no_wrap=True)
    for g, (losses, budgets) in enumerate(zip(loss.pairwise, loss.budgets, strict=True)):
        cells = []
        for h, (found, budget) in enumerate(zip(losses, budgets, strict=True)):
            ratio = loss.ratios[g][h]
            broken = ratio is None or not within(ratio, budget)
            text = f"{found:.4g}" if not broken else f"[bold red]{found:.4g} ![/]"
            cells.append(f"{text}\n/ {budget:.4g}")
        table.add_row(f"{g + 1}\n{edges[g]:g} to {edges[g + 1]:g}", *cells, end_section=True)
    return table


def draw(loss: PairwiseLoss, title: str) -> Any:
    """Return a heat map: the exact loss between ranges, and how many times its budget that is."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.6))
    budgets = np.array(loss.budgets)
    shares = loss.pairwise / budgets
    for axes, matrix, name, top in (
        (panels[0], loss.pairwise, "exact loss (budget below)", None),
        (panels[1], shares, "loss / budget: above 1 is broken", 2.0),
    ):
        finite = np.where(np.isfinite(matrix), matrix, np.nan)
        image = axes.imshow(finite, cmap="RdYlGn_r" if top else "viridis", vmin=0, vmax=top)
        image.cmap.set_bad("black")
        figure.colorbar(image, ax=axes, shrink=0.85)
        for (g, h), value in np.ndenumerate(matrix):
            text = f"{value:.3g}" + ("" if top else f"\n({budgets[g, h]:.3g})")
            axes.text(h, g, text, ha="center", va="center", fontsize=8, color="black", bbox=_PAPER)
        axes.set(title=name, xlabel="range", ylabel="range")
        places = range(len(budgets))
        axes.set_xticks(places, [str(p + 1) for p in places])
        axes.set_yticks(places, [str(p + 1) for p in places])
    figure.suptitle(f"{title}: what two values may be told apart by (diagonal: inside a range)")
    return figure


_PAPER = {"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 1}


def _agreement(verdict: Audit) -> str:
    if not verdict.words_tried:
        return "held against its law, report by report, by the tests"
    tried = f"{verdict.words_tried:,} words tried"
    if verdict.disagreements:
        return f"DISAGREES with the law on {verdict.disagreements:,} of {tried}"
    return f"agrees with the law on all of {tried}"
