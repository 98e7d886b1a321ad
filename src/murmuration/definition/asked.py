"""What a campaign file asks, as a digest: the same for the same questions, however it is written.

Comments, order of keys and spaces do not count, nor do keys at their default, so that a release
that knows more keys finds the same digest. The terms (purpose, people, times, cohort, ...) do not
count either: they may change while a collection goes on.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec

from murmuration.campaign.terms import Told
from murmuration.definition.schema import FileTable


def asked(table: FileTable) -> str:
    """Return the digest of all that a file says about questions, mechanisms and what they cost."""
    terms = set(Told.__struct_fields__) - table.counted
    said = {key: value for key, value in _said(table).items() if key not in terms}
    if "repeat" in said:
        said["repeat"].pop("grace", None)  # a term, too
    for key in set(table.ordered) & set(said):
        said[key] = list(said[key].items())
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _said(table: msgspec.Struct) -> dict[str, Any]:
    """Return the keys of a table that are not at their default."""
    values = {}
    for field in msgspec.structs.fields(table):
        value, usual = getattr(table, field.name), field.default
        if field.default_factory is not msgspec.NODEFAULT:
            usual = field.default_factory()
        if value != usual:
            values[field.name] = _plain(value)
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _said(value)
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
