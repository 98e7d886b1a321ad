"""Golden vectors: the same words make the same reports, in every release and every language.

`docs/vectors/words.json` holds a list of 64-bit words (as text: JSON numbers stop at 2^53). A file
per mechanism has its parameters, its law, and people: each with an input, the place of the first
word that its device takes, and the report in hexadecimal. `tally` has the counters that are not 0.
A law that is long is in `docs/vectors/laws`, under its fingerprint, as gzip: any device can draw
from it.

`docs/vectors/campaigns` has campaign files, what is published for each, and whole reports.

`python -m tests.contract.test_golden` writes what is missing. It never changes a file:
devices in the field make these reports.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration import Mechanism, mechanism
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition import load as campaign_file
from murmuration.exact.randomness import ScriptedRng, seeded_rng
from murmuration.mechanisms.domain import Ball, Box, Domain, Items, Number, NumberOrNone
from murmuration.wire import report
from murmuration.wire.protocol import SPECIFIED
from tests.support.cases import CASES, Case, Parameters
from tests.support.vectors import CAMPAIGNS, VECTORS

FOLDER = VECTORS
GOLDEN = [case for case in CASES if case.name in SPECIFIED]
"""Devices in other languages draw these."""
STREAM = 4096
EXTREMES = [0, 0, 2**64 - 1, 2**64 - 1]
"""After the stream: words that fall on the first and the last symbol."""
LONG = 1 << 16
"""Their tables come from a linear program: a device uses the published one."""


def all_words() -> list[int]:
    return [*seeded_rng(2026).words(STREAM).tolist(), *EXTREMES]


WORDS = np.array(all_words(), dtype=np.uint64)


def inputs(domain: Domain, each: int = 2) -> list[tuple[Any, int]]:
    """Answers, and where each one's words start; `each` is how many a number takes."""
    if isinstance(domain, Number):
        first = [-1.0, 1.0, 0.0, -0.0, 1 / 3, -0.7312, 2.0**-40, 1 - 2.0**-53]
        values = [*first, *np.linspace(-0.99, 0.97, 24).tolist()]
        starts = [STREAM, STREAM + 4 - each, *range(2 * each, each * len(values), each)]
        return list(zip(values, starts, strict=True))
    if isinstance(domain, NumberOrNone):  # three words each; no answer is null in the file
        values = [-1.0, 1.0, math.nan, math.nan, 0.0, 1 / 3, -0.7312, math.nan, 2.0**-40]
        starts = [STREAM, STREAM + 1, STREAM, STREAM + 1, *range(12, 3 * len(values), 3)]
        return list(zip(values, starts, strict=True))
    if isinstance(domain, Items):
        k = domain.k
        return [(v, 64 * i) for i, v in enumerate([0, k - 1, *(7 * i % k for i in range(10))])]
    assert isinstance(domain, Box | Ball)
    rows = np.array([[1.0, -1.0, 0.25], [0.0, 0.5, -0.125], [1 / 3, -0.9, 0.0]])
    rows = rows / 2 if isinstance(domain, Ball) else rows
    return [(row, 256 * i) for i, row in enumerate(rows.tolist())]


def vector(made: Mechanism) -> dict[str, Any]:
    """What a golden file says about a mechanism."""
    people, reports = [], []
    for answer, start in inputs(made.domain, 3 if made.memoised else 2):
        sent = made.privatize([answer], ScriptedRng(WORDS[start:]))
        reports.append(sent)
        known = None if isinstance(made.domain, NumberOrNone) and math.isnan(answer) else answer
        people.append({"input": known, "word": start, "report": made.pack(sent).hex()})
    counts = made.tally(np.concatenate(reports)).counts
    found: dict[str, Any] = {
        "mechanism": made.name,
        "parameters": made.parameters,
        "fingerprint": made.fingerprint,
        **({"law": made.law()} if len(json.dumps(made.law())) < LONG else {}),
        "people": people,
        "tally": {str(place): int(count) for place, count in enumerate(counts) if count},
    }
    if isinstance(made.domain, Box | Ball):  # the same people in one call: words in another order
        rows = [answer for answer, _ in inputs(made.domain)]
        batch = made.privatize(rows, ScriptedRng(WORDS))
        found["together"] = {"word": 0, "reports": made.pack(batch).hex()}
    return json.loads(json.dumps(found))


def long_law(fingerprint: str) -> Path:
    """Where a law is that is too long for the file of its mechanism."""
    return FOLDER / "laws" / f"{fingerprint[:16]}.json.gz"


def law_of(golden: dict[str, Any]) -> dict[str, Any]:
    """The law of an entry of a file, wherever it is."""
    if "law" in golden:
        return golden["law"]
    return json.loads(gzip.decompress(long_law(golden["fingerprint"]).read_bytes()))


SOLVED = ("optimal", "optimal-sampled", "graded-optimal", "graded-items")
"""A linear program's: where no table is in the package, solvers on two machines may differ."""


def planted(case: Case, parameters: Parameters, golden: dict[str, Any]) -> Mechanism:
    """The mechanism, with the law of the file where solvers on two machines may differ."""
    made = case.at(parameters)
    solved = parameters.get("inner", case.name) in SOLVED
    return made.with_law(law_of(golden)) if solved else made


def test_the_words_are_what_they_always_were() -> None:
    words = json.loads((FOLDER / "words.json").read_text())["words"]
    assert words == [str(word) for word in all_words()]


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_reports_are_what_they_always_were(case: Case) -> None:
    golden = json.loads((FOLDER / f"{case}.json").read_text())
    assert len(golden) == len(case.golden)
    for parameters, file in zip(case.golden, golden, strict=True):
        assert vector(planted(case, parameters, file)) == file


