"""Commands that are imported when they are run, so that each one loads only what it needs.

Help and shell completion show a group's table; they import a command only to show its options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command


@dataclass(frozen=True)
class Entry:
    """A command that is not imported yet: where its function is, and its line in the overview.

    `where` is module:function in this package, or just the name that both have.
    """

    where: str
    help: str
    parts: Mapping[str, Entry] = field(default_factory=dict)
    """The commands below it, if it is a group."""

    def load(self) -> Any:
        """Import the function."""
        module, _, function = self.where.partition(":")
        return getattr(import_module(f"murmuration.cli.{module}"), function or module)


class LazyGroup(TyperGroup):
    """A group that knows its commands by a table; stand-ins for them are enough for an overview."""

    panels: ClassVar[Mapping[str, Mapping[str, Entry]]] = {}
    """The commands, by the title that they are listed under."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.entries: dict[str, Entry] = {}
        for title, entries in self.panels.items():
            self.entries.update(entries)
            for name, entry in entries.items():
                self.add_command(TyperCommand(name, help=entry.help, rich_help_panel=title))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that was asked for, imported now."""
        name, stand_in, rest = super().resolve_command(ctx, args)
        entry = self.entries.get(name or "")
        return name, stand_in if entry is None else _imported(entry), rest


def group_of(panels: Mapping[str, Mapping[str, Entry]]) -> type[LazyGroup]:
    """Return the group of a table of commands by title."""
    return type("TableGroup", (LazyGroup,), {"panels": panels})


def _imported(entry: Entry) -> Any:
    if not entry.parts:
        alone = typer.Typer(add_completion=False)
        alone.command()(entry.load())
        return get_command(alone)
    group = typer.Typer(
        cls=group_of({"Commands": entry.parts}), invoke_without_command=True, add_completion=False
    )
    group.callback()(entry.load())
    return get_command(group)
