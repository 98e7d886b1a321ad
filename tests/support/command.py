"""`murmur` in this process: the same entry point, without a second to start Python each time.

A few tests start a real process (`process`): what a shell sees of signals, pipes and exit codes.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from murmuration.cli import main
from murmuration.cli.output import console, errors

COMMAND = (sys.executable, "-c", "from murmuration.cli import main; main()")


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    returncode: int

    @property
    def problem(self) -> str:
        """Standard error as one line: messages may be wrapped."""
        return " ".join(self.stderr.split())


def murmur(
    *arguments: object,
    folder: Path | None = None,
    code: int = 0,
    environment: Mapping[str, str] | None = None,
    columns: int = 100,
    stdin: str = "",
) -> Done:
    """Run a command, in `folder`, on a terminal of so many columns; check how it ends."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["murmur", *map(str, arguments)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        for screen in (console, errors):  # rich reads COLUMNS once, when a console is made
            patch.setattr(screen, "width", columns)
        patch.setenv("COLUMNS", str(columns))
        patch.delenv("MURMUR_TOKEN", raising=False)
        for name, value in (environment or {}).items():
            patch.setenv(name, value)
        if folder is not None:
            patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main()
    done = Done(out.getvalue(), err.getvalue(), int(ended.value.code or 0))
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done


def process(*arguments: object, folder: Path | None = None, **options: Any) -> Any:
    """Start a command in a process of its own, with pipes for what it prints."""
    environment = {**os.environ, "COLUMNS": "100", "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
