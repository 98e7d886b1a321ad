"""No answer is an answer: one more input of the law, as well protected, and figures without it."""

from __future__ import annotations

import csv
import json
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration import Mechanism, mechanism, seeded_rng, system_rng
from murmuration.analysis import answered, combine, read
from murmuration.campaign.question import Question
from murmuration.campaign.review import review
from murmuration.campaign.survey import SurveyCampaign
from murmuration.definition import document as campaign_document
from murmuration.definition.load import parse
from murmuration.errors import (
    CampaignError,
    FormatError,
    InputError,
    MismatchError,
    ParameterError,
)
from murmuration.exact.exponential import within
from murmuration.exact.loss import PairwiseLoss
from murmuration.exact.randomness import ScriptedRng
from murmuration.mechanisms.domain import Items, NumberOrNone
from murmuration.mechanisms.number import base as number_base
from murmuration.mechanisms.number.or_none import OrNone, quiet_budgets
from murmuration.mechanisms.registry import from_document, to_document
from murmuration.results.estimate import About, AnsweredEstimate
from tests.support import collectors, command
from tests.support.cases import LAYOUTS, MISSING

CANARY = "31.415926"
HEAD = 'name = "x"\npurpose = "y"\nepsilon = 2.0\ncohort = 100\n'
AGE = '[[attributes]]\nname = "age"\nlow = 18\nhigh = 98\nmissing = true\n'
PHONE = (
    '[[attributes]]\nname = "phone"\nkind = "category"\nlabels = ["android", "ios", "other"]\n'
    "missing = true\n"
)
LAWS = [
    *(OrNone(epsilon, inner) for inner in ("duchi", "optimal") for epsilon in (0.5, 1.0, 4.0)),
    *(OrNone(2.0, inner) for inner in ("piecewise", "dithered", "square-wave", "laplace")),
    *(
        OrNone(epsilon=layout["epsilon"], inner=inner, settings=tuple(rest.items()))
        for layout in LAYOUTS
        for inner in ("graded-bit", "graded-optimal")
        for rest in [{key: value for key, value in layout.items() if key != "epsilon"}]
    ),
]


# --- the law -------------------------------------------------------------------------------------


def rows_of(law: OrNone) -> list[list[Fraction]]:
    """The probabilities of every report, a row per grid point and one for no answer: from JSON."""
    published = json.loads(json.dumps(law.law()))
    whole, hush, none = 1 << 52, published["hush"], published["none"]
    (total,) = {sum(row) for row in published["weights"]}
    rows = [
        [Fraction((whole - hush) * w, whole * total) for w in row] + [Fraction(hush, whole)]
        for row in published["weights"]
    ]
    return [*rows, [Fraction(weight, whole) for weight in none]]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_the_published_integers_have_the_loss_that_is_claimed(law: OrNone) -> None:
    """Written down a second time: all pairs of inputs, no answer among them, in fractions."""
    rows = rows_of(law)
    assert all(sum(row) == 1 for row in rows)
    worst = max(
        max(column) / min(column) for column in zip(*rows, strict=True)
    )  # no report gives anybody away: no weight is 0
    assert law.loss().ratio == worst
    assert law.loss().holds
    assert within(worst, law.budget)
    if isinstance(law.loss(), PairwiseLoss):
        check_matrix(law, rows)


def check_matrix(law: OrNone, rows: list[list[Fraction]]) -> None:
    """The row of no answer: against each range its own budget, that of the most private range."""
    loss = law.loss()
    assert isinstance(loss, PairwiseLoss)
    ranges = [*law.inside.range_rows(), [len(rows) - 1]]  # type: ignore[attr-defined]
    for g, own in enumerate(ranges[:-1]):
        pairs = [(rows[x], rows[-1]) for x in own]
        found = max(max(a / b, b / a) for x, y in pairs for a, b in zip(x, y, strict=True))
        assert loss.ratios[g][-1] == loss.ratios[-1][g] == found
        assert within(found, loss.budgets[g][-1])
    assert loss.budgets[-1][:-1] == quiet_budgets(law.inside.budgets)  # type: ignore[attr-defined]


