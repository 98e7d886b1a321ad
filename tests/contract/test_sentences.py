"""The sentences about cost and bounds: the same words in both languages, and true.

`docs/vectors/sentences.json` has facts and sentences, and for each campaign of
`docs/vectors/reports` what people are told about it; `web/client/test/sentences.test.ts` holds the
browser to it.

`python -m tests.contract.test_sentences` writes the file.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from murmuration import sentences
from murmuration.campaign import bounds
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document
from tests.support.places import ROOT
from tests.support.vectors import VECTORS

FILE = VECTORS / "sentences.json"
REPORTS = sorted((VECTORS / "reports").glob("*.json"))
LOSSES = [0.0, 1e-9, 0.5, 0.9999999999999998, 1.0, math.log(3), 2.0, 4.0, 8.0, 12.345, 18.0, 20.0]
COSTS = [0.001, 0.1 + 0.2, 1.0, 1.0000000000000002, 2.345, 12.5, 65_659_969.137]
SAID = {
    "odds": [[loss] for loss in (*LOSSES, 700.5, math.inf)],
    "sure": [[loss] for loss in (*LOSSES, 20.5, math.inf)],
    "reveals": [
        *([loss, 2.0] for loss in LOSSES),
        [2.0986122886681096, 1.0, "a loss of 2.0986122886681096 where 1.0 is promised"],
        [math.inf, 0.05, "an infinite loss where 0.05 is promised"],
    ],
    "promise": [[loss] for loss in LOSSES],
    "levelOffer": [["high", 1.0], ["niedrig", 3.0]],
    "allReports": [[2.0, False], [2.0, True], [18.0, False], [math.inf, True]],
    "cost": [[cost] for cost in (*COSTS, math.inf)],
    "reserve": [[cost] for cost in COSTS],
}
"""Facts for each sentence, by its name in TypeScript."""


def snake(name: str) -> str:
    """The name in Python."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def in_json(fact: Any) -> Any:
    return "inf" if fact == math.inf else fact


def found() -> dict[str, Any]:
    """What the file says."""
    said = [
        {
            "name": name,
            "facts": [in_json(fact) for fact in facts],
            "text": getattr(sentences, snake(name))(*facts),
        }
        for name, cases in SAID.items()
        for facts in cases
    ]
    return {"sentences": said, "campaigns": {path.stem: told(path.stem) for path in REPORTS}}


def told(name: str) -> dict[str, Any]:
    """What people are told about a campaign of the vectors."""
    published = json.loads((VECTORS / "reports" / f"{name}.json").read_text())["document"]
    return sentences_of(document.read(published.encode(), SurveyCampaign))


def sentences_of(campaign: SurveyCampaign) -> dict[str, Any]:
    """Return what the pages say of a campaign: `docs/vectors/sentences.json` has it for many."""
    loss, bound = campaign.loss(), bounds.bound_of(campaign)
    accepted = None if loss.holds else campaign.accept_loss
    names = campaign.levels.names if campaign.levels is not None else ()
    offers = [(name, campaign.loss(place).epsilon) for place, name in enumerate(names)]
    later = bounds.reserved(campaign)
    return {
        "odds": sentences.odds(loss.epsilon),
        "sure": sentences.sure(loss.epsilon),
        "reveals": sentences.reveals(loss.epsilon, campaign.epsilon, accepted),
        "allReports": bound and sentences.all_reports(bound.loss, bound.hidden),
        "levels": [sentences.level_offer(name, told) for name, told in offers],
        "promise": sentences.promise(loss.epsilon),
        "reserve": sentences.reserve(later) if later else None,
    }


def written() -> str:
    """The file: a sentence to a line."""
    parts = found()
    said = ",\n".join(f"  {json.dumps(one, ensure_ascii=False)}" for one in parts["sentences"])
    campaigns = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(one, ensure_ascii=False)}"
        for name, one in parts["campaigns"].items()
    )
    return f'{{\n "sentences": [\n{said}\n ],\n "campaigns": {{\n{campaigns}\n }}\n}}\n'


def test_the_sentences_are_those_of_the_file() -> None:
    assert FILE.read_text(encoding="utf-8") == written()


def test_no_bound_is_said_to_be_less_than_it_is() -> None:
    for loss in (k / 97 for k in range(1, 1900)):
        factor = float(sentences.times(loss).replace(",", ""))
        assert math.exp(loss) * (1 - 1e-11) <= factor <= math.exp(loss) * 1.011
        sure = float(sentences.certainty(loss)[:-1]) / 100
        assert 1 / (1 + math.exp(-loss)) * (1 - 1e-11) <= sure < 1


@pytest.mark.parametrize(("name", "permanent"), [("rounds", 6.0), ("weeks", 4.0)])
def test_all_reports_are_bounded_by_the_permanent_answers(name: str, permanent: float) -> None:
    """Not by what the campaign may cost a device, which pays for values that change."""
    published = json.loads((VECTORS / "reports" / f"{name}.json").read_text())["document"]
    campaign = document.read(published.encode())
    bound = bounds.bound_of(campaign)
    assert bound is not None
    assert not bound.hidden
    assert bound.loss <= permanent + 1e-9
    assert campaign.limit is not None
    assert campaign.limit > permanent


def test_no_page_says_these_sentences_in_other_words() -> None:
    """A bound or a cost is in `sentences.ts`, nowhere else."""
    for path in [*(ROOT / "web").glob("*/src/*.ts"), *(ROOT / "src").rglob("cli/*.py")]:
        if path.name not in ("sentences.ts", "voice.ts"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"change[sd]? (?:the odds )?by at most a factor of \{", text), path
            assert not re.search(r"likely can .{0,40} sure", text), path
            assert not re.search(r"of your privacy budget|Math\.exp\(", text), path


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
