"""`murmur learn`: a model from randomised gradients, beside the same model without privacy."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table

from murmuration.campaign.answers import Reading
from murmuration.cli.extras import require
from murmuration.cli.options import (
    ColumnNames,
    Decimal,
    Delimiter,
    Encoding,
    Epsilon,
    Header,
    Json,
    Plot,
    Seed,
)
from murmuration.cli.output import checked_plot, console, emit_json, errors, pyplot, save_plot
from murmuration.cli.tables import Form, open_table, texts
from murmuration.errors import ParameterError
from murmuration.exact.arrays import Floats

MODELS = {"linear": "LinearRegression", "logistic": "LogisticRegression", "svm": "LinearSVC"}
SCHEDULES = {"few": "FewRounds", "papers": "MiniBatches", "one": "OneByOne"}
HELD_OUT = 0.2
FEWEST = 10


def learn(
    data: Annotated[
        Path | None, typer.Option(help="A CSV or Parquet file; without, simulated people.")
    ] = None,
    number: Annotated[
        list[str] | None, typer.Option(help="A feature NAME=LOW:HIGH; may be repeated.")
    ] = None,
    category: Annotated[
        list[str] | None, typer.Option(help="A feature 'NAME=A|B|C'; may be repeated.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(help="NAME=LOW:HIGH for linear, 'NAME=A|B' for logistic and svm.")
    ] = None,
    model: Annotated[str, typer.Option(help=f"One of: {', '.join(MODELS)}.")] = "linear",
    epsilon: Epsilon = 1.0,
    mechanism: Annotated[str, typer.Option(help="auto, privunit, block, harmony, ...")] = "auto",
    schedule: Annotated[
        str, typer.Option(help=f"{', '.join(SCHEDULES)}: ours, the papers', one person per round.")
    ] = "few",
    people: Annotated[int, typer.Option(min=100, help="How many simulated people.")] = 100_000,
    seed: Seed = 1,
    delimiter: Delimiter = "",
    encoding: Encoding = "",
    header: Header = None,
    columns: ColumnNames = "",
    decimal: Decimal = "",
    plot: Plot = None,
    as_json: Json = False,
) -> None:
    """Train a linear, logistic or SVM model from noisy gradients; compare on held-out people."""
    if model not in MODELS or schedule not in SCHEDULES:
        raise ParameterError(
            f"--model is {', '.join(MODELS)}; --schedule is {', '.join(SCHEDULES)}"
        )
    checked_plot(plot)
    require("learn")
    toolbox = import_module("murmuration.learn")
    form = Form.said(delimiter, encoding, header, columns, decimal)
    x, y, names = _read(data, form, number, category, target, model, people, seed)
    order = np.random.default_rng(seed).permutation(len(x))
    cut = max(1, round(HELD_OUT * len(x)))
    test, train = order[:cut], order[cut:]
    chosen = getattr(toolbox, MODELS[model])(
        epsilon,
        mechanism,
        getattr(toolbox, SCHEDULES[schedule])(),
        random_state=seed,
        verbose=errors.is_terminal,
    ).fit(x[train], y[train])
    compared = _compared(chosen, model, (x[train], y[train]), (x[test], y[test]))
    if as_json:
        emit_json({**compared, "coefficients": dict(zip(names, chosen.coef_.ravel(), strict=True))})
    else:
        _print(compared, names, chosen)
    if plot is not None:
        save_plot(draw(chosen, model, x[test], y[test], compared), plot)


# --- data --------------------------------------------------------------------------------------


def _read(
    data: Path | None,
    form: Form,
    number: list[str] | None,
    category: list[str] | None,
    target: str | None,
    model: str,
    people: int,
    seed: int,
) -> tuple[Floats, Floats, list[str]]:
    """Return features in [-1, 1], targets, and the features' names."""
    if data is None:
        if number or category or target:
            raise ParameterError("--number, --category and --target describe --data")
        return _simulated(model, people, seed)
    encode = import_module("murmuration.learn.encode")
    if target is None or not (number or category):
        raise ParameterError("a file needs --target and at least one --number or --category")
    listed = [_column(encode, "--number", text, False) for text in number or []]
    listed += [_column(encode, "--category", text, True) for text in category or []]
    _require_target(target, model)
    wanted, spec = _column(encode, "--target", target, model != "linear")
    columns = dict(listed)
    if len(columns) != len(listed) or wanted in columns:
        raise ParameterError("every column has one part: a number, a category, or the target")
    if spec.width != 1:
        raise ParameterError("--target for logistic and svm has two values, as 'home=rent|own'")
    table = open_table(data, form).columns([*columns, wanted])
    if (rows := len(table[wanted])) < FEWEST:
        raise ParameterError(f"{data} has {rows} rows; {FEWEST} are the fewest to learn from")
    encoder = encode.Encoder(columns)
    typed = {name: _typed(name, table[name], kind, encode) for name, kind in columns.items()}
    targets = spec.encode(_typed(wanted, table[wanted], spec, encode))[:, 0]
    return encoder.encode(typed), targets, list(encoder.names)


def _require_target(target: str, model: str) -> None:
    """Refuse a target that another model is for."""
    if (model == "linear") == ("|" in target):
        raise ParameterError(
            "--model linear predicts a number, as --target wage=0:90000; for two labels say "
            "--model logistic or --model svm"
            if model == "linear"
            else f"--model {model} tells two labels apart, as --target 'income=low|high'; for a "
            "number say --model linear"
        )