def test_no_answer_has_the_budget_of_the_most_private_range() -> None:
    assert quiet_budgets(((2.0, 2.0, 2.0), (2.0, 0.5, 1.0), (2.0, 1.0, 1.0))) == (2.0, 0.5, 1.0)
    assert quiet_budgets(((0.5, 0.5), (0.5, 3.0))) == (0.5, 0.5)
    matrix = ((1.0, 0.6, 2.5), (0.6, 0.4, 0.9), (2.5, 0.9, 3.0))
    assert quiet_budgets(matrix) == (0.6, 0.4, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_sums_and_shares_are_read_without_bias(law: OrNone) -> None:
    """P @ readings is x and 1 at every grid point, 0 and 0 for no answer."""
    points = law.inside.design.grid.points
    found = law.probabilities @ law.readings.T
    assert np.abs(found[:-1, 0] - points).max() < 1e-9
    assert np.abs(found[:-1, 1] - 1).max() < 1e-9
    assert np.abs(found[-1]).max() < 1e-9
    assert np.allclose(law.probabilities, [[float(p) for p in row] for row in rows_of(law)])


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 3.0, 10.0, 20.0])
def test_around_one_bit_it_is_randomised_response_on_three_symbols(epsilon: float) -> None:
    law, grr = OrNone(epsilon, "duchi"), mechanism("grr", epsilon=epsilon, k=3)
    found = np.array([[float(p) for p in row] for row in rows_of(law)])
    assert np.allclose(found, grr.channel(), rtol=1e-6, atol=0)  # type: ignore[attr-defined]


def test_everybody_draws_three_words_answer_or_not() -> None:
    """How many are drawn would tell; with fewer the script says so, with more some are left."""
    law = OrNone(1.0, "optimal")
    for value in (-1.0, 0.3, math.nan):
        rng = ScriptedRng([1 << 63] * 4)
        law.privatize([value], rng)
        assert len(rng.words(1)) == 1  # one of four is left
        with pytest.raises(Exception, match="script holds 2 words"):
            law.privatize([value], ScriptedRng([0, 0]))


def test_a_device_builds_no_table() -> None:
    """The inner table is in the document: what follows from it is worked out, nothing is solved."""
    document = json.loads(json.dumps(to_document(OrNone(1.0, "optimal"))))
    number_base._built.cache_clear()
    again = from_document(document)
    again.privatize([0.5, math.nan], system_rng())
    assert again.loss().holds
    assert number_base._built.cache_info().misses == 0
    for key, value in (("hush", 7), ("none", [0]), ("none", "many"), ("none", [1.0, 2.0])):
        with pytest.raises(MismatchError):
            from_document({**document, "law": {**document["law"], key: value}})


def test_a_table_that_leaks_is_refused_before_anything_follows_from_it() -> None:
    """Its rows are so far apart that no answer would have to say more than all there is."""
    whole = 1 << 52
    document = to_document(OrNone(0.1, "duchi"))
    odd = {"weights": [[whole - 1, 1], [1, whole - 1]], "values": [-1.0, 1.0]}
    with pytest.raises(FormatError, match="breaks its promise"):
        from_document({**document, "law": {**document["law"], **odd}})
    sure = {"weights": [[whole, 0], [0, whole]], "values": [-1.0, 1.0]}
    with pytest.raises(FormatError, match="breaks its promise"):
        from_document({**document, "law": {**document["law"], **sure}})


