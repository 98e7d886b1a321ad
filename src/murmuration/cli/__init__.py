"""The command `murmur`: one file a command."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

import typer
from rich.markup import escape

from murmuration import __version__
from murmuration.cli.audit import audit
from murmuration.cli.check import check
from murmuration.cli.compare import compare
from murmuration.cli.compare_graded import graded as compare_graded
from murmuration.cli.compare_levels import levels as compare_levels
from murmuration.cli.demo import demo
from murmuration.cli.estimate import estimate
from murmuration.cli.export import export
from murmuration.cli.init import init
from murmuration.cli.learn import learn
from murmuration.cli.ledger import ledger
from murmuration.cli.mechanisms import mechanisms
from murmuration.cli.merge import merge
from murmuration.cli.output import errors
from murmuration.cli.plan import plan
from murmuration.cli.plan_graded import graded as plan_graded
from murmuration.cli.send import send
from murmuration.cli.serve import serve
from murmuration.cli.status import status
from murmuration.cli.token import add, end, list_tokens, rotate, token
from murmuration.cli.tuples import tuples
from murmuration.collector.store import StoreError
from murmuration.errors import MurmurationError, RefusedError

app = typer.Typer(
    name="murmur",
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


Command = Callable[..., None]
COMMANDS: tuple[Command, ...] = (
    *(mechanisms, audit, demo, tuples, learn),
    *(init, check, serve, send, ledger, status, estimate, export, merge),
)
for command in COMMANDS:
    app.command()(command)

GROUPS: tuple[tuple[str, Command, list[Command]], ...] = (
    ("plan", plan, [plan_graded]),
    ("compare", compare, [compare_graded, compare_levels]),
    ("token", token, [add, list_tokens, rotate, end]),
)
for name, whole, parts in GROUPS:
    group = typer.Typer(invoke_without_command=True)
    group.callback()(whole)
    for part in parts:
        group.command(part.__name__.removesuffix("_tokens"))(part)
    app.add_typer(group, name=name)


def main() -> None:
    """Run the command line. No traceback for a user's mistake: one clear line, and exit code 2.

    3 when the machine is in the way (a full disk, a file that cannot be read); 1 is kept for an
    audit that fails, that of a campaign file too.
    """
    # A shell lets its background jobs ignore SIGINT; whoever sends it to one of ours means it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except MurmurationError as problem:
        machine = isinstance(problem, StoreError)  # a full disk, a database that is gone
        errors.print(
            f"[bold red]murmur:[/] {escape(str(problem))}", highlight=False, soft_wrap=True
        )
        sys.exit(3 if machine else 1 if isinstance(problem, RefusedError) else 2)
    except (OSError, UnicodeError, ArithmeticError) as problem:
        errors.print(
            f"[bold red]murmur:[/] {escape(str(problem))}", highlight=False, soft_wrap=True
        )
        sys.exit(3)
    except KeyboardInterrupt:
        sys.exit(130)
