"""The optional packages: which extra has them, and the one line that says so when it is missing."""

from __future__ import annotations

from importlib.util import find_spec

from murmuration.errors import missing_extra

EXTRAS: dict[str, tuple[str, tuple[str, ...]]] = {
    "arrow": ("Parquet", ("pyarrow",)),
    "learn": ("a model", ("sklearn",)),
    "onnx": ("an ONNX file", ("onnx",)),
    "plots": ("a plot", ("matplotlib",)),
    "postgres": ("PostgreSQL", ("psycopg",)),
    "spark": ("Spark", ("pandas", "pyarrow", "pyspark")),
    "server": ("a collector", ("httptools", "starlette", "uvicorn", "uvloop")),
}
"""For each extra of pyproject.toml: what needs it, and the packages that it installs."""


def require(extra: str) -> None:
    """Refuse to go on without an extra: before the work, and without importing it."""
    what, packages = EXTRAS[extra]
    if any(find_spec(package) is None for package in packages):
        raise missing_extra(what, extra)
