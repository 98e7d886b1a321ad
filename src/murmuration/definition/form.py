"""How the file of one kind of campaign is read: its tables, what each may be, what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from murmuration.campaign.kind import Campaign
from murmuration.definition.schema import FileTable, Table

Whole = TypeVar("Whole", bound=FileTable)


@dataclass(frozen=True)
class Form(Generic[Whole]):
    """One kind of campaign file.

    makes: the kind of campaign
    table: the whole file
    tables: the tables in it, by their keys
    check: refuses what can be seen without building a law; rows that are known to be wrong are
        passed over
    resolve: chooses what the file leaves open, builds the laws and audits them
    kinds: of its attributes
    elsewhere: keys of other kinds of files, and what is said about them
    """

    makes: type[Any]
    table: type[Whole]
    tables: Mapping[str, type[Table]]
    check: Callable[[Whole, Collection[int]], None]
    resolve: Callable[[Whole], Campaign]
    kinds: tuple[str, ...]
    elsewhere: Mapping[str, str] = field(default_factory=dict)
