"""The README's Python runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
    text = README.read_text(encoding="utf-8")
    commands = Path(README.parent / "src/murmuration/cli").glob("*.py")
    for command in commands:
        if command.stem not in ("__init__", "__main__", "output"):
            assert f"murmur {command.stem.replace('_', ' ')}" in text
