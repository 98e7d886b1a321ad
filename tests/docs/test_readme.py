"""README and docs: their Python runs, their commands and options exist, their links lead on."""

from __future__ import annotations

import contextlib
import functools
import io
import pkgutil
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.cli import COMMANDS
from tests.support.command import murmur
from tests.support.places import ROOT

README = ROOT / "README.md"
SHOWN = [README, *sorted(ROOT.glob("docs/*.md"))]
"""Pages for users: their Python is run, and their commands must exist."""
PAGES = [
    *SHOWN,
    *(ROOT / f"{name}.md" for name in ("ARCHITECTURE", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
    *sorted(ROOT.glob("docs/decisions/*.md")),
]
LONGEST = 120
"""Lines of README: three minutes."""
PLACEHOLDERS = {"COMMAND"}


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text_of(page), flags=re.S)


def spans(page: Path) -> Iterator[str]:
    """Yield what is shown as code: between backticks, and in indented lines up to a comment."""
    text = re.sub(r"```.*?```", "", text_of(page), flags=re.S)
    for line in re.findall(r"^ {4}(\S.*)$", text, flags=re.M):
        yield re.split(r"\s+#|\s{3,}", line)[0]
    for span in re.findall(r"`([^`]+)`", text):
        yield " ".join(span.replace("\\|", "|").split())


# --- Python --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [page for page in SHOWN if blocks(page, "python")], ids=lambda page: page.stem
)
def test_the_python_of_a_page_runs(page: Path, tmp_path: Path) -> None:
    """All blocks of a page, one after the other, and nothing else before them."""
    out = io.StringIO()
    with contextlib.chdir(tmp_path), contextlib.redirect_stdout(out):
        exec(compile("\n".join(blocks(page, "python")), page.name, "exec"), {"__name__": page.stem})  # noqa: S102
    assert out.getvalue()
    assert page != README or "95%" in out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_that_is_only_shown_is_python(page: Path) -> None:
    for block in blocks(page, "py"):
        compile(block, page.name, "exec")


# --- commands ------------------------------------------------------------------------------------


@functools.cache
def help_of(*command: str) -> str:
    return murmur(*command, "--help").stdout


def has_option(command: tuple[str, ...], option: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", help_of(*command)) is not None


def all_commands() -> Iterator[tuple[str, ...]]:
    yield ()
    for name, entry in COMMANDS.items():
        yield (name,)
        yield from ((name, part) for part in entry.parts)


def subcommand(words: list[str]) -> tuple[str, ...]:
    """The command that these words begin with; a name that does not exist is a mistake."""
    if not words or words[0].startswith("-") or words[0] in PLACEHOLDERS:
        return ()
    assert words[0] in COMMANDS, words
    parts = COMMANDS[words[0]].parts
    return tuple(words[:2]) if len(words) > 1 and words[1] in parts else (words[0],)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    """Each command, and every option that is shown with it, by the command line's own help."""
    for span in spans(page):
        program, *words = shlex.split(span) if span.startswith("murmur ") else [""]
        command = subcommand(words) if program else ()
        for word in words:
            if word.startswith("--"):
                assert has_option(command, word.split("=")[0]), span


@pytest.mark.parametrize("page", SHOWN, ids=lambda page: page.stem)
def test_options_that_are_named_alone_belong_to_some_command(page: Path) -> None:
    for span in spans(page):
        if span.startswith("--"):
            option = span.split()[0]
            assert any(has_option(command, option) for command in all_commands()), span


def test_every_command_is_named() -> None:
    shown = {span for page in SHOWN for span in spans(page)}
    for command in all_commands():
        line = " ".join(("murmur", *command))
        assert command == () or any(f"{span} ".startswith(f"{line} ") for span in shown), line


def test_the_two_commands_come_first() -> None:
    text = text_of(README)
    assert len(text.splitlines()) <= LONGEST
    shown = [span for span in spans(README) if span.startswith("make ")]
    assert shown[:2] == ["make demo", "make test"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_make_is_asked_for_exists(page: Path) -> None:
    targets = set(re.findall(r"^(\w+):", text_of(ROOT / "Makefile"), flags=re.M))
    for span in spans(page):
        if span.startswith("make "):
            asked = [word for word in span.split()[1:] if "=" not in word]
            assert set(asked) <= targets, span


# --- names and links -----------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", text_of(page)):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target.split("#")[0]).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_files_and_names_exist(page: Path) -> None:
    """Files of this repository or of the package, and dotted names below `murmuration`."""
    text = text_of(page)
    for path in re.findall(r"[\w./-]*/\w+\.py\b", text):
        inside = path.removeprefix(".venv/bin/")
        assert (ROOT / inside).exists() or (ROOT / "src/murmuration" / inside).exists(), path
    for name in re.findall(r"(?<![\w.])murmuration(?:\.[A-Za-z_]\w*)+", text):
        if not name.endswith(".py"):
            pkgutil.resolve_name(name)


def test_the_glossary_is_in_order() -> None:
    words = re.findall(r"^\*\*(.+?)\*\*", text_of(ROOT / "docs/glossary.md"), flags=re.M)
    assert words == sorted(set(words), key=str.lower)