def _column(encode: Any, option: str, text: str, words: bool) -> tuple[str, Any]:
    """Read NAME=LOW:HIGH, or NAME=A|B|C."""
    name, _, rest = text.partition("=")
    try:
        if words:
            absent = -1.0 if option == "--target" else 0.0  # the two classes are -1 and 1
            return name, encode.Category(tuple(rest.split("|")), absent=absent)
        low, high = (float(end) for end in rest.split(":"))
        return name, encode.Number(low, high, clamp=True)
    except ValueError as problem:
        if isinstance(problem, ParameterError):
            raise
        raise ParameterError(
            f"{option}: numbers are written as age=18:98, categories as 'sex=f|m'; got {text!r}"
        ) from None


def _typed(name: str, values: list[Any], kind: Any, encode: Any) -> Any:
    if isinstance(kind, encode.Category):
        return np.array(texts(values), dtype=object)
    numbers, nothing = Reading().numbers(values)
    if words := int((np.isnan(numbers) & ~nothing).sum()):
        raise ParameterError(
            f"column {name} is said to be a number and has words in it, {words:,} of "
            f"{len(numbers):,} values"
        )
    return numbers


def _simulated(model: str, people: int, seed: int) -> tuple[Floats, Floats, list[str]]:
    """Ten features, uniform in [-1, 1], and a linear rule with noise."""
    draw = np.random.default_rng(seed)
    x, w = draw.uniform(-1, 1, (people, 10)), draw.normal(size=10)
    scores = x @ w * (0.3 / np.linalg.norm(w) * np.sqrt(3))
    noisy = scores + draw.normal(0, 0.1, people)
    y = noisy if model == "linear" else np.where(noisy > 0, 1.0, -1.0)
    return x, y, [f"x{place}" for place in range(10)]


# --- result ------------------------------------------------------------------------------------


def _compared(
    chosen: Any, model: str, train: tuple[Floats, Floats], test: tuple[Floats, Floats]
) -> dict[str, Any]:
    """Errors on held-out people: ours, the same model without privacy, and no model at all."""
    linear = import_module("sklearn.linear_model")
    plain = (
        linear.LinearRegression()
        if model == "linear"
        else linear.LogisticRegression(C=1e3)
        if model == "logistic"
        else import_module("sklearn.svm").LinearSVC()
    )
    plain.fit(*train)
    x, y = test
    guess = float(train[1].mean()) if model == "linear" else float(np.sign(train[1].mean()) or 1)
    loss = chosen.loss_
    return {
        "model": model,
        "mechanism": chosen.mechanism_.name,
        "rounds": chosen.n_iter_,
        "people": len(train[1]),
        "held_out": len(y),
        "error": _error(model, chosen.predict(x), y),
        "without_privacy": _error(model, plain.predict(x), y),
        "without_model": _error(model, np.full(len(y), guess), y),
        "promised": loss.claimed,
        "loss": loss.epsilon,
        "kept": loss.holds,
        "verdict": loss.verdict,
    }


def _error(model: str, predicted: Floats, y: Floats) -> float:
    """The mean squared error of numbers, the share of wrong classes."""
    return float(np.mean((predicted - y) ** 2 if model == "linear" else predicted != y))


def _print(compared: dict[str, Any], names: list[str], chosen: Any) -> None:
    kind = "mean squared error" if compared["model"] == "linear" else "share of wrong classes"
    table = Table(title=f"{kind} of {compared['held_out']:,} held-out people", show_header=False)
    table.add_row("from randomised gradients", f"{compared['error']:.5f}")
    table.add_row("without privacy", f"{compared['without_privacy']:.5f}")
    table.add_row("without a model", f"{compared['without_model']:.5f}")
    rounds = f"{compared['rounds']} rounds, {compared['people']:,} people, each asked once at most"
    table.add_row("asked", f"{compared['mechanism']}, {rounds}")
    loss = f"{compared['loss']!r} of {compared['promised']!r}: {compared['verdict']}"
    seeded = ", as its noise is seeded" if chosen.loss_.simulated else ""
    table.add_row("exact loss", f"{loss}{seeded}")
    console.print(table)
    weights = chosen.coef_.ravel()
    largest = np.argsort(-np.abs(weights))[:8]
    shown = ", ".join(f"{names[place]} {weights[place]:+.3f}" for place in largest)
    console.print(f"largest weights: {shown}", highlight=False)


def draw(chosen: Any, model: str, x: Floats, y: Floats, compared: dict[str, Any]) -> Any:
    """Return a figure: the error of the weights after each round, against people asked so far."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 5))
    features = np.column_stack([x, np.ones(len(x))])
    scores = [features @ weights for weights in chosen.history_]
    told = [s if model == "linear" else np.where(s > 0, 1.0, -1.0) for s in scores]
    first = compared["people"] - sum(chosen.plan_.batches) if chosen.schedule.centre else 0
    asked = first + np.concatenate([[0], np.cumsum(chosen.plan_.batches)])[: len(told)]
    axes.plot(asked, [_error(model, t, y) for t in told], marker=".", label="after each round")
    for name, value, style in (
        ("the model (averaged)", compared["error"], "-"),
        ("without privacy", compared["without_privacy"], "--"),
        ("without a model", compared["without_model"], ":"),
    ):
        axes.axhline(value, color="black", ls=style, lw=1, label=name)
    kind = "mean squared error" if model == "linear" else "share of wrong classes"
    axes.set(xlabel="people asked so far", ylabel=f"{kind}, held out")
    axes.set_title(f"{model}, {compared['mechanism']}, exact loss {compared['loss']:.4g}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9)
    return figure