@pytest.mark.parametrize("case", GOLDEN, ids=str)
def test_every_law_is_there_for_a_device_without_this_library(case: Case) -> None:
    golden = json.loads((FOLDER / f"{case}.json").read_text())
    for parameters, file in zip(case.golden, golden, strict=True):
        assert case.at(parameters).with_law(law_of(file)).fingerprint == file["fingerprint"]


def test_no_file_is_left_over() -> None:
    names = {path.stem for path in FOLDER.glob("*.json")}
    assert names == {
        *map(str, GOLDEN),
        "words",
        "refused",
        "protocol",
        "sentences",
        "losses",
        "chain",
        "hosts",
    }


# --- campaigns -----------------------------------------------------------------------------------


def answers(campaign: SurveyCampaign, person: int) -> dict[str, list[Any]]:
    """The answers of a person, some of them outside the range, some none."""
    return {
        q.name: [None]
        if q.missing and person % 3 == 2
        else [q.labels[person % len(q.labels)]]
        if q.labels
        else [q.range[0] + (person + 1) * (q.range[1] - q.range[0]) / 7]
        for q in campaign.questions
    }


def collection(campaign: SurveyCampaign) -> dict[str, Any]:
    """What a golden file says about a campaign."""
    people = []
    for person in range(8):
        start, levels = 128 * person, None
        if campaign.levels is not None:
            names = campaign.levels.names
            levels = [
                [names[(person + place) % len(names)] for place in range(len(campaign.questions))]
            ]
        columns = campaign.encode(answers(campaign, person), ScriptedRng(WORDS[start:]))
        rows = campaign.privatize(columns, ScriptedRng(WORDS[start:]), levels)
        people.append(
            {
                "answers": answers(campaign, person),
                "levels": levels,
                "word": start,
                "row": rows.tobytes().hex(),
                "entries": report.entries_of(campaign.form, rows[0]),
            }
        )
    return {"digest": campaign.digest, "collection": campaign.text, "people": people}


NAMES = sorted(path.stem for path in CAMPAIGNS.glob("*.toml"))


@pytest.mark.parametrize("name", NAMES)
def test_campaigns_and_digests_are_what_they_always_were(name: str) -> None:
    """A running collection goes on only as long as its digest is the same."""
    campaign = campaign_file.load(CAMPAIGNS / f"{name}.toml", SurveyCampaign)
    golden = json.loads((CAMPAIGNS / f"{name}.json").read_text())
    assert collection(campaign) == golden
    again = campaign_document.read(campaign_document.publish(campaign))
    assert again.digest == golden["digest"]
    assert collection(again)["people"] == golden["people"]


PLAIN = {
    "OPENBLAS_CORETYPE": "Nehalem",
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-AVX512F",
}
"""A processor without wide registers: sums of floats come out otherwise in the last bits."""
DIGEST = """
import sys
from murmuration.definition import load
print(load.load(sys.argv[1]).digest)
"""


@pytest.mark.parametrize("name", ["sample", "missing"])
def test_digests_are_the_same_on_another_processor(name: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", DIGEST, str(CAMPAIGNS / f"{name}.toml")]
    said = subprocess.run(command, env={**os.environ, **PLAIN}, capture_output=True, check=True)
    golden = json.loads((CAMPAIGNS / f"{name}.json").read_text())
    assert said.stdout.decode().strip() == golden["digest"]


def test_keys_at_their_default_are_left_out() -> None:
    campaign = campaign_file.load(CAMPAIGNS / "sample.toml")
    text = json.loads(campaign.text)
    assert not {"sample", "ends", "levels", "limit", "accept_loss", "rounds"} & set(text)
    assert "unit" not in text["attributes"][1]


# --- writing -------------------------------------------------------------------------------------


def lines(vectors: list[dict[str, Any]]) -> str:
    """Write JSON with a line for each key and each person."""
    texts = []
    for one in vectors:
        keys = [f'  "{key}": {_value(value)}' for key, value in one.items()]
        texts.append("{\n" + ",\n".join(keys) + "\n}")
    return "[" + ",\n".join(texts) + "]\n"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[\n" + ",\n".join(f"    {json.dumps(one)}" for one in value) + "\n  ]"
    return json.dumps(value)


def write_missing() -> None:
    words = [
        json.dumps([str(w) for w in all_words()[i : i + 8]])[1:-1] for i in range(0, STREAM + 4, 8)
    ]
    texts = {FOLDER / "words.json": lambda: '{"words": [\n' + ",\n".join(words) + "\n]}\n"}
    for case in GOLDEN:
        texts[FOLDER / f"{case}.json"] = lambda case=case: lines(
            [vector(mechanism(case.name, **parameters)) for parameters in case.golden]
        )
    for name in NAMES:
        campaign = campaign_file.load(CAMPAIGNS / f"{name}.toml")
        texts[CAMPAIGNS / f"{name}.json"] = lambda one=campaign: (
            lines([collection(one)])[1:-2] + "\n"
        )
    for path, text in texts.items():
        if not path.exists():
            path.write_text(text())
    for case in CASES:
        for parameters in case.golden:
            write_long(mechanism(case.name, **parameters))


def write_long(made: Mechanism) -> None:
    """Write a law that is too long for the file of its mechanism."""
    path, law = long_law(made.fingerprint), json.dumps(made.law(), separators=(",", ":"))
    if len(json.dumps(made.law())) >= LONG and not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(gzip.compress(law.encode(), mtime=0))


if __name__ == "__main__":
    write_missing()
