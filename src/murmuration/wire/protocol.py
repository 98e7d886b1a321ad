"""What every language must agree on, as one file: `docs/vectors/protocol.json`.

    limits    how large anything may be that a device or a collector reads
    keys      the keys of each object of a document, in order, with the defaults that are left out
    floats    the keys whose numbers are written with a point
    laws      the parameters and the integers of each mechanism
    reasons   why a report is not counted; which problems are final, and which statuses mean "later"

The TypeScript device is generated from the file (`web/client/protocol.mjs`), the Java one reads it.

    python -m murmuration.wire.protocol           prints the file
    python -m murmuration.wire.protocol FILE      writes it
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from murmuration.campaign import origins, periods
from murmuration.campaign.answers import MOST_TEXT
from murmuration.campaign.kind import WIRE
from murmuration.campaign.levels import MOST_LEVELS
from murmuration.campaign.question import MOST_LABELS, Question
from murmuration.campaign.survey import MOST_ATTRIBUTES
from murmuration.campaign.terms import LEAST_COHORT, UPLOADS, WRITTEN, Terms
from murmuration.definition import document, survey_text, training_text
from murmuration.files import ANYBODY, write_file
from murmuration.mechanisms.base import MAX_EPSILON, MIN_EPSILON, Mechanism
from murmuration.mechanisms.domain import Ball, Box, Graded, Items, NumberOrNone
from murmuration.mechanisms.graded.base import MOST_RANGES
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.training import campaign as training
from murmuration.training import round as training_round
from murmuration.training.algorithm.questions import ROLES
from murmuration.wire import report

SPECIFIED = (
    "bassily-smith",
    "block",
    "dct",
    "dithered",
    "duchi",
    "duchi-multi",
    "duchi-multi-published",
    "graded-bit",
    "graded-items",
    "graded-laplace",
    "graded-optimal",
    "grr",
    "hadamard",
    "hadamard-response",
    "harmony",
    "hiera",
    "hybrid",
    "hybrid-composition",
    "laplace",
    "memoised",
    "memoised-bit",
    "olh",
    "optimal",
    "optimal-sampled",
    "or-none",
    "oue",
    "piecewise",
    "privunit",
    "projective",
    "sampled",
    "square-wave",
    "subset",
    "sue",
    "three-output",
)
"""The mechanisms that docs/wire.md describes, so that devices in every language can draw them.

