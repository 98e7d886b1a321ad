"""Documents by operators who mean harm: a device refuses them before it looks at an answer."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

import pytest

from murmuration import mechanism
from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError
from murmuration.mechanisms.registry import to_document


def question(name: str, labels: list[str] | None = None) -> dict[str, Any]:
    """An attribute as it is published: keys at their default are left out."""
    if labels is None:
        return {"name": name, "low": 0.0, "high": 1.0, "outside": "clamp"}
    return {"name": name, "kind": "category", "labels": labels, "outside": "refuse"}


def cell(attributes: list[Any], law: Any, level: int | None = None) -> dict[str, Any]:
    at_level = {} if level is None else {"level": level}
    return {"attributes": attributes, **at_level, **to_document(law)}


SETTINGS = (
    *("wire", "campaign", "epsilon", "strategy", "ends", "levels", "chosen", "limit"),
    *("accept_loss", "rounds"),
)


def document(changes: dict[str, Any], **outside: Any) -> bytes:
    collection = {
        "wire": 1,
        "campaign": "c",
        "epsilon": 1.0,
        "strategy": "split",
        "attributes": [question("a")],
        "cells": [cell([0], mechanism("duchi", epsilon=1.0))],
        **changes,
    }
    order = [*(name for name in SETTINGS if name in collection), "attributes", "cells"]
    text = json.dumps({name: collection[name] for name in order}, separators=(",", ":"))
    around = {
        "format": 1,
        "campaign": "c",
        "version": 1,
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "purpose": "p",
        "people": 1000,
        "opens": None,
        "closes": None,
        "cohort": 1000,
        "keep_reports": True,
        "upload": "open",
        **outside,
    }
    return json.dumps({**around, "collection": text}).encode()


ILL = question("illness", ["none", "flu", "plague"])
TWO = [question("a"), question("b")]
BIT = mechanism("duchi", epsilon=1.0)
MISPLACED = {
    "fewer items than labels": ([ILL], [cell([0], mechanism("grr", epsilon=1.0, k=2))], "split"),
    "a number for items": ([ILL], [cell([0], BIT)], "split"),
    "items for a number": (
        [question("a")],
        [cell([0], mechanism("grr", epsilon=1.0, k=2))],
        "split",
    ),
    "another attribute": (TWO, [cell([1], BIT), cell([1], BIT)], "sample"),
    "no attribute": (TWO, [cell([0], BIT), cell([7], BIT)], "sample"),
    "from the end": (TWO, [cell([0], BIT), cell([-1], BIT)], "sample"),
    "no whole number": ([question("a")], [cell([0.0], BIT)], "split"),
    "a level": ([question("a")], [cell([0], BIT, 0)], "split"),
    "vectors of length 1": (
        TWO,
        [cell([0, 1], mechanism("privunit", epsilon=1.0, d=2))],
        "together",
    ),
    "other domains": (
        TWO,
        [cell([0, 1], mechanism("sampled", epsilon=1.0, domains=(0, 2), numeric="duchi"))],
        "together",
    ),
}


def test_an_honest_document_is_read() -> None:
    assert campaign_document.read(document({})).name == "c"


@pytest.mark.parametrize("case", MISPLACED)
def test_a_law_is_for_all_answers_of_its_own_question(case: str) -> None:
    questions, cells, strategy = MISPLACED[case]
    changes = {"attributes": questions, "cells": cells, "strategy": strategy}
    with pytest.raises(FormatError, match="cannot be"):
        campaign_document.read(document(changes))


def test_a_level_costs_its_part_of_epsilon() -> None:
    open_law, shy_law = mechanism("duchi", epsilon=2.0), mechanism("duchi", epsilon=0.5)
    changes = {"epsilon": 2.0, "levels": {"shy": 0.25, "open": 1.0}}
    honest = [cell([0], shy_law, 0), cell([0], open_law, 1)]
    assert campaign_document.read(document({**changes, "cells": honest})).levels is not None
    for laws in ((open_law, shy_law), (open_law, open_law)):
        swapped = [cell([0], law, level) for level, law in enumerate(laws)]
        with pytest.raises(FormatError, match=r"where 0\.5 is promised"):
            campaign_document.read(document({**changes, "cells": swapped}))


@pytest.mark.parametrize("factor", [5e-324, 1e-30, 0.0009])
def test_a_level_with_next_to_no_budget_is_refused(factor: float) -> None:
    """By its budget: a table that tells nothing keeps every promise, however small."""
    dull = cell([0], BIT, 0)
    dull["law"]["weights"] = [[1 << 51, 1 << 51]] * 2
    with pytest.raises(FormatError, match=r"epsilon"):
        campaign_document.read(document({"levels": {"low": factor}, "cells": [dull]}))


MARKS = "x" + "\u0301\u0316" * 60_000
"""Takes seconds to be put into a normal form."""
LONG = {
    "a label": {"labels": ["none", "flu", MARKS]},
    "a name": {"name": MARKS},
    "a marker": {"missing": True, "outside": "no answer", "markers": [MARKS]},
    "the rule": {"outside": MARKS},
}


@pytest.mark.parametrize("case", LONG)
def test_long_texts_are_refused_before_they_are_normalised(case: str) -> None:
    changes = {
        "attributes": [{**ILL, **LONG[case]}],
        "cells": [cell([0], mechanism("grr", epsilon=1.0, k=3))],
    }
    start = time.perf_counter()
    with pytest.raises(FormatError, match="500 characters at most"):
        campaign_document.read(document(changes))
    assert time.perf_counter() - start < 1


def test_a_text_of_500_code_points_is_read() -> None:
    labels = ["none", "flu", "\U0001f600" * 500]
    changes = {
        "attributes": [{**ILL, "labels": labels}],
        "cells": [cell([0], mechanism("grr", epsilon=1.0, k=3))],
    }
    assert campaign_document.read(document(changes)).questions[0].labels[2] == labels[2]


def test_a_long_name_of_a_level_is_refused() -> None:
    changes = {"levels": {MARKS: 1.0}, "cells": [cell([0], BIT, 0)]}
    with pytest.raises(FormatError, match="500 characters at most"):
        campaign_document.read(document(changes))


def test_many_ranges_are_refused_before_they_are_compared() -> None:
    symbols, ranges = 32_768, 64
    wide = {
        "attributes": [0],
        "mechanism": "graded-bit",
        "parameters": {
            "epsilon": [1.0] * ranges,
            "edges": [2 * i / ranges - 1 for i in range(ranges + 1)],
            "semantics": "max",
        },
        "law": {
            "weights": [[1] * symbols] * (ranges + 1),
            "values": [0.0] * symbols,
            "places": [i * (1 << 52) // ranges for i in range(ranges + 1)],
            "jumps": [],
        },
    }
    changes = {"attributes": [{**question("a"), "kind": "graded"}], "cells": [wide]}
    with pytest.raises(FormatError, match="comparisons between ranges"):
        campaign_document.read(document(changes))


def test_levels_by_lot_are_for_one_round() -> None:
    """A level that a lot gives stays with a device: over many rounds it would be a name."""
    law = mechanism("memoised", epsilon=1.0, k=3, permanent=2.0)
    changes = {
        "attributes": [ILL],
        "cells": [cell([0], law, 0)],
        "levels": {"one": 1.0},
        "chosen": "by lot",
        "limit": 4.0,
    }
    assert campaign_document.read(document(changes)).levels is not None
    with pytest.raises(FormatError, match="by lot"):
        campaign_document.read(document({**changes, "rounds": 9}))


BAD = {
    "a limit of nothing": {"limit": 0},
    "a negative limit": {"limit": -1},
    "labels that are numbers": {
        "attributes": [{**ILL, "labels": [1, 2, 3]}],
        "cells": [cell([0], mechanism("grr", epsilon=1.0, k=3))],
    },
    "truth values for a range": {"attributes": [{**question("a"), "low": False, "high": True}]},
    "an attribute that is never asked": {
        "strategy": "sample",
        "attributes": TWO,
        "cells": [cell([0], BIT), cell([1], BIT)],
        "ends": [0],
    },
}


@pytest.mark.parametrize("case", BAD)
def test_odd_values_are_refused(case: str) -> None:
    with pytest.raises(FormatError, match="cannot be"):
        campaign_document.read(document(BAD[case]))


def test_an_accepted_loss_accepts_no_other_laws_cost() -> None:
    """A level promises its part of epsilon, whatever another law of the campaign was allowed."""
    words = "an infinite loss where 0.01 is promised"
    shy, dct = mechanism("grr", epsilon=1.0, k=2), mechanism("dct", epsilon=0.01)
    yes = question("yes", ["no", "yes"])
    levels = {"high": 0.005, "low": 1.0}
    broken = [cell([0], dct, 0), cell([0], dct, 1)]
    changes = {
        "epsilon": 2.0,
        "levels": levels,
        "accept_loss": words,
        "attributes": [question("a"), yes],
    }
    honest = [cell([1], mechanism("grr", epsilon=e, k=2), i) for i, e in enumerate((0.01, 1.0))]
    greedy = [cell([1], shy, 0), cell([1], shy, 1)]
    sampled = {**changes, "strategy": "sample"}
    assert campaign_document.read(document({**sampled, "cells": [*broken, *honest]}))
    with pytest.raises(FormatError, match=r"come to more than 0\.01"):
        campaign_document.read(document({**sampled, "cells": [*broken, *greedy]}))
