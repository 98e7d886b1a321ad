"""The project around the code: one name, one version, and the checks before a commit."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import murmuration
from tests.support.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NAME = "murmuration-ldp"
TOOLS = r"(?:pip3?|pipx|uv|uvx|conda|npm|npx|yarn|pnpm)"
INSTALLS = rf"\b{TOOLS}[ \"',]+(?:install|add|i|run)?\b[^\n`]*?\bmurmuration(?!-ldp\b|[-./:\w])"
ADDRESSES = r"(?:unpkg|jsdelivr|esm\.sh|skypack)[^\s\"]*murmuration(?!-ldp\b)"
ANOTHER = re.compile(rf"{INSTALLS}|{ADDRESSES}|\bmurmuration\[\w+(?:,\w+)*\](?![\w(.=])['\"]")
"""What would install somebody else's package."""


def texts() -> dict[Path, str]:
    """All text files that are committed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    found = {}
    for name in listed.stdout.decode().split("\0"):
        path = ROOT / name
        if name and path.is_file() and path != Path(__file__):
            data = path.read_bytes()
            if b"\0" not in data[:8000]:
                found[path] = data.decode(errors="replace")
    return found


def test_the_name_is_ours() -> None:
    assert PROJECT["project"]["name"] == NAME
    client = json.loads((ROOT / "web/client/package.json").read_text(encoding="utf-8"))
    assert client["name"] == NAME


def test_no_text_tells_anyone_to_install_another_name() -> None:
    wrong = [
        f"{path}: {found[0]}" for path, text in texts().items() for found in ANOTHER.finditer(text)
    ]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "text",
    [
        "pip install murmuration",
        "pip install 'murmuration[plots]'",
        "python -m pip install -q murmuration",
        "uv add murmuration",
        "npm install murmuration",
        'pip", "install", "murmuration"',
        "https://unpkg.com/murmuration/dist",
        "needs the extra 'murmuration[arrow]'",
    ],
)
def test_another_name_is_seen(text: str) -> None:
    assert ANOTHER.search(text)


@pytest.mark.parametrize(
    "text",
    [
        "pip install 'murmuration-ldp[plots]'",
        "npm install murmuration-ldp",
        "pip install . # murmuration.open",
    ],
)
def test_our_name_is_fine(text: str) -> None:
    assert not ANOTHER.search(text)


def test_there_is_one_version() -> None:
    """It is in the package; all others are compared with it."""
    version = murmuration.__version__
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/murmuration/__init__.py"
    for name in ("package.json", "package-lock.json"):
        client = json.loads((ROOT / "web/client" / name).read_text(encoding="utf-8"))
        assert client["version"] == version
        assert "version" not in json.loads((ROOT / "web/pages" / name).read_text(encoding="utf-8"))
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, flags=re.M)[0] == version


def test_a_commit_is_checked_as_make_check_does() -> None:
    """Each line of the recipe is a hook, and no hook is downloaded."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^check:.*\n((?:\t.*\n)+)", makefile, flags=re.M)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert recipe is not None
    for command in re.findall(r"\$\(BIN\)/(\S+(?: \w+)?)", recipe[1]):
        assert f"entry: .venv/bin/{command}" in hooks, command
    for target in re.findall(r"check-\w+", recipe[1]):
        assert f"entry: make {target}" in hooks, target
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]
