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

from murmuration.definition.schema import CampaignTable
from murmuration.definition.training import ModelTable

TERMS = ("purpose", "people", "opens", "closes", "cohort", "keep_reports", "upload", "origins")


def asked(table: CampaignTable | ModelTable) -> str:
    """Return the digest of all that a file says about questions, mechanisms and what they cost.

    How many people are expected decides what a training asks: there it counts.
    """
    terms = [key for key in TERMS if key != "people" or isinstance(table, CampaignTable)]
    said = {key: value for key, value in _said(table).items() if key not in terms}
    if "repeat" in said:
        said["repeat"].pop("grace", None)  # a term, too
    if isinstance(table, CampaignTable) and table.levels is not None:
        said["levels"] = list(table.levels.items())  # whose order counts
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _said(table: msgspec.Struct) -> dict[str, Any]:
    """Return the keys of a table that are not at their default."""
    found = {}
    for field in msgspec.structs.fields(table):
        value = getattr(table, field.name)
        usual = field.default
        if field.default_factory is not msgspec.NODEFAULT:
            usual = field.default_factory()
        if value != usual:
            found[field.name] = _plain(value)
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        return _said(value)
    return [_plain(one) for one in value] if isinstance(value, list) else value
