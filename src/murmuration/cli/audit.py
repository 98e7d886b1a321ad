"""`murmur audit`: the exact privacy loss of a mechanism, and where it is reached."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table

from murmuration.audit.empirical import Evidence, attack, wire
from murmuration.audit.exact import Audit
from murmuration.audit.exact import audit as exact_audit
from murmuration.auto import mechanism
from murmuration.cli.output import console, emit_json
from murmuration.contract import Mechanism, Task
from murmuration.errors import ParameterError
from murmuration.randomness import system_rng


def audit(
    name: Annotated[str, typer.Argument(help="A mechanism; `murmur mechanisms` lists them.")],
    epsilon: Annotated[float, typer.Option(help="The promise to check.")],
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A parameter, such as t=sub.", metavar="K=V")
    ] = None,
    empirical: Annotated[
        bool, typer.Option(help="Also attack real reports on the wire (100,000 of each input).")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify a mechanism exactly; exit code 1 when its loss exceeds epsilon."""
    chosen = mechanism(name, epsilon=epsilon, **parse_settings(setting or []))
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
    if not verdict.passed or (evidence and evidence.epsilon > epsilon):
        raise typer.Exit(1)


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Read K=V pairs; numbers become numbers.

    >>> parse_settings(["t=sub", "kappa=1.5", "domains=0,0,12"])
    {'t': 'sub', 'kappa': 1.5, 'domains': (0, 0, 12)}
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
        parsed[key] = tuple(map(_number, text.split(","))) if "," in text else _number(text)
    return parsed


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
        "sampler": {"words": verdict.words_tried, "disagreements": verdict.disagreements},
        "empirical": evidence
        and {
            "at_least": evidence.epsilon,
            "confidence": evidence.confidence,
            "by": evidence.feature,
        },
        "passed": verdict.passed,
    }


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
    kept = "[bold green]kept[/]: the loss is within epsilon"
    console.print(kept if verdict.passed else "[bold red]BROKEN[/]: this is not epsilon-private")


def _agreement(verdict: Audit) -> str:
    if not verdict.words_tried:
        return "held against its law, report by report, by the tests"
    tried = f"{verdict.words_tried:,} words tried"
    if verdict.disagreements:
        return f"DISAGREES with the law on {verdict.disagreements:,} of {tried}"
    return f"agrees with the law on all of {tried}"