def test_no_answer_has_bytes_of_its_own() -> None:
    written = NumberOrNone().written(np.array([math.nan, -0.0, 1.0]))
    assert written[0].tobytes() == np.array(2.0, "<f8").tobytes()
    assert written[1].tobytes() == bytes(8)
    odd = np.array([0xFFF8000000000123], dtype=np.uint64).view(np.float64)  # another nan
    assert NumberOrNone().written(odd).tobytes() == written[0].tobytes()
    assert Items(4).written(np.array([3])).tobytes() == np.array(3, "<i8").tobytes()


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"inner": "grr"}, "parameters are"),
        ({"inner": "or-none"}, "not itself"),
        ({"inner": "dct"}, "keeps its promise"),
        ({"inner": "nothing"}, "no mechanism"),
        ({"inner": "piecewise", "settings": (("epsilon", 2.0),)}, "besides epsilon"),
        ({"inner": "piecewise", "settings": 7}, "pairs"),
        ({"inner": "piecewise", "settings": (("q", 1),)}, "parameters are"),
    ],
)
def test_what_it_does_not_go_around(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        OrNone(epsilon=1.0, **parameters)


def test_equal_laws_are_equal() -> None:
    short = OrNone((1.0, 0.5), "graded-bit", (("edges", (0.25,)),))
    long = OrNone((1.0, 0.5), "graded-bit", (("edges", (-1.0, 0.25, 1.0)),))
    assert short == long
    assert short.fingerprint == long.fingerprint


# --- questions -----------------------------------------------------------------------------------

NUMBER = Question("age", low=0, high=100, missing=True)
CATEGORY = Question("phone", kind="category", labels=("android", "ios"), missing=True)


def nothings() -> list[Any]:
    pandas = pytest.importorskip("pandas")
    return [
        *(None, math.nan, "", np.float64("nan"), Decimal("nan"), np.ma.masked),
        *(pandas.NA, pandas.NaT, np.datetime64("NaT")),
    ]


def test_nothing_of_any_kind_is_no_answer() -> None:
    """Before: TypeError, a silent device, or for a category a label by chance."""
    for nothing in nothings():
        assert np.isnan(NUMBER.encode([nothing, 50], system_rng())).tolist() == [True, False]
        assert CATEGORY.encode([nothing, "ios"], system_rng()).tolist() == [2, 1]
        for question in (NUMBER, CATEGORY):
            assert question.answered([nothing]).tolist() == [False]
    masked = np.ma.array([30.0, 40.0], mask=[True, False])
    assert np.isnan(NUMBER.encode(masked, system_rng())).tolist() == [True, False]
    pandas = pytest.importorskip("pandas")
    column = pandas.array([30, None], dtype="Int64")
    assert np.isnan(NUMBER.encode(column, system_rng())).tolist() == [False, True]


def test_what_does_not_fit_is_no_answer_unless_the_file_says_what_it_is() -> None:
    assert np.isnan(NUMBER.encode(["old", 1j, [3], "30"], system_rng())).tolist() == [1, 1, 1, 0]
    assert np.isnan(NUMBER.encode([-5, 105, 50], system_rng())).tolist() == [True, True, False]
    assert NUMBER.answered([-5, 50]).tolist() == [False, True]
    clamped = Question("age", low=0, high=100, missing=True, outside="clamp")
    assert clamped.encode([-5, 105], system_rng()).tolist() == [-1, 1]
    assert CATEGORY.encode(["nokia"], system_rng()).tolist() == [2]
    other = Question("phone", "category", labels=("a", "b"), missing=True, outside="b")
    assert other.encode(["nokia", None], system_rng()).tolist() == [1, 2]
    spread = Question("phone", "category", labels=("a", "b"), missing=True, outside="spread")
    found = spread.encode(["nokia"] * 50 + [None], seeded_rng(1))
    assert set(found[:-1].tolist()) == {0, 1}
    assert found[-1] == 2


@pytest.mark.parametrize("missing", [False, True])
def test_numbers_of_any_size_are_clamped(missing: bool) -> None:
    """10^309 was a bare OverflowError, with nothing sent."""
    age = Question("age", low=0, high=100, missing=missing, outside="clamp")
    huge = [10**309, -(10**309), Fraction(10**400), Decimal("-1e999"), "1e400", 25]
    assert age.encode(huge, system_rng()).tolist() == [1, -1, 1, -1, 1, -0.5]
    assert age.encode(10**309, system_rng()).tolist() == [1]
    assert age.answered(huge).all()
    strict = Question("age", low=0, high=100, outside="refuse")
    with pytest.raises(InputError, match="outside the range 0 to 100"):
        strict.encode([10**309], system_rng())


@pytest.mark.parametrize("values", [[31.415926, None], [CANARY, "old"], [None, math.nan]])
def test_without_missing_it_is_refused_and_says_what_to_do(values: list[Any]) -> None:
    for question in (
        Question("age", low=0, high=100),
        Question("phone", "category", labels=("a", CANARY)),
    ):
        if question.answered(values).all():  # "old" is a label by chance
            continue
        with pytest.raises(InputError, match="missing = true") as refused:
            question.encode(values, system_rng())
        assert CANARY not in str(refused.value)
    with pytest.raises(InputError, match="missing = true"):
        Question("age", low=0, high=100).no_answers(1)


def test_names_may_be_left_out() -> None:
    campaign = parse(HEAD + AGE + PHONE + '[[attributes]]\nname = "plain"\nlow = 0\nhigh = 1\n')
    for answers in ({"plain": [0, 1]}, {"plain": [0, 1], "age": None, "phone": [None, ""]}):
        age, phone, plain = campaign.encode(answers, system_rng())
        assert np.isnan(age).all()
        assert phone.tolist() == [3, 3]
        assert plain.tolist() == [-1, 1]
    for absent in ({"age": [30]}, {"age": [30], "plain": None}):
        with pytest.raises(InputError, match=r"no answer for plain.*missing = true"):
            campaign.encode(absent, system_rng())
    with pytest.raises(InputError, match="the same length"):
        campaign.encode({"plain": [0, 1], "age": [3]}, system_rng())
    both = parse(HEAD + AGE + PHONE)
    assert [len(column) for column in both.encode({}, system_rng())] == [1, 1]


# --- campaign files ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('strategy = "harmony"\n' + AGE + PHONE, 10, "no law for no answer"),
        ('strategy = "sampled"\n' + AGE + PHONE, 10, "use sample or split"),
        (AGE + 'outside = "refuse"\n', 10, "every device reports"),
        (AGE.replace("missing = true", 'outside = "no answer"'), 9, "'clamp' or 'refuse'"),
        (AGE.replace("true", '"yes"'), 9, "missing is true or false"),
        (PHONE.replace('"other"', '"no answer"'), 8, "reserved for missing"),
        (PHONE.replace('"other"', '"answered"'), 8, "reserved for missing"),
        (AGE + 'mechanism = "dct"\n', 9, "breaks its promise"),
        (AGE + 'mechanism = "or-none"\n', 10, "is not for a number"),
        (AGE + 'mechanism = "grr"\n', 10, "is not for a number"),
        (AGE.replace("missing", "mising"), 9, "missing is meant"),
    ],
)
def test_mistakes_have_their_line(text: str, line: int, words: str) -> None:
    with pytest.raises(CampaignError, match=words) as refused:
        parse(HEAD + text)
    assert refused.value.line == line


