"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from murmuration.cli import COMMANDS

README = Path(__file__).parent.parent / "README.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.S)
    assert len(blocks) == 5
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, check=True
    )
    assert "95%" in done.stdout
    assert "'ios'" in done.stdout
    assert "project_simplex" in done.stdout


def test_every_command_is_named() -> None:
    """In README, or on the pages to which it points."""
    pages = [README, *README.parent.glob("docs/*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    for name, entry in COMMANDS.items():
        assert f"murmur {name}" in text
        for part in entry.parts:
            assert f"{name} {part}" in text or name == "token"  # one line names those four
