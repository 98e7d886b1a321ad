"""Golden vectors: the same words make the same reports, in every release and every language.

A file per mechanism in `golden/`: parameters and words and inputs, then the fingerprint of the
law, the reports, their bytes and the tally. Words are decimal strings, because JSON numbers stop
at 2^53. `python tests/test_golden.py` writes files for new mechanisms; it never changes one.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from cases import CASES, Case
from murmuration import Mechanism
from murmuration.exact.randomness import ScriptedRng, seeded_rng

FOLDER = Path(__file__).parent / "golden"
EPSILONS = (0.5, 1.0, 4.0)
INPUTS = [
    -1.0,
    1.0,
    0.0,
    -0.0,
    1 / 3,
    -0.7312,
    2.0**-40,
    1 - 2.0**-53,
    *np.linspace(-0.99, 0.97, 24),
]


def vector(mechanism: Mechanism) -> dict:
    # Random words, and the two extreme ones, which fall on the first and the last symbol.
    words = seeded_rng(2026).words(2 * len(INPUTS)).copy()
    words[:4] = [0, 0, 2**64 - 1, 2**64 - 1]
    reports = mechanism.privatize(INPUTS, ScriptedRng(words))
    return {
        "mechanism": mechanism.name,
        "parameters": mechanism.parameters,
        "fingerprint": mechanism.fingerprint,
        "words": [str(word) for word in words.tolist()],
        "inputs": [float(x) for x in INPUTS],
        "reports": reports.tolist(),
        "bytes": mechanism.pack(reports).hex(),
        "tally": {str(s): int(c) for s, c in enumerate(mechanism.tally(reports).counts) if c},
    }


@pytest.mark.parametrize("case", CASES, ids=str)
def test_reports_are_what_they_always_were(case: Case) -> None:
    golden = json.loads((FOLDER / f"{case}.json").read_text())
    assert [json.loads(json.dumps(vector(case.at(epsilon)))) for epsilon in EPSILONS] == golden


def write_missing() -> None:
    FOLDER.mkdir(exist_ok=True)
    for case in CASES:
        path = FOLDER / f"{case}.json"
        if not path.exists():
            vectors = [vector(case.at(epsilon)) for epsilon in EPSILONS]
            path.write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    write_missing()