def test_a_campaign_without_missing_has_the_digest_that_it_had() -> None:
    text = HEAD + AGE + PHONE
    plain = parse(text.replace("missing = true\n", ""))
    assert "missing" not in plain.text
    assert plain.digest == parse(text.replace("missing = true", "missing = false")).digest
    assert plain.digest != parse(text).digest


def test_a_limit_pays_for_no_answer_too() -> None:
    """With less, everybody could say "no answer" only."""
    head = HEAD.replace("2.0", "1.0") + "lifetime = {}\n" + PHONE
    text = head + "[repeat]\npermanent = 3.0\nrounds = 2\n"
    assert parse(text.format("6.0")).limit == 6
    with pytest.raises(CampaignError, match="a report costs at least 6"):
        parse(text.format("5.9"))


def test_one_law_for_tuples_is_refused_in_a_document_too() -> None:
    plain = (HEAD + AGE + PHONE).replace("missing = true\n", "")
    campaign = parse(plain.replace("cohort", 'strategy = "harmony"\ncohort'))
    with pytest.raises(ParameterError, match="sample or split"):
        SurveyCampaign(
            campaign.name,
            campaign.terms,
            (NUMBER, campaign.questions[1]),
            campaign.frame,
            campaign.epsilon,
        )


def test_a_law_that_knows_no_answer_is_not_for_such_a_question() -> None:
    plain = parse((HEAD + AGE).replace("missing = true\n", ""))
    with pytest.raises(ParameterError, match="does not take the answers"):
        SurveyCampaign("x", plain.terms, (NUMBER,), plain.frame, 2.0)


