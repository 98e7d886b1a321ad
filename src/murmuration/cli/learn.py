"""`murmur learn`: a model from randomised answers, beside the same model without privacy."""

from __future__ import annotations

import warnings
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
SCHEDULES = {"auto": "", "few": "FewRounds", "papers": "MiniBatches", "one": "OneByOne"}
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
    interaction: Annotated[
        list[str] | None, typer.Option(help="Two of these together, NAME:NAME; may be repeated.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="NAME=LOW:HIGH for linear, 'NAME=A|B' for svm, 'NAME=A|B|C' for logistic."
        ),
    ] = None,
    model: Annotated[str, typer.Option(help=f"One of: {', '.join(MODELS)}.")] = "linear",
    epsilon: Epsilon = 1.0,
    mechanism: Annotated[str, typer.Option(help="auto, privunit, block, harmony, ...")] = "auto",
    schedule: Annotated[
        str,
        typer.Option(
            help=f"{', '.join(SCHEDULES)}: adaptive, 20 rounds, the papers', one person per round."
        ),
    ] = "auto",
    rounds: Annotated[
        int | None, typer.Option(min=8, help="The most rounds, for --schedule auto.")
    ] = None,
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
    """Train a linear, logistic or SVM model from noisy answers; compare on held-out people."""
    if model not in MODELS or schedule not in SCHEDULES:
        raise ParameterError(
            f"--model is {', '.join(MODELS)}; --schedule is {', '.join(SCHEDULES)}"
        )
    checked_plot(plot)
    require("learn")
    toolbox = import_module("murmuration.learn")
    form = Form.said(delimiter, encoding, header, columns, decimal)
    if rounds is not None and schedule != "auto":
        raise ParameterError("--rounds caps --schedule auto; the others have rounds of their own")
    x, y, names, clamped = _read(
        data, form, (number, category, interaction), target, model, people, seed
    )
    order = np.random.default_rng(seed).permutation(len(x))
    cut = max(1, round(HELD_OUT * len(x)))
    test, train = order[:cut], order[cut:]
    chosen = getattr(toolbox, MODELS[model])(
        epsilon,
        mechanism,
        getattr(toolbox, SCHEDULES[schedule])() if SCHEDULES[schedule] else None,
        random_state=seed,
        rounds=rounds,
        verbose=errors.is_terminal,
    ).fit(x[train], y[train])
    compared = _compared(chosen, model, (x[train], y[train]), (x[test], y[test]))
    weights = _weights(chosen, names)
    if as_json:
        emit_json({**compared, "clamped": clamped, "coefficients": weights})
    else:
        _print(compared, weights, chosen, clamped)
    if plot is not None:
        save_plot(draw(chosen, model, x[test], y[test], compared), plot)


# --- data --------------------------------------------------------------------------------------


def _read(
    data: Path | None,
    form: Form,
    declared: tuple[list[str] | None, list[str] | None, list[str] | None],
    target: str | None,
    model: str,
    people: int,
    seed: int,
) -> tuple[Floats, Any, list[str], dict[str, int]]:
    """Return features in [-1, 1], targets, the features' names, and how many values were moved."""
    if data is None:
        if any(declared) or target:
            raise ParameterError("--number, --category, --interaction and --target describe --data")
        return *_simulated(model, people, seed), {}
    encode, (number, category, interaction) = import_module("murmuration.learn"), declared
    if target is None or not (number or category):
        raise ParameterError("a file needs --target and at least one --number or --category")
    listed = [_column(encode, "--number", text, False) for text in number or []]
    listed += [_column(encode, "--category", text, True) for text in category or []]
    _require_target(target, model)
    wanted, spec = _column(encode, "--target", target, model != "linear")
    columns = dict(listed)
    if len(columns) != len(listed) or wanted in columns:
        raise ParameterError("every column has one part: a number, a category, or the target")
    if spec.width != 1 and model == "svm":
        raise ParameterError("--target for svm has two values, as 'home=rent|own'")
    pairs = dict(_pair(encode, text) for text in interaction or [])
    encoder = encode.Encoder({**columns, **pairs})
    table = open_table(data, form).columns([*columns, wanted])
    if (rows := len(table[wanted])) < FEWEST:
        raise ParameterError(f"{data} has {rows} rows; learning needs {FEWEST} or more")
    typed = {name: _typed(name, table[name], kind, encode) for name, kind in columns.items()}
    known = _typed(wanted, table[wanted], spec, encode)
    if model == "linear":
        targets, moved = spec.encode(known)[:, 0], {wanted: spec.clamped(known)}
    else:
        targets, moved = np.array(spec.values)[spec.items(known)], {}
    moved = {**encoder.clamped(typed), **moved}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what was moved is told with the result
        features = encoder.encode(typed)
    counted = {name: count for name, count in moved.items() if count}
    return features, targets, list(encoder.names), counted


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
            return name, encode.Category(tuple(rest.split("|")))
        low, high = (float(end) for end in rest.split(":"))
        return name, encode.Number(low, high, clamp=True)
    except ValueError as problem:
        if isinstance(problem, ParameterError):
            raise
        raise ParameterError(
            f"{option}: numbers are written as age=18:98, categories as 'sex=f|m'; got {text!r}"
        ) from None


