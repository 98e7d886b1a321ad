"""Documents that a device refuses, each for one reason, in every language for the same one.

`docs/vectors/refused.json` has them: `rule` is what is broken (and `also`), `why` says it, and the
document is an honest one of `docs/vectors/reports` but for that. `web/client/test/document.test.ts`
and the device in Java refuse each by the same rule.

`python -m tests.contract.test_refused` adds what is missing; it changes no document that is there.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest

from murmuration.definition import document as campaign_document
from murmuration.errors import FormatError
from murmuration.wire import protocol
from tests.support.vectors import VECTORS

FILE = VECTORS / "refused.json"
ALSO = {"rounds at the end": "repeat", "accepted at the end": "words", "k": "domain"}
"""Documents that break another rule as well: a device may look at that first."""
FOLDER = VECTORS / "reports"


def refused(
    name: str, rule: str, why: str, change: Any, base: str = "plain", *, plain: bool = False
) -> dict[str, str]:
    """A document that is like an honest one but for one thing; its digest is right again.

    `plain` writes letters beyond ASCII as they are.
    """
    document = json.loads(json.loads((FOLDER / f"{base}.json").read_text())["document"])
    collection = json.loads(document["collection"])
    found = change(document, collection)
    form = json.dumps(collection, separators=(",", ":"), ensure_ascii=not plain)
    text = found if isinstance(found, str) else form
    if document["digest"] == hashlib.sha256(document["collection"].encode()).hexdigest():
        document["digest"] = hashlib.sha256(text.encode()).hexdigest()
    document["collection"] = text
    rules = {"rule": rule} if name not in ALSO else {"rule": rule, "also": ALSO[name]}
    return {"name": name, **rules, "why": why, "document": json.dumps(document)}


def put(*path: Any, value: Any) -> Any:
    """Return what sets one key of the collection."""

    def change(document: dict[str, Any], collection: dict[str, Any]) -> None:
        del document
        place: Any = collection
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


def outer(key: str, value: Any) -> Any:
    """Return what sets one key outside the collection."""
    return lambda document, collection: document.update({key: value})


def moved(document: dict[str, Any], collection: dict[str, Any]) -> None:
    """Move one part in 2^52 from a lie to the truth: one more than the loss allows."""
    weights = collection["cells"][0]["law"]["weights"]
    for row, (high, low) in enumerate(((0, 1), (1, 0))):
        weights[row][high] += 1
        weights[row][low] -= 1


def respelt(old: str, new: str) -> Any:
    return lambda document, collection: document["collection"].replace(old, new, 1)


def placed(key: str, value: Any) -> Any:
    """Return what sets a key of the collection, in its place among the others."""

    def change(document: dict[str, Any], collection: dict[str, Any]) -> None:
        del document
        order = [name for name, *_ in protocol.keys()["collection"]]
        found = {**collection, key: value}
        collection.clear()
        collection.update({name: found[name] for name in order if name in found})

    return change


def asked(number: int, **fields: Any) -> Any:
    """Return what sets keys of an attribute, in their places; None takes one out."""

    def change(document: dict[str, Any], collection: dict[str, Any]) -> None:
        del document
        order = [name for name, *_ in protocol.keys()["attribute"]]
        found = {**collection["attributes"][number], **fields}
        collection["attributes"][number] = {
            name: found[name] for name in order if found.get(name) is not None
        }

    return change


def both(*changes: Any) -> Any:
    def change(document: dict[str, Any], collection: dict[str, Any]) -> None:
        for one in changes:
            one(document, collection)

    return change


def by_lot(document: dict[str, Any], collection: dict[str, Any]) -> None:
    """Two levels of the same laws, drawn by lot, for a question that is asked again."""
    cells = collection["cells"]
    collection["cells"] = [
        {"attributes": cell["attributes"], "level": level, **{k: cell[k] for k in list(cell)[1:]}}
        for cell in cells
        for level in (0, 1)
    ]
    placed("levels", {"high": 1.0, "higher": 1.0})(document, collection)
    placed("chosen", "by lot")(document, collection)


def within(document: dict[str, Any], collection: dict[str, Any]) -> None:
    """Put a law that has laws inside it inside another."""
    del document
    cell = collection["cells"][0]
    inner = {key: cell[key] for key in ("mechanism", "parameters", "law")}
    cell["law"] = {**cell["law"], "inner": [inner, *cell["law"]["inner"][1:]]}


def first_refusals() -> list[dict[str, str]]:
    """Those that were there first: their documents never change."""
    law, grr = ("cells", 0, "law"), ("cells", 5, "law")
    more = "it may mean anything"
    return [
        refused("digest", "digest", "it is not that of the text", outer("digest", "0" * 64)),
        refused("format", "format", "it is a newer one", outer("format", 2)),
        refused("wire", "format", "it is a newer one", put("wire", value=2)),
        refused("name", "name", "there are two names", outer("campaign", "other")),
        refused("unknown key", "key", more, put("more", value=1)),
        refused("white space", "form", "another form", respelt(":", ": ")),
        refused("another number", "form", "another form", respelt("98.0", "98.00")),
        refused("a default at the end", "form", "another order", put("rounds", value=1)),
        refused("a leak by 1 in 2^52", "loss", "its loss is above epsilon", moved),
        refused("a row", "law", "another total", put(*law, "weights", 0, 0, value=5)),
        refused("epsilon", "loss", "a report costs more", put("epsilon", value=0.9)),
        refused(
            *("a law's epsilon", "loss", "the law costs more"),
            put("cells", 0, "parameters", "epsilon", value=0.99),
        ),
        refused(
            *("hush", "loss", "who has no answer hardly ever sends anything else"),
            *(put(*law, "hush", value=1), "silent"),
        ),
        refused(
            *("no answer", "loss", "its row tells too much"),
            *(put(*law, "none", value=[0, 0, 2**52]), "silent"),
        ),
        refused(
            "truth", "law", "it is not what is left", put(*grr, "truth", value=2**51), "silent"
        ),
        refused(
            *("k", "law", "truth is not what is left by so many items"),
            *(put("cells", 5, "parameters", "k", value=3), "silent"),
        ),
        refused(
            *("cells", "cells", "they are in another order"),
            *(lambda d, c: c["cells"].reverse(), "silent"),
        ),
        refused(
            *("too few cells", "cells", "an attribute has none"),
            *(lambda d, c: c["cells"].pop(), "silent"),
        ),
        refused(
            *("permanent", "loss", "it tells more than it may"),
            *(put("cells", 0, "parameters", "permanent", value=1.5), "rounds"),
        ),
        refused("rounds at the end", "form", "another order", put("rounds", value=2)),
        refused("levels", "levels", "one is above 1", put("levels", "open", value=1.5), "wide"),
        refused(
            *("a level's part", "loss", "its laws cost more"),
            *(put("levels", "careful", value=0.25), "wide"),
        ),
        refused(
            *("accepted", "words", "these are other words"),
            *(put("accept_loss", value="nothing"), "broken-corners"),
        ),
        refused(
            *("accepted at the end", "form", "another order"),
            *(put("accept_loss", value="an infinite loss"), "items"),
        ),
    ]


def form_refusals() -> list[dict[str, str]]:
    """Other spellings: each would have a digest of its own."""
    other = "another form"
    return [
        refused("a default", "form", "it is left out", placed("rounds", 1)),
        refused(
            "a whole number with a point",
            "form",
            other,
            respelt('"sample":3', '"sample":3.0'),
            "wide",
        ),
        refused("no point", "form", other, respelt('"epsilon":1.0', '"epsilon":1')),
        refused("an exponent", "form", other, respelt('"low":18.0', '"low":1.8e1')),
        refused("an escape", "form", other, respelt('"age"', '"\\u0061ge"')),
        refused(
            "a letter for an escape", "form", other, respelt("\\u00df", "ß"), "silent", plain=True
        ),
        refused("capitals in an escape", "form", other, respelt("\\u00df", "\\u00DF"), "silent"),
        refused("a key twice", "form", other, respelt('"wire":1', '"wire":1,"wire":1')),
        refused(
            *("another order", "form", other),
            respelt('"wire":1,"campaign":"plain"', '"campaign":"plain","wire":1'),
        ),
        refused("capitals in the digest", "digest", "small letters", capitals),
    ]


def capitals(document: dict[str, Any], collection: dict[str, Any]) -> None:
    del collection
    document["digest"] = document["digest"].upper()


def attribute_refusals() -> list[dict[str, str]]:
    """Attributes that could be taken in two ways, or that nobody could answer."""
    long = "x" * 501
    towns = ["Rome", "Oslo", "Bonn"]
    return [
        refused("a long name", "text", "it has 501 characters", asked(0, name=long)),
        refused("a long label", "text", "it has 501 characters", asked(1, labels=["a", "b", long])),
        refused("a kind", "attribute", "nobody knows it", asked(0, kind="colour")),
        refused("no range", "range", "a number has one", asked(0, high=None)),
        refused("an empty range", "range", "low is not below high", asked(0, low=98.0)),
        refused("a range with labels", "range", "numbers have none", asked(0, labels=["a", "b"])),
        refused("a zero with a sign", "form", "0 has none", asked(2, low=-0.0)),
        refused("one label twice", "labels", "all are different", asked(1, labels=["a", "b", "a"])),
        refused("an empty label", "labels", "none is empty", asked(1, labels=["a", "b", ""])),
        refused(
            "a rule of no name", "outside", "no label is called that", asked(1, outside="nearest")
        ),
        refused(
            *("refused, and missing", "outside", "where answers may be missing nobody is silent"),
            *(asked(0, outside="refuse"), "silent"),
        ),
        refused(
            *("no answer, none missing", "outside", "every answer counts"),
            *(asked(0, outside="no answer"), "plain"),
        ),
        refused("a case for numbers", "reading", "letters are in labels", asked(0, case="ignore")),
        refused("bins", "reading", "a power of two, from 2 to 512", asked(0, bins=3)),
        refused(
            "markers, none missing", "reading", "they stand for no answer", asked(0, markers=["?"])
        ),
        refused(
            *("a marker that is a label", "reading", "it could be both"),
            *(asked(4, markers=["ÅRHUS"]), "silent"),
        ),
        refused(
            *("two markers that are alike", "reading", "one of them says nothing"),
            *(asked(0, markers=["?", " ?"]), "silent"),
        ),
        refused(
            *("an empty marker", "reading", "a text that is empty is no answer anyway"),
            *(asked(0, markers=[" "]), "silent"),
        ),
        refused(
            *("a label called no answer", "reading", "it is counted by itself"),
            *(asked(4, labels=["no answer", "Århus", "01", "02"]), "silent"),
        ),
        refused("two of one name", "attribute", "a report is about one", asked(0, name="phone")),
        refused("more labels", "domain", "the law is for three", asked(1, labels=[*towns, "Wien"])),
        refused("none missing", "domain", "the law takes no answer", asked(0, missing=True)),
        *refused_checks(),
        *refused_tables(),
    ]


def refused_checks() -> list[dict[str, str]]:
    """Checks of whether answers fitted that are of nothing, or have other answers."""
    return [
        refused("a check of nobody", "checks", "no such attribute", asked(4, checks="x"), "fit"),
        refused(
            *("a check of a check", "checks", "people answer what is checked"),
            *(asked(4, checks="phone: fit"), "fit"),
        ),
        refused("a second check", "checks", "one is enough", asked(6, checks="age"), "fit"),
        refused(
            *("a check of other labels", "checks", "devices make two answers"),
            *(asked(4, labels=["fitted", "no"]), "fit"),
        ),
        refused(
            *("a check with a rule", "checks", "all of its answers fit"),
            *(asked(4, outside="fitted"), "fit"),
        ),
        refused(
            *("a check that is never missing", "checks", "what it checks may be missing"),
            *(asked(4, checks="sleep"), "fit"),
        ),
    ]


def refused_tables() -> list[dict[str, str]]:
    """Tables of what there is not, or cut in ways that nobody could read."""
    return [
        refused(
            *("a table of nobody", "table", "no such attribute"),
            *(asked(5, name="age by x", of=["age", "x"]), "tables"),
        ),
        refused(
            *("a table of one", "table", "it is of two attributes"),
            *(asked(5, name="age by age", of=["age", "age"]), "tables"),
        ),
        refused(
            *("a table of a table", "table", "people answer its attributes"),
            *(asked(6, name="region by age by phone", of=["region", "age by phone"]), "tables"),
        ),
        refused(
            *("another name of a table", "table", "it has that of its attributes"),
            *(asked(5, name="ages"), "tables"),
        ),
        refused(
            *("a table with a rule", "table", "all of its answers fit"),
            *(asked(5, outside="spread"), "tables"),
        ),
        refused(
            *("cuts of labels", "table", "labels are not cut"),
            *(asked(5, cuts=[[30.0, 45.5, 60.0], [1.0]]), "tables"),
        ),
        refused(
            *("a number without cuts", "table", "it has no items"),
            *(asked(5, cuts=[[], []]), "tables"),
        ),
        refused(
            *("cuts that fall", "table", "they go up"),
            *(asked(5, cuts=[[45.5, 30.0, 60.0], []]), "tables"),
        ),
        refused(
            *("a cut at the end", "table", "no value is beyond"),
            *(asked(5, cuts=[[30.0, 45.5, 98.0], []]), "tables"),
        ),
        refused(
            *("cuts of no table", "table", "nothing is made of others"),
            *(asked(1, cuts=[[1.0]]), "tables"),
        ),
        refused(
            *("more cuts", "domain", "the law is for other cells"),
            *(asked(5, cuts=[[30.0, 45.5, 60.0, 70.0], []]), "tables"),
        ),
        refused(
            *("tables, and two asked", "table", "what is asked of whom is independent"),
            *(
                both(placed("ends", None), lambda d, c: c.pop("ends"), placed("sample", 2)),
                "tables",
            ),
        ),
    ]


def other_refusals() -> list[dict[str, str]]:
    """What is asked, how often, by which laws, and the terms."""
    noon = "2026-11-16T09:00:00"
    kept = "only what is kept is asked again"
    return [
        refused("a strategy", "asking", "nobody knows it", placed("strategy", "all")),
        refused("more asked than there are", "asking", "there are three", placed("sample", 4)),
        refused(
            *("an attribute that is never asked", "asking", "its share is 0"),
            *(placed("ends", [962204679157395, 962204679157395]), "weighted"),
        ),
        refused("ends of two", "asking", "one is asked", placed("ends", [5, 6, 7, 8]), "wide"),
        refused("a small epsilon", "epsilon", "0.001 to 20", placed("epsilon", 0.0001)),
        refused("a large epsilon", "epsilon", "0.001 to 20", placed("epsilon", 20.5)),
        refused("a limit of nothing", "limit", "it is above 0", placed("limit", 0.0), "rounds"),
        refused("rounds", "repeat", kept, placed("rounds", 2)),
        refused("periods", "repeat", kept, placed("every", "week")),
        refused("a period", "repeat", "nobody knows it", placed("every", "year"), "months"),
        refused("half a spell", "repeat", "it has a length, too", placed("first", 3), "months"),
        refused("a long spell", "repeat", "longer than all rounds", placed("spell", 11), "spells"),
        refused(
            *("spells of levels", "repeat", "a spell would begin at each"),
            *(both(by_lot, placed("chosen", None), lambda d, c: c.pop("chosen")), "spells"),
        ),
        refused(
            *("levels by lot, again", "repeat", "a level would name a device"),
            *(by_lot, "rounds"),
        ),
        refused("by lot, of what", "levels", "there are none", placed("chosen", "by lot")),
        refused(
            *("accepted for nothing", "words", "no law needs it"),
            *(placed("accept_loss", "an infinite loss"), "items"),
        ),
        refused(
            "a law", "mechanism", "nobody knows it", put("cells", 0, "mechanism", value="mine")
        ),
        refused(
            *("laws in laws in laws", "law", "inside a law are plain ones"),
            *(within, "sampled"),
        ),
        refused(
            *("a size of sets", "law", "it is not next to k / (e^epsilon + 1)"),
            *(put("cells", 7, "law", "size", value=5), "items"),
        ),
        refused(
            *("a level of coins", "law", "it is not that of the size"),
            *(put("cells", 7, "law", "digits", value=9), "items"),
        ),
        refused(
            *("rows", "law", "they are a power of two"),
            *(put("cells", 2, "law", "rows", value=15), "items"),
        ),
        refused("a cohort", "terms", "100 or more", outer("cohort", 99)),
        refused("a time without a zone", "terms", "it is no moment", outer("opens", noon)),
        refused("a day that is none", "terms", "February", outer("closes", "2026-02-30T09:00:00Z")),
        refused("an upload", "terms", "nobody knows it", outer("upload", "closed")),
        refused(
            *("many origins", "terms", "64 at most"),
            outer("origins", [f"https://a{number}.example" for number in range(65)]),
        ),
    ]


def refusals() -> list[dict[str, str]]:
    return [*first_refusals(), *form_refusals(), *attribute_refusals(), *other_refusals()]


FORM = r"is not written as it is published|Expected `int`, got `float`"
LAW = r"published law is not that of|every row of weights"
RULES = {
    "digest": r"digest is not that of its text",
    "format": r"a newer one is needed",
    "name": r"name differs",
    "key": r"unknown field",
    "form": FORM,
    "loss": rf"where .* is promised|{LAW}",
    "law": LAW,
    "cells": r"cells, by attribute and level",
    "levels": r"factor above 0 and at most 1|needs levels",
    "words": r"accept_loss",
    "text": r"500 characters",
    "attribute": r"kind is one of|two attributes have the same name",
    "range": r"a number (needs|has) a range|low must be below high",
    "labels": r"2 or more labels",
    "outside": r"outside is",
    "reading": r"case is|bins must|marker|reserved for missing answers",
    "domain": r"does not take the answers of this attribute",
    "asking": r"a strategy is|sample is|shares are one for each",
    "epsilon": r"epsilon must be",
    "limit": r"limit, .*, must be above 0",
    "repeat": r"repeated question|spells|levels by lot",
    "mechanism": r"no mechanism is called",
    "checks": r"it checks one attribute|whether an answer fitted is",
    "table": r"table|cuts|is not cut",
    "terms": r"time zone|cohort|upload|RFC3339|origins",
}
"""What this library says of each rule."""


def test_the_file_is_current_and_no_document_has_changed() -> None:
    assert json.loads(FILE.read_text(encoding="utf-8")) == refusals()


@pytest.mark.parametrize("one", refusals(), ids=lambda one: one["name"])
def test_a_device_refuses_a_document_by_the_rule_that_it_breaks(one: dict[str, str]) -> None:
    rules = {one["rule"], one.get("also", one["rule"])}
    with pytest.raises(FormatError) as problem:
        campaign_document.read(one["document"].encode())
    assert re.search("|".join(RULES[rule] for rule in rules), str(problem.value))


def test_each_document_breaks_one_rule_in_one_place() -> None:
    """Names and documents are all different, and every rule is broken by some."""
    found = refusals()
    assert len({one["name"] for one in found}) == len({one["document"] for one in found})
    assert {one["rule"] for one in found} == set(RULES)


if __name__ == "__main__":
    texts = ",\n".join(json.dumps(one) for one in refusals())
    FILE.write_text(f"[\n{texts}\n]\n", encoding="utf-8")