# --- figures -------------------------------------------------------------------------------------

KINDS = {
    "sample": HEAD + AGE + PHONE + '[[attributes]]\nname = "plain"\nlow = 0\nhigh = 1\n',
    "split": HEAD + 'strategy = "split"\n' + AGE + PHONE,
    "levels": HEAD + AGE + PHONE + "[levels]\nhigh = 0.5\nlow = 1\n",
    "graded": HEAD
    + AGE
    + 'kind = "graded"\nedges = [60]\nbudgets = [2.0, 1.0]\nmechanism = "graded-bit"\n',
    "distribution": HEAD + AGE + 'kind = "distribution"\nbins = 8\n',
    "repeat": HEAD.replace("2.0", "1.0") + PHONE + "[repeat]\npermanent = 3.0\nrounds = 2\n",
}


def people(n: int, seed: int) -> dict[str, list[Any]]:
    """Older people and users of "other" answer less often: it must not matter."""
    draw = np.random.default_rng(seed)
    age = 18 + 80 * draw.beta(2, 5, n)
    phone = draw.choice(["android", "ios", "other"], n, p=[0.5, 0.3, 0.2])
    gone = draw.random(n) < np.where(age > 45, 0.5, 0.2)
    silent = draw.random(n) < np.where(phone == "other", 0.6, 0.1)
    return {
        "age": [None if g else float(a) for a, g in zip(age, gone, strict=True)],
        "phone": ["" if s else str(p) for p, s in zip(phone, silent, strict=True)],
        "plain": draw.random(n).tolist(),
    }


def truths(answers: dict[str, list[Any]]) -> dict[tuple[str, str], float]:
    ages = [age for age in answers["age"] if age is not None]
    phones = [phone for phone in answers["phone"] if phone]
    n = len(answers["age"])
    return {
        ("age", "answered"): len(ages) / n,
        ("age", "mean"): float(np.mean(ages)),
        ("phone", "answered"): len(phones) / n,
        **{
            ("phone", label): phones.count(label) / len(phones)
            for label in ("android", "ios", "other")
        },
        ("plain", "mean"): float(np.mean(answers["plain"])),
    }


@pytest.mark.parametrize("about", ["participants", "population"])
@pytest.mark.parametrize("kind", KINDS)
def test_figures_are_about_those_who_answered(kind: str, about: str) -> None:
    """From the published document to figures: each within 4.5 standard errors of the truth."""
    campaign = campaign_document.read(campaign_document.publish(parse(KINDS[kind])))
    answers, rng = people(30_000, 3), seeded_rng(5)
    names = [question.name for question in campaign.questions]
    columns = campaign.encode({name: answers[name] for name in names}, rng)
    levels = np.arange(30_000) % 2 if campaign.levels is not None else None
    rows = campaign.privatize(columns, rng, levels)
    figures = read.figures(campaign, campaign.tally(rows), about)
    wanted, seen = truths(answers), set()
    for figure in figures:
        if figure.stderr is None:
            continue  # a bin
        seen.add((figure.attribute, figure.item))
        error = figure.value - wanted[figure.attribute, figure.item]
        assert abs(error) < 4.5 * figure.stderr, figure
        assert figure.low < figure.value < figure.high
        plain = kind == "levels" and figure.attribute != "plain"
        assert (combine.PLAIN in figure.note) == plain
        among = figure.item != "answered" and figure.attribute != "plain"
        assert ("among those who answered" in figure.note) == among
    assert seen == {key for key in wanted if key[0] in names}
    bins = [figure for figure in figures if figure.stderr is None]
    if kind == "distribution":
        assert sum(figure.value for figure in bins) == pytest.approx(1)
        ages = [age for age in answers["age"] if age is not None]
        shares = np.histogram(ages, 8, (18, 98))[0] / len(ages)
        assert np.abs(shares - [figure.value for figure in bins]).sum() < 0.2
        assert all("among those who answered" in figure.note for figure in bins)


