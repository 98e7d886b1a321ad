"""All figures by id, and the module that each is in; a module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module

from murmuration.errors import ParameterError
from murmuration.reproduce.figure import PAPERS, Figure

PLACES: dict[str, dict[str, str]] = {
    "harmony": {
        "H-ctr": "counterexample",
        "H-1ab": "means_shares",
        "H-1cd": "means_shares",
        "H-L1..L5": "lemmas",
        "H-2ad": "regression",
        "H-2bcef": "regression",
        "H-m": "regression",
    },
    "hiera": {
        "A-1": "means",
        "A-2": "means",
        "A-3": "regression",
        "A-T2": "theorems",
        "A-T3": "theorems",
    },
    "dct": {
        "D-1": "means",
        "D-2": "means",
        "D-3": "means",
        "D-4": "regression",
        "D-L1": "law",
        "D-var": "law",
    },
    "mpldp": {
        "M-T2": "theorems",
        "M-3": "levels",
        "M-T3": "levels",
        "M-4": "levels",
        "M-Th2": "theorems",
        "M-Th3": "theorems",
        "M-Alg3": "theorems",
        "M-Th5": "theorems",
    },
}
"""For each paper: the ids, in the paper's order, and the module of each."""


def ids(paper: str | None = None) -> list[str]:
    """Return the ids of a paper's figures, or of all."""
    if paper is not None and paper not in PAPERS:
        raise ParameterError(f"no paper is called {paper!r}; there are {', '.join(PAPERS)}")
    papers = PAPERS if paper is None else (paper,)
    return [name for one in papers for name in PLACES[one]]


def paper_of(name: str) -> str:
    """Return the paper of a figure."""
    for paper, places in PLACES.items():
        if name in places:
            return paper
    raise ParameterError(f"no figure has the id {name!r}; there are {', '.join(ids())}")


def figure(name: str) -> Figure:
    """Return a figure."""
    paper = paper_of(name)
    module = import_module(f"murmuration.reproduce.{paper}.{PLACES[paper][name]}")
    found: Figure = module.FIGURES[name]
    return found


def hours(names: Iterable[str]) -> float:
    """Return the hours of one core that figures take in full, about; those of a family share."""
    found = [figure(name) for name in names]
    return sum({one.family or one.id: one.hours for one in found}.values())
