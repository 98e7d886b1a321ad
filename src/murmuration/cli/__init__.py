"""The command `murmur`: one file per command, imported when the command is run."""

from __future__ import annotations

import signal
import sys

import typer

from murmuration import __version__
from murmuration.cli.lazy import Entry, group_of
from murmuration.errors import CampaignError, MurmurationError, RefusedError

AGAIN_SECONDS = 0.01
MORE = (
    "More mistakes may follow when these are put right: values and laws are looked at after keys."
)

PLANS = {
    "graded": Entry(
        "plan_graded:graded",
        "List what keeps the budgets of graded ranges, and say whether grading buys anything.",
    ),
    "repeat": Entry(
        "plan_repeat:repeat",
        "Compare laws for a question that comes back: loss against periods, error of one period.",
    ),
}
COMPARISONS = {
    "graded": Entry(
        "compare_graded:graded",
        "Simulate collections on graded ranges: error of the mean, exact loss, budget kept or not.",
    ),
    "levels": Entry(
        "compare_levels:levels",
        "Simulate collections in which people choose their privacy level, and compare the errors.",
    ),
}
TOKENS = {
    "add": Entry("token:add", "Make a token and print it: this is the only time it is shown."),
    "list": Entry(
        "token:list_tokens", "List names, roles and times; the tokens themselves are not kept."
    ),
    "link": Entry(
        "token:link", "Print a link that signs a browser in: it works once, within an hour."
    ),
    "rotate": Entry(
        "token:rotate",
        "Make a new token of the same name and role; the old ones end after the overlap.",
    ),
    "end": Entry("token:end", "End all tokens of a name now (collectors notice in seconds)."),
}
STUDIES = {
    "demo": Entry(
        "demo", "Collect from simulated devices over HTTP; show truth, estimate and interval."
    ),
    "init": Entry(
        "init",
        "Write a campaign file with a comment on every key. It passes `murmur check` as it is.",
    ),
    "check": Entry(
        "check",
        "Check a campaign file, audit its laws, and say in plain words what each person reveals.",
    ),
    "plan": Entry(
        "plan",
        "Choose a mechanism for each attribute and predict error, cost and privacy.",
        PLANS,
    ),
    "serve": Entry(
        "serve",
        "Collect reports over HTTP; each is counted once and acknowledged when it is on the disk.",
    ),
    "token": Entry("token", "Make, list, rotate and end the tokens of a collector.", TOKENS),
    "status": Entry(
        "status",
        "Print how many reports were received, stored and refused, and each attribute's answers.",
    ),
    "export": Entry(
        "export", "Write a campaign's randomised reports as Parquet that only you can read."
    ),
    "merge": Entry(
        "merge",
        "Merge other stores into the first, by the ids of their reports, or files of tallies.",
    ),
}
DEVICES = {
    "send": Entry(
        "send",
        "Simulate devices: each row of a file is randomised and sent as one device's report.",
    ),
    "train": Entry(
        "train",
        "Train a model over HTTP; each row of a file is a simulated device that answers one round.",
    ),
    "ledger": Entry(
        "ledger",
        "Show a device's ledger: each report, what it cost, and whether it was delivered.",
    ),
}
ANALYSES = {
    "estimate": Entry(
        "estimate",
        "Print means and shares with confidence intervals; list what too few have answered.",
    ),
    "tally": Entry(
        "tally",
        "Count files of reports, each id once, and write the tallies; `murmur estimate` reads "
        "them.",
    ),
    "model": Entry(
        "model",
        "Print a finished training's coefficients, in the attributes' units, and its score.",
    ),
}
RESEARCH = {
    "mechanisms": Entry(
        "mechanisms", "List the mechanisms with report size, worst-case error and exact loss."
    ),
    "audit": Entry(
        "audit", "Verify a mechanism exactly; exit code 1 when its loss exceeds its budget."
    ),
    "compare": Entry(
        "compare",
        "Simulate collections with every numeric mechanism and compare error, theory and limit.",
        COMPARISONS,
    ),
    "simulate": Entry(
        "simulate",
        "Simulate campaigns x epsilon x mechanisms x repetitions; a tidy table of all results.",
    ),
    "tuples": Entry(
        "tuples",
        "Collect mixed tuples from simulated people with every mechanism that takes them.",
    ),
    "learn": Entry(
        "learn",
        "Train a linear, logistic or SVM model from noisy answers; compare on held-out people.",
    ),
    "reproduce": Entry(
        "reproduce",
        "Run the four papers' tables, figures and theorems again; each claim beside its verdict.",
    ),
}
PANELS = {
    "Run a study": STUDIES,
    "Take part": DEVICES,
    "Analyse": ANALYSES,
    "Research": RESEARCH,
}
"""The overview, by what a person wants to do.

Each line of help is the first line of its function's docstring, held by a test.
"""
COMMANDS = {name: entry for panel in PANELS.values() for name, entry in panel.items()}

app = typer.Typer(
    name="murmur",
    cls=group_of(PANELS),
    help="Collect and analyse data under exact local differential privacy.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"murmur {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_show_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Collect and analyse data under exact local differential privacy."""


def main() -> None:
    """Run the command line. No traceback for a user's mistake: one clear line, and exit code 2.

    3 on a system error (a full disk, a file that cannot be read); 1 is kept for an
    audit that fails, that of a campaign file too.
    """
    # A shell lets its background jobs ignore SIGINT; anyone who sends it to one of ours means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.unraisablehook = _unraised
    try:
        app(prog_name="murmur")
    except MurmurationError as problem:
        _end(problem, _code(problem), *getattr(problem, "also", ()))
    except (OSError, UnicodeError, ArithmeticError) as problem:
        _end(problem, 3)
    except KeyboardInterrupt:
        sys.exit(130)


def _unraised(dropped: sys.UnraisableHookArgs) -> None:
    """Hear a Ctrl-C a moment later that came within a finaliser, where Python drops it."""
    if dropped.exc_type is not KeyboardInterrupt or not hasattr(signal, "setitimer"):
        sys.__unraisablehook__(dropped)
        return
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)


def _code(problem: MurmurationError) -> int:
    from murmuration.collector.store import StoreError  # here: a command that works needs no store

    if isinstance(problem, StoreError):  # a full disk, a database that is gone
        return 3
    return 1 if isinstance(problem, RefusedError) else 2


def _end(problem: Exception, code: int, *also: Exception) -> None:
    """Print what went wrong, in one line each, and end."""
    from rich.markup import escape

    from murmuration.cli.output import errors

    for each in (problem, *also):
        errors.print(f"[bold red]murmur:[/] {escape(str(each))}", highlight=False, soft_wrap=True)
    if (
        isinstance(problem, CampaignError)
        and problem.line
        and not isinstance(problem, RefusedError)
    ):
        errors.print(MORE, highlight=False, soft_wrap=True)
    sys.exit(code)