def test_the_cohort_counts_those_who_were_asked() -> None:
    campaign = parse(KINDS["split"].replace("cohort = 100", "cohort = 1000"))
    rng = seeded_rng(1)
    for n, shown in ((999, 0), (1000, 2 + 4)):
        columns = campaign.encode({"age": [None] * n, "phone": ["ios"] * n}, rng)
        tallies = campaign.tally(campaign.privatize(columns, rng))
        assert len(read.figures(campaign, tallies)) == shown


def test_where_nobody_answered_there_is_no_interval_and_it_says_so() -> None:
    campaign = parse(KINDS["split"])
    rng = seeded_rng(4)
    columns = campaign.encode({"age": [None] * 2000, "phone": [None] * 2000}, rng)
    figures = read.figures(campaign, campaign.tally(campaign.privatize(columns, rng)))
    shares = [figure for figure in figures if figure.item == "answered"]
    assert all(figure.low <= 0 <= figure.high for figure in shares)
    rest = [figure for figure in figures if figure.item != "answered"]
    assert len(rest) == 4
    for figure in rest:
        assert (figure.low, figure.high, figure.stderr) == (None, None, None)
        assert "too few answered" in figure.note
        assert math.isfinite(figure.value)


def test_an_interval_without_ends() -> None:
    one = np.ones(1)
    lost = AnsweredEstimate(one, one, 0.1, 0.01, 0 * one, 50, 1.0, About.PARTICIPANTS)
    assert not lost.bounded()
    assert [end.tolist() for end in lost.among_interval()] == [[-math.inf], [math.inf]]
    assert lost.bounded(0.5)
    assert np.isfinite(lost.among_interval(0.5)).all()
    nobody = AnsweredEstimate(one, one, -0.1, 0.01, 0 * one, 50, 1.0, About.PARTICIPANTS)
    assert nobody.among_stderr.tolist() == [math.inf]
    assert not nobody.bounded(0.01)


def hits(law: Mechanism, values: Any, truth: np.ndarray, runs: int, seed: int) -> np.ndarray:
    """How often the interval of each figure among those who answered, and of N, is right."""
    rng, found = seeded_rng(seed), np.zeros(len(truth))
    for _ in range(runs):
        tally = law.tally(law.privatize(values, rng))
        part = answered.estimated([tally], "participants", tally.n)
        low, high = part.among_interval()
        least, most = part.interval()
        low, high = np.append(low, least[-1]), np.append(high, most[-1])
        found += (low <= truth) & (truth <= high)
    return found / runs


RUNS = 400
CROWDS = [(2000, 0.05), (2000, 0.6), (20_000, 0.3)]
"""People, and the share of them without an answer."""
SLACK = 4 * math.sqrt(0.95 * 0.05 / RUNS)


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize(("n", "share"), CROWDS)
def test_coverage_of_a_mean_among_those_who_answered(n: int, epsilon: float, share: float) -> None:
    draw = np.random.default_rng(11)
    values = np.where(draw.random(n) < share, math.nan, 2 * draw.beta(2, 5, n) - 1)
    truth = np.array([np.nanmean(values), np.mean(~np.isnan(values))])
    found = [hits(OrNone(epsilon, inner), values, truth, RUNS, 7) for inner in ("optimal", "duchi")]
    assert np.abs(np.array(found) - 0.95).max() < SLACK, found
    assert 0.93 < np.mean(found) < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [1.0, 2.0, 4.0])
