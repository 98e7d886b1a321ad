"""`murmur model`: what a training has ended with, in your units, and as a file."""

from __future__ import annotations

import csv
import io
from contextlib import closing
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.markup import escape
from rich.table import Table

from murmuration import sentences
from murmuration.cli.options import CampaignArgument, Json, LiveSource, PlainHttp, TokenOption
from murmuration.cli.output import checked_place, console, emit_json, save, say
from murmuration.collector.training.model import Moved, TrainedModel, with_liars
from murmuration.errors import ParameterError
from murmuration.results.table import csv_cell
from murmuration.sources import onnx_file
from murmuration.sources.open import open_source
from murmuration.statistics.liars import SHARE, checked_share
from murmuration.training.campaign import TrainingCampaign

ENDINGS = {".json": "JSON", ".csv": "CSV", ".onnx": "ONNX"}
NOISE = (
    "noise alone: what noise has put into a coefficient, at most (a standard error). It is no "
    "interval around the truth: slopes are cut off and training ends before the end of the way, "
    "which draws coefficients towards 0"
)


def model(
    source: LiveSource,
    campaign: CampaignArgument = "",
    out: Annotated[
        Path | None,
        typer.Option(help="Write a file: .json (all of it), .csv (coefficients), .onnx."),
    ] = None,
    liars: Annotated[
        float, typer.Option(help="The share of liars whose power over the model is shown.")
    ] = SHARE,
    token: TokenOption = "",
    plain_http: PlainHttp = False,
    as_json: Json = False,
) -> None:
    """Print a finished training's coefficients, in the attributes' units, and its score.

    In Python `murmuration.open(SOURCE).model()` is the same model as an estimator of scikit-learn.
    """
    checked_share(liars)
    if out is not None:
        if out.suffix.lower() not in ENDINGS:
            raise ParameterError(f"--out ends in {', '.join(ENDINGS)}; got {out}")
        checked_place(out)
    with closing(open_source(source, campaign, token, plain_http=plain_http)) as opened:
        training, trained = opened.model()
    trained = with_liars(trained, liars)
    if out is not None:
        save(_as(out.suffix.lower(), training, trained), out, ENDINGS[out.suffix.lower()])
    elif as_json:
        emit_json(msgspec.to_builtins(trained))
    if not as_json:
        show(trained)


def _as(ending: str, training: TrainingCampaign, trained: TrainedModel) -> bytes:
    if ending == ".onnx":
        return onnx_file.written(training, trained)
    if ending == ".json":
        return msgspec.json.format(msgspec.json.encode(trained), indent=2) + b"\n"
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["name", "value", "noise_alone", "unit"])
    rows.writerow(["intercept", repr(trained.intercept), "", ""])
    rows.writerows(
        map(csv_cell, (coefficient.name, coefficient.value, coefficient.stderr, coefficient.unit))
        for coefficient in trained.coefficients
    )
    return text.getvalue().encode()


def show(trained: TrainedModel) -> None:
    """Print a model."""
    table = Table(
        title=f"{escape(trained.campaign)}: {trained.model} model of {escape(trained.target)}"
    )
    table.add_column("of", overflow="fold")
    share = SHARE if trained.liars is None else trained.liars.share
    none = (None,) * len(trained.coefficients)
    moves = none if trained.liars is None else trained.liars.coefficients
    for heading in ("coefficient", "noise alone", f"{100 * share:.3g}% liars"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("for one")
    for coefficient, move in zip(trained.coefficients, moves, strict=True):
        label = "=" in coefficient.name and not coefficient.unit
        table.add_row(
            escape(coefficient.name),
            f"{coefficient.value:+.4g}",
            f"{coefficient.stderr:.2g}",
            "no bound" if move is None else f"± {move.even:.2g}",
            "label, against the last" if label else escape(coefficient.unit),
        )
    table.add_row("intercept", f"{trained.intercept:+.4g}", "", "no bound", "")
    console.print(table)
    for text in told(trained):
        say(text, markup=False)


def told(trained: TrainedModel) -> list[str]:
    """Return what has to be said beside coefficients."""
    texts = [meaning(trained), NOISE]
    if trained.score is None:
        texts.append("private test score: none, nobody was asked")
    else:
        score = trained.score
        if score.unit == "share":
            value = f"{score.value:.1%} ({score.low:.1%} to {score.high:.1%}, 95%)"
        else:
            ends = f"{score.low:.4g} to {score.high:.4g}"
            value = f"{score.value:.4g} ({ends}, 95%) {score.unit}".rstrip()
        texts.append(
            f"private test score: {value}: {score.note}, by {score.n:,} people who had no part"
        )
    texts.append(lied(trained))
    if trained.curve:
        last = trained.curve[-1]
        texts.append(
            f"learning curve: after {last.asked:,} people the model explained {last.gained:.0%} "
            f"of what a constant prediction leaves unexplained, by their reports (standard error "
            f"{last.doubt:.1%})"
        )
    texts.append(
        f"{trained.people:,} people in {trained.rounds} rounds, one report each, with an exact "
        f"loss of {sentences.reveals(trained.loss, trained.epsilon)}"
    )
    return [*texts, *trained.notes]


def lied(trained: TrainedModel) -> str:
    """Say how far liars have moved a model, and what that is."""
    if trained.liars is None:
        return "liars: no bound, as it was trained by an earlier release"
    share, score = f"{100 * trained.liars.share:.3g}%", trained.liars.score
    by_share = trained.score is not None and trained.score.unit == "share"

    def written(move: Moved) -> str:
        if by_share:
            return (
                f"{100 * move.even:.2g} points ({100 * move.waiting:.2g} if they all wait for it)"
            )
        return f"{move.even:.2g} ({move.waiting:.2g} if they all wait for it)"

    said = "no bound on the score" if score is None else f"the score by at most {written(score)}"
    first = next(
        (coefficient for coefficient in trained.liars.coefficients if coefficient is not None), None
    )
    if first is None or not first.even:
        return f"{share} liars in every round move {said}; no bound on coefficients"
    return (
        f"{share} liars in every round move {said}, and a coefficient by what is beside it: along "
        "the path that was taken, with questions, steps and scales as they were; not against a "
        f"training without liars. If all wait for the rounds that count most, "
        f"{first.waiting / first.even:.3g} times that"
    )


def meaning(trained: TrainedModel) -> str:
    """Say what a score is."""
    if not trained.labels:
        return f"{trained.target} = intercept + sum of coefficient * value"
    first, second = trained.labels
    way = " (its logarithmic odds)" if trained.model == "logistic" else ""
    return f"intercept + sum of coefficient * value above 0 says {second!r}{way}, below 0 {first!r}"