def _pair(encode: Any, text: str) -> tuple[str, Any]:
    """Read NAME:NAME."""
    one, found, other = text.partition(":")
    if not found:
        raise ParameterError(f"--interaction: two columns are written as age:home; got {text!r}")
    return text, encode.Interaction(one, other)


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
    noisy = np.clip(scores + draw.normal(0, 0.1, people), -1, 1)
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
    guess = float(train[1].mean()) if model == "linear" else _commonest(train[1])
    score = chosen.score_
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
        "score": None if score is None else score.value,
        "score_interval": None if score is None else list(score.interval()),
        "score_is": None if score is None else score.note,
        "true_score": None if score is None else chosen.true_score(x, y),
        "kept_weights": chosen.kept_,
        "promised": loss.claimed,
        "loss": loss.epsilon,
        "kept": loss.holds,
        "verdict": loss.verdict,
    }


def _commonest(labels: Any) -> Any:
    values, counts = np.unique(labels, return_counts=True)
    return values[counts.argmax()]


def _weights(chosen: Any, names: list[str]) -> dict[str, float]:
    """Return the weights by name; of three classes and more, by class and name."""
    if len(chosen.coef_.shape) == 1 or len(chosen.coef_) == 1:
        return dict(zip(names, chosen.coef_.ravel().tolist(), strict=True))
    rows = zip(chosen.classes_, chosen.coef_.tolist(), strict=True)
    return {f"{kind}: {name}": w for kind, row in rows for name, w in zip(names, row, strict=True)}


def _error(model: str, predicted: Any, y: Any) -> float:
    """The mean squared error of numbers, the share of wrong classes."""
    return float(np.mean((predicted - y) ** 2 if model == "linear" else predicted != y))


def _print(
    compared: dict[str, Any], weights: dict[str, float], chosen: Any, clamped: dict[str, int]
) -> None:
    kind = "mean squared error" if compared["model"] == "linear" else "share of wrong classes"
    table = Table(title=f"{kind} of {compared['held_out']:,} held-out people", show_header=False)
    table.add_row("from randomised answers", f"{compared['error']:.5f}")
    table.add_row("without privacy", f"{compared['without_privacy']:.5f}")
    table.add_row("without a model", f"{compared['without_model']:.5f}")
    if compared["score"] is not None:
        low, high = compared["score_interval"]
        told = f"{compared['score']:.4f} ({low:.4f} to {high:.4f}, 95%); in truth"
        table.add_row("private score", f"{told} {compared['true_score']:.4f}")
        table.add_row("which is the", compared["score_is"])
    rounds = f"{compared['rounds']} rounds, {compared['people']:,} people, each asked once at most"
    table.add_row("asked", f"{compared['mechanism']}, {rounds}")
    loss = f"{compared['loss']!r} of {compared['promised']!r}: {compared['verdict']}"
    seeded = ", as its noise is seeded" if chosen.loss_.simulated else ""
    table.add_row("exact loss", f"{loss}{seeded}")
    console.print(table)
    if clamped:
        moved = ", ".join(f"{count:,} of {name}" for name, count in clamped.items())
        console.print(f"values beyond their range, moved to its end: {moved}", highlight=False)
    if chosen.kept_ == 0:
        console.print("Nothing beyond noise was learnt: this is the constant.", highlight=False)
    largest = sorted(weights, key=lambda name: -abs(weights[name]))[:8]
    shown = ", ".join(f"{name} {weights[name]:+.3f}" for name in largest)
    console.print(f"largest weights: {shown}", highlight=False)


def draw(chosen: Any, model: str, x: Floats, y: Any, compared: dict[str, Any]) -> Any:
    """Return a figure: the error of the weights so far, against people asked so far."""
    plt = pyplot()
    figure, axes = plt.subplots(figsize=(7.5, 5))
    asked, told = _curve(chosen, model, x, compared["people"])
    axes.plot(asked, [_error(model, t, y) for t in told], marker=".", label="on the way")
    for name, value, style in (
        ("the model", compared["error"], "-"),
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


def _curve(chosen: Any, model: str, x: Floats, people: int) -> tuple[Any, list[Any]]:
    """Return how many people were asked, and what the weights of that time tell."""
    features = np.column_stack([x, np.ones(len(x))])
    scores = [features @ np.asarray(weights).T for weights in chosen.history_]
    if model == "linear":
        told: list[Any] = scores
    else:
        place = [s.argmax(axis=1) if s.ndim == 2 else (s > 0).astype(int) for s in scores]
        told = [chosen.classes_[p] for p in place]
    if hasattr(chosen, "plan_"):
        first = people - sum(chosen.plan_.batches) if chosen.schedule.centre else 0
        return first + np.concatenate([[0], np.cumsum(chosen.plan_.batches)])[: len(told)], told
    return np.array([stage.asked for stage in chosen.path_]), told