@pytest.mark.parametrize(
    ("name", "n", "share"),
    [
        (name, n, share)
        for name in ("grr", "subset", "oue", "projective")
        for n, share in CROWDS
        if n == 2000 or name == "grr"
    ],
)
def test_coverage_of_shares_among_those_who_answered(
    name: str, n: int, epsilon: float, share: float
) -> None:
    draw = np.random.default_rng(12)
    labels = np.minimum(draw.geometric(0.4, n) - 1, 4)
    values = np.where(draw.random(n) < share, 5, labels)
    counts = np.bincount(values, minlength=6) / n
    truth = np.append(counts[:5], (1 - counts[5]) ** 2) / (1 - counts[5])
    found = hits(mechanism(name, epsilon=epsilon, k=6), values, truth, RUNS, 8)
    assert np.abs(found - 0.95).max() < SLACK, found
    assert 0.93 < found.mean() < 0.97


@pytest.mark.slow
@pytest.mark.parametrize("everybody", [None, 8000])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_coverage_about_those_from_whom_people_were_drawn(
    epsilon: float, everybody: int | None
) -> None:
    """About the population, and about everybody where an attribute is asked of a part of them."""
    draw, n, rng = np.random.default_rng(13), 2000, seeded_rng(9)
    size = everybody or 400_000
    crowd = np.where(draw.random(size) < 0.3, math.nan, 2 * draw.beta(2, 5, size) - 1)
    truth, law = np.nanmean(crowd), OrNone(epsilon, "optimal")
    about = "participants" if everybody else "population"
    found = 0
    for _ in range(RUNS):
        drawn = draw.choice(crowd, n, replace=everybody is None)
        part = answered.estimated([law.tally(law.privatize(drawn, rng))], about, size)
        low, high = part.among_interval()
        found += bool(low[0] <= truth <= high[0])
    assert abs(found / RUNS - 0.95) < SLACK


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.3, 0.998])
@pytest.mark.parametrize("epsilon", [6.0, 10.0, 20.0])
@pytest.mark.parametrize("n", [300, 2000])
def test_coverage_where_nearly_all_reports_agree(n: int, epsilon: float, share: float) -> None:
    """Everybody at one end, at a large epsilon: the error must not vanish."""
    values = np.where(np.arange(n) < share * n, math.nan, 1.0)
    truth = np.array([1.0, np.mean(~np.isnan(values))])
    for inner in ("duchi", "piecewise"):
        found = hits(OrNone(epsilon, inner), values, truth, 120, 7)
        assert found.min() > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 120), (inner, found)


@pytest.mark.slow
def test_two_items_lean_against_each_other_as_they_say() -> None:
    """The covariance of two shares' noise, worked out and simulated."""
    for name in ("grr", "subset", "projective", "oue"):
        law = mechanism(name, epsilon=1.5, k=5)
        values, rng = np.repeat(np.arange(5), [500, 300, 200, 0, 0]), seeded_rng(3)
        runs = np.array(
            [law.estimate(law.tally(law.privatize(values, rng))).value for _ in range(1500)]
        )
        found = 1000 * np.cov(runs.T)
        shares = np.array([0.5, 0.3, 0.2, 0, 0])
        wanted = law.noise_covariance(shares[:, None], shares)  # type: ignore[attr-defined]
        scale = np.sqrt(np.outer(np.diag(found), np.diag(found)) / 1500)
        off = ~np.eye(5, dtype=bool)
        assert np.abs((found - wanted) / scale)[off].max() < 4.5, name


# --- commands ------------------------------------------------------------------------------------

SILENT = """
name = "silent"
purpose = "What silence tells"
epsilon = 1.0
[repeat]
permanent = 2.0
rounds = 9
values = 3
[[attributes]]
name = "phone"
kind = "category"
labels = ["android", "ios"]
outside = "refuse"
"""


