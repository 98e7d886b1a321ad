"""`murmuration.testing`: a researcher's own mechanism, mistakes in it, and what is said of them."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from murmuration.errors import ContractError, ParameterError
from murmuration.exact.randomness import seeded_rng
from murmuration.mechanisms.item.grr import Grr
from murmuration.mechanisms.item.olh import Olh
from murmuration.mechanisms.number.base import ramp
from murmuration.mechanisms.number.duchi import Duchi
from murmuration.testing import CHECKS, check_mechanism, name_of
from tests.docs.test_readme import blocks
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "own-mechanism.md"


def shown() -> tuple[dict[str, Any], str]:
    """What the page's Python defines and prints."""
    defined: dict[str, Any] = {"__name__": "page"}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile("\n".join(blocks(PAGE, "python")), PAGE.name, "exec"), defined)  # noqa: S102
    return defined, out.getvalue()


def test_the_mechanism_of_the_page_holds_and_its_mistake_is_said() -> None:
    defined, printed = shown()
    for epsilon, k in ((0.3, 2), (3.0, 40)):
        check_mechanism(defined["OwnOrAny"](epsilon=epsilon, k=k))
    check_mechanism(defined["ThreeAnswers"](epsilon=3.0))
    assert printed.startswith("1.000000 of 1.0, n MSE 11.43\n")
    assert (
        "AnyOther(epsilon=1.0, k=5) breaks the contract of a mechanism (3 of 13 checks):" in printed
    )
    assert "\n  loss: the sampler does not keep to the law" in printed
    assert "\n  unbiased: figure " in printed


def test_every_check_is_on_the_page() -> None:
    text = PAGE.read_text()
    assert all(f"\n| `{name_of(check)}` | " in text for check in CHECKS)


# --- mistakes ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TooOften(Duchi):
    def build(self):
        return ramp(1, self.epsilon + 0.01)


@dataclass(frozen=True)
class TooMuchNoise(Duchi):
    def build(self):
        return ramp(1, self.epsilon - 0.01)


@dataclass(frozen=True)
class TakesEveryLaw(Grr):
    def with_law(self, law):
        return self


@dataclass(frozen=True)
class TextTooLarge(Grr):
    def law(self):
        return {"truth": self.truth * 8, "lie": self.lie}


@dataclass(frozen=True)
class OneByteShort(Grr):
    def to_rows(self, reports):
        return super().to_rows(reports)[:, :0]


@dataclass(frozen=True)
class TakesTheNextSymbol(Grr):
    def possible(self, reports):
        return np.asarray((reports >= 0) & (reports <= self.symbols))


@dataclass(frozen=True)
class SameForAll(Grr):
    def respond(self, items, rng):
        return np.sort(super().respond(items, rng))


@dataclass(frozen=True)
class HashOfTheAnswer(Olh):
    def respond(self, items, rng):
        reports = super().respond(items, rng).copy()
        reports[:, 0] ^= np.asarray(items).astype(np.uint8) & 1
        return reports


@dataclass(frozen=True)
class HiddenCoin(Grr):
    def respond(self, items, rng):
        rng.public().words(len(items))
        return super().respond(items, rng)


@dataclass(frozen=True)
class OwnGenerator(Grr):
    def respond(self, items, rng):
        return super().respond(items, seeded_rng(1))


@dataclass(frozen=True)
class CountsTwice(Grr):
    def count(self, reports):
        return 2 * super().count(reports)


@dataclass(frozen=True)
class TooSmallAnError(Grr):
    def estimate(self, tally, about="participants", everybody=None):
        found = super().estimate(tally, about, everybody)
        return replace(found, value=found.value + 0.02)


@dataclass(frozen=True)
class AnotherVariance(Duchi):
    def variance(self, x):
        return 1.1 * super().variance(x)


ITEMS = {"epsilon": 1.0, "k": 6}
MISTAKES = [
    (TooOften(epsilon=1.0), "loss", "the exact loss is 1.0"),
    (TooMuchNoise(epsilon=1.0), "budget_is_used", "more noise than needed"),
    (TextTooLarge(**ITEMS), "document", "whole numbers below 2^53"),
    (TakesEveryLaw(**ITEMS), "another_law", "a law whose 'truth' is changed must be refused"),
    (OneByteShort(**ITEMS), "wire", ""),
    (TakesTheNextSymbol(**ITEMS), "refusals", "must be refused with ReportError; got ValueError"),
    (SameForAll(**ITEMS), "each_person_alone", "sends another report than alone"),
    (HashOfTheAnswer(**ITEMS), "public_coins", "must follow from rng.public() alone"),
    (HiddenCoin(**ITEMS), "public_coins", "`public_part` says that reports show no coins"),
    (OwnGenerator(**ITEMS), "fresh_randomness", "the same in two runs"),
    (CountsTwice(**ITEMS), "tallies", ""),
    (TooSmallAnError(**ITEMS), "unbiased", "standard errors"),
    (AnotherVariance(epsilon=1.0), "variance", "simulated reports have"),
]


@pytest.mark.parametrize(
    ("mechanism", "check", "words"), MISTAKES, ids=[type(one).__name__ for one, *_ in MISTAKES]
)
def test_a_mistake_is_named_with_the_check_that_sees_it(mechanism, check, words) -> None:
    with pytest.raises(ContractError, match="breaks the contract of a mechanism") as told:
        check_mechanism(mechanism)
    lines = [line for line in str(told.value).splitlines() if line.startswith(f"  {check}: ")]
    assert lines, str(told.value)
    assert words in lines[0], lines


def test_a_check_can_be_left_out() -> None:
    check_mechanism(TooMuchNoise(epsilon=1.0), skip=["budget_is_used"])
    with pytest.raises(ParameterError, match="no check is called budget; there are loss, "):
        check_mechanism(TooMuchNoise(epsilon=1.0), skip=["budget"])


@dataclass(frozen=True)
class TooSure(Duchi):
    def estimate(self, tally, about="participants", everybody=None):
        found = super().estimate(tally, about, everybody)
        return replace(found, stderr=0.8 * found.stderr)


@pytest.mark.slow
def test_coverage_is_checked_when_it_is_asked_for() -> None:
    check_mechanism(Duchi(epsilon=1.0), coverage_runs=200)
    with pytest.raises(ContractError, match=r"\n  coverage: 90% intervals about the .* cover only"):
        check_mechanism(TooSure(epsilon=1.0), coverage_runs=200)


def test_it_needs_no_pytest() -> None:
    text = (
        "import sys; sys.modules['pytest'] = None\n"
        "from murmuration import mechanism\n"
        "from murmuration.testing import check_mechanism\n"
        "check_mechanism(mechanism('duchi', epsilon=1.0))"
    )
    subprocess.run([sys.executable, "-c", text], check=True, timeout=60)
