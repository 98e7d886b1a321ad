"""What tests need from the machine: programs that may be missing, and a disk that is small.

A test that cannot run says so loudly: the reason begins with NOT TESTED and is repeated at the end
of the run (see conftest.py). With CI_STRICT=1 it fails instead, so that CI cannot pass by skipping.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

NOT_TESTED = "NOT TESTED: "
APT_GET = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=120")
APT_SECONDS = 300


def cannot_test(reason: str) -> NoReturn:
    """Skip the test with a loud reason; fail it if CI_STRICT=1."""
    if os.environ.get("CI_STRICT") == "1":
        pytest.fail(f"{NOT_TESTED}{reason} (a failure because CI_STRICT=1)", pytrace=False)
    pytest.skip(f"{NOT_TESTED}{reason}")


def require_tool(name: str, package: str = "") -> str:
    """The path of a program; installed with apt-get if it is missing and we are root.

    `package` is the Debian package that has it, if that is not called the same.
    """
    found = shutil.which(name) or _install(name, package or name)
    if not found:
        cannot_test(f"{name} is missing; as root: apt-get install {package or name}")
    return found


def _install(name: str, package: str) -> str | None:
    """Try to install a program: from the lists that are there, else after fetching new ones."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    if not _apt_get("install", "--no-install-recommends", package):
        _apt_get("update")
        _apt_get("install", "--no-install-recommends", package)
    return shutil.which(name)


def _apt_get(*arguments: str) -> bool:
    """Whether apt-get did it; a machine without a network answers no, not an error."""
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            [*APT_GET, *arguments], env=quiet, capture_output=True, timeout=APT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


@contextmanager
def small_disk(size_mb: int) -> Iterator[Path]:
    """A folder on a disk of its own with room for so many megabytes (a tmpfs)."""
    folder = Path(tempfile.mkdtemp(prefix="small-disk-"))
    try:
        _mount(folder, size_mb)
        try:
            yield folder
        finally:
            _unmount(folder)
    finally:
        folder.rmdir()


def _mount(folder: Path, size_mb: int) -> None:
    if os.geteuid() != 0:
        cannot_test("a small disk can only be mounted by root")
    command = [require_tool("mount"), "-t", "tmpfs", "-o", f"size={size_mb}m,mode=0777", "tmpfs"]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        cannot_test(f"a small disk cannot be mounted here: {done.stderr.strip()}")


def _unmount(folder: Path) -> None:
    """Take the disk away; if a process still holds a file on it, as soon as that one is gone."""
    umount = require_tool("umount", "mount")
    if subprocess.run([umount, str(folder)], capture_output=True).returncode != 0:
        subprocess.run([umount, "--lazy", str(folder)], check=True)


def mostly_slow(values: Iterable[Any]) -> list[Any]:
    """Return values of a parameter: the first is tried by `make quick`, the others are slow."""
    first, *others = values
    return [first, *(pytest.param(value, marks=pytest.mark.slow) for value in others)]