def test_check_says_what_silence_would_tell() -> None:
    (phone,) = review(parse(SILENT)).asked
    said = " | ".join(phone.silence)
    assert "tells that the answer is outside" in said
    assert "missing = true makes no answer an answer" in said
    assert "pays for 3 different values" in said
    assert "silent for good" in said
    (spoken,) = review(parse(SILENT.replace('outside = "refuse"', "missing = true"))).asked
    assert "nobody needs to be silent" in spoken.silence[0]
    assert "pays for 3 different values" in spoken.silence[1]
    assert "goes on with no answer" in spoken.silence[1]
    some = SILENT.replace('outside = "refuse"', "missing = true")
    some += PHONE.replace("phone", "tablet").replace("missing = true\n", "")
    assert "silent for good" in review(parse(some)).asked[0].silence[1]
    age, phone, plain = review(parse(KINDS["sample"])).asked
    assert "protected as any other" in age.silence[0]
    assert "its other answers are lost too" in plain.silence[0]
    assert age.laws[0].certain < age.laws[0].stderr < 2 * age.laws[0].certain
    assert phone.laws[0].certain < phone.laws[0].stderr
    assert plain.laws[0].certain == plain.laws[0].stderr


@pytest.mark.slow
def test_the_expected_error_is_what_comes_out_where_all_answer() -> None:
    campaign = parse(HEAD + AGE)
    (age,) = review(campaign).asked
    rng, n = seeded_rng(2), campaign.terms.people
    columns = campaign.encode({"age": [58] * n}, rng)
    tallies = campaign.tally(campaign.privatize(columns, rng))
    (mean,) = [figure for figure in read.figures(campaign, tallies) if figure.item == "mean"]
    assert 0.6 * age.laws[0].stderr < mean.stderr < 1.05 * age.laws[0].stderr


@pytest.mark.slow
def test_check_prints_silence_and_what_missing_costs(tmp_path: Path) -> None:
    (tmp_path / "campaign.toml").write_text(KINDS["sample"])
    text = command.murmur("check", folder=tmp_path).stdout
    assert "What silence would tell" in text
    assert "plain: without an answer a device sends nothing" in text
    assert "age: missing = true costs accuracy" in text
    found = json.loads(command.murmur("check", "--json", folder=tmp_path).stdout)
    age = found["attributes"][0]
    assert age["missing"]
    assert age["laws"][0]["mechanism"] == "optimal-sampled or none"
    assert age["laws"][0]["stderr_if_none_missing"] < age["laws"][0]["stderr"]


@pytest.mark.slow
def test_send_keeps_people_with_a_missing_answer_and_counts_them(tmp_path: Path) -> None:
    """Before, one missing answer of two lost the whole row."""
    rows = [["30", "ios"], ["", "ios"], ["old", "android"], ["40", ""], ["", ""], [CANARY, "nokia"]]
    with (tmp_path / "people.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["age", "phone"], *rows * 50])
    text = KINDS["split"].replace('name = "x"', 'name = "missing"')
    with collectors.running(tmp_path / "store.db", text) as collector:
        url = collector.collection("missing").url
        send = ("send", url, "people.csv", "--allow-misfits", "0.3")
        done = command.murmur(*send, "--json", folder=tmp_path)
        found = json.loads(done.stdout)
        assert (found["stored"], found["skipped"], found["skipped_by"]) == (300, 0, {})
        assert found["no_answer"] == {"age": 150, "phone": 150}
        assert CANARY not in done.stdout + done.stderr
        shown = command.murmur(*send, folder=tmp_path).stdout
        assert "no answer, sent as such: age 150, phone 150" in shown


def test_every_case_has_a_missing_person() -> None:
    """The crowd that the contract tries these laws on has people without an answer."""
    for case in MISSING:
        for law in case.all():
            crowd = law.domain.crowd(100, np.random.default_rng(1))
            assert 10 < np.isnan(crowd).sum() < 60
