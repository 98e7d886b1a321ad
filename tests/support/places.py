"""Where the repository and its test files are."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
SUPPORT = Path(__file__).parent
"""This folder: helpers, and the files that tests read."""