A mechanism that is not here can be compared, simulated and audited, and collected from devices in
Python. It is added here together with its description, its law in TypeScript and its vectors.
"""

Keys = list[list[Any]]
"""Names in order; a second element is the default, at which a key is left out."""


def protocol() -> dict[str, Any]:
    """Return what is written."""
    return {
        "wire": WIRE,
        "format": document.FORMAT,
        "limits": limits(),
        "keys": keys(),
        "floats": floats(),
        "laws": {name: law_keys(kind) for name, kind in specified().items()},
        "roles": roles(),
        "periods": list(periods.EVERY),
        "uploads": list(UPLOADS),
        "reasons": list(report.REASONS),
        "final": report.FINAL,
        "busy": sorted(report.BUSY),
    }


def limits() -> dict[str, float]:
    """Return how large anything may be."""
    return {
        "document_bytes": document.MOST_BYTES,
        "cells": survey_text.MOST_CELLS,
        "labels": survey_text.MOST_ITEMS,
        "attributes": MOST_ATTRIBUTES,
        "attribute_labels": MOST_LABELS,
        "levels": MOST_LEVELS,
        "ranges": MOST_RANGES,
        "compared": survey_text.MOST_COMPARED,
        "compared_per_pair": survey_text.PER_PAIR,
        "text": MOST_TEXT,
        "reports": report.MOST_REPORTS,
        "body_bytes": report.MOST_BODY,
        "report_bytes": report.LONGEST,
        "report_bytes_per_number": report.LONGEST_PER_NUMBER,
        "token": report.MOST_TOKEN,
        "origins": origins.MOST_ORIGINS,
        "least_cohort": LEAST_COHORT,
        "least_epsilon": MIN_EPSILON,
        "epsilon": MAX_EPSILON,
        "columns": training.MOST_COLUMNS,
        "training_laws": training.MOST_LAWS,
        "round_bytes": training_round.MOST_BYTES,
        "roles": training_round.MOST_ROLES,
        "rounds": training_round.MOST_ROUNDS,
        "deadline": training.LONGEST,
    }


def keys() -> dict[str, Keys]:
    """Return the keys of each object that travels, in the order in which they are written."""
    return {
        "document": document_keys(),
        "collection": struct_keys(survey_text.SurveyCollection),
        "attribute": [
            [field.name] if field.default is dataclasses.MISSING else [field.name, field.default]
            for field in dataclasses.fields(Question)
        ],
        "cell": struct_keys(survey_text.Cell),
        "training": struct_keys(training_text.TrainingCollection),
        "round": struct_keys(training_round.RoundDocument),
        "asked": struct_keys(training_round.AskedTable),
        "model": [[name] for name in training_round.MODEL_KEYS],
        "report": [[name] for name in ("wire", "digest", "id", "entries")] + [["period", None]],
    }


def document_keys() -> Keys:
    """Return the keys of a document that devices read; others only inform, and are passed over."""
    usual = {key: one for key, *one in struct_keys(Terms) if key not in WRITTEN}
    return [[key, *usual.get(key, [])] for key in document.KEYS]


def struct_keys(kind: type[msgspec.Struct]) -> Keys:
    """Return the keys of a struct.

    >>> struct_keys(survey_text.Cell)
    [['attributes'], ['level', None], ['mechanism'], ['parameters'], ['law']]
    """
    return [
        [field.name] if field.default is msgspec.NODEFAULT else [field.name, field.default]
        for field in msgspec.structs.fields(kind)
    ]


def roles() -> dict[str, Keys]:
    """Return the keys of each role of a round: the numbers, and the models."""
    return {
        ask: [list(kind.models), [*kind.wholes, *training_round.numbers_of(kind)]]
        for ask, kind in ROLES.items()
    }


# --- laws ----------------------------------------------------------------------------------------


def specified() -> dict[str, type[Mechanism]]:
    """Return the mechanisms that every language knows, by name."""
    kinds = list_mechanisms()
    return {name: kinds[name] for name in SPECIFIED}


def law_keys(kind: type[Mechanism]) -> dict[str, Any]:
    """Return what the published form of a mechanism has.

    >>> law_keys(list_mechanisms()["grr"])["law"]
    [['truth'], ['lie']]
    """
    examples = list(_examples(kind))
    laws = [list(example.law()) for example in examples]
    longest = max(laws, key=len)
    optional = {key for key in longest if not all(key in law for law in laws)}
    return {
        "parameters": {
            field.name: in_json(str(field.type), examples[0].parameters[field.name] is None)
            for field in dataclasses.fields(kind)
        },
        "law": [[key, None] if key in optional else [key] for key in longest],
        "takes": kind.takes.__name__,
        "memoised": kind.memoised,
        "keeps_promise": kind.keeps_promise,
    }


def _examples(kind: type[Mechanism]) -> Iterator[Mechanism]:
    """Make a mechanism, once for each form that its law can have."""
    own: dict[str, Any] = {"epsilon": 1.0}
    if kind.memoised:
        own["permanent"] = 2.0
    if kind.takes in (Box, Ball):
        own["d"] = 3
    if kind.takes is Items:
        own["k"] = 3
    if kind.takes is Graded:
        own |= {"epsilon": (1.0, 2.0), "edges": (-1.0, 0.0, 1.0)}
    yield kind(**own)
    if kind.takes is NumberOrNone:
        edges = (("edges", (-1.0, 0.0, 1.0)),)
        yield kind(**own | {"epsilon": (1.0, 2.0), "inner": "graded-bit", "settings": edges})


def in_json(annotation: str, null: bool) -> str:
    """Return a parameter's type in JSON's words; most that may be left out are never null there.

    >>> in_json("tuple[float, ...] | None", null=True), in_json("int | None", null=False)
    ('list of floats or null', 'integer')
    """
    words = {"Matrix": "list of lists of floats", "Any": "float or list of floats"}
    parts = [words.get(p, p) for p in annotation.split(" | ") if null or p != "None"]
    plural = [part.replace("tuple[tuple[str, Any], ...]", "list of pairs") for part in parts]
    listed = [part.replace("tuple[", "list of ").replace(", ...]", "s") for part in plural]
    names = {"None": "null", "str": "text", "int": "integer"}
    return " or ".join(names.get(part, part.replace("of ints", "of integers")) for part in listed)


def floats() -> list[str]:
    """Return the keys whose numbers are floats, wherever they stand in a campaign's collection."""
    named = {
        name
        for kind in specified().values()
        for name, words in law_keys(kind)["parameters"].items()
        if "float" in words
    }
    structs = (survey_text.SurveyCollection, training_text.TrainingCollection)
    written = {
        field.name
        for kind in structs
        for field in msgspec.structs.fields(kind)
        if "float" in str(field.type)
    }
    asked = {field.name for field in dataclasses.fields(Question) if "float" in str(field.type)}
    return sorted({*named, *written, *asked, "values", "typical"})


# --- writing -------------------------------------------------------------------------------------


def written() -> str:
    """Return the file: a line for each entry of each part."""
    parts = [f' "{name}": {_lines(value)}' for name, value in protocol().items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _lines(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    rows = [f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in value.items()]
    return "{\n" + ",\n".join(rows) + "\n }"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        write_file(Path(sys.argv[1]), written(), ANYBODY)
    else:
        sys.stdout.write(written())
