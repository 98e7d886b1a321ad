"""How far liars move a model: the bounds hold, and say along which path."""

from __future__ import annotations

import numpy as np
import pytest

from murmuration.collector.training import model
from murmuration.errors import ParameterError
from murmuration.exact.randomness import seeded_rng
from murmuration.results.estimate import About, Estimate
from murmuration.training.algorithm.questions import Gradient, NumberQuestion, Question
from murmuration.training.campaign import TrainingCampaign
from murmuration.training.run import LiveTraining
from tests.support.training_cases import LOANS, People, loans
from tests.support.trainings import LINEAR
from tests.support.trainings import people as drawn
from tests.support.trainings import trained as campaign_of

SHARE = 0.1


def lying(question: Question, values, rng):
    """Reports of which a share are those that move a coordinate most; and what they have moved."""
    law = question.mechanism
    reports, lies = law.privatize(values, rng), round(SHARE * len(values))
    tried = law.privatize(values[:200], rng)
    read = np.array([np.atleast_1d(question.read(law.tally(one)))[0] for one in tried[:, None]])
    best = int(read.argmax())
    reports[:lies] = tried[best]
    unit = question.clip if isinstance(question, Gradient) else question.half
    truth = unit * values.reshape(len(values), -1)[:lies, 0]
    return law.tally(reports), float((read[best] - truth).sum()) / len(values)


@pytest.mark.parametrize("kind", ["logistic", "linear"])
@pytest.mark.slow
def test_liars_move_a_model_no_further_than_it_says(kind: str) -> None:
    campaign = (
        loans(LOANS) if kind == "logistic" else campaign_of(LINEAR, people="20000", epsilon="4.0")
    )
    if kind == "logistic":
        _, x, y = People(campaign).drawn(9000)
    else:
        x, y = campaign.encode(*drawn(campaign, 24_000), seeded_rng(1))
    live, rng, start = LiveTraining(campaign), seeded_rng(3), 0
    moves, gradients, clips, scales, last, people = [], [], [], [], 0.0, 0
    while (found := live.round) is not None:
        tallies = []
        for question in found.questions:
            here = slice(start, start + question.people)
            start += question.people
            values = question.values(x[here], y[here])
            tally = question.mechanism.tally(question.mechanism.privatize(values, rng))
            if isinstance(question, Gradient):
                tally, moved = lying(question, values, rng)
                moves.append(moved)
                clips.append(question.clip)
                scales.append(question.model.scale)
                gradients.append(question.read(tally))
            elif isinstance(question, NumberQuestion) and question.ask in ("right", "gain"):
                tally, last = lying(question, values, rng)
            tallies.append(tally)
            people += tally.n
        live.close(tallies)
    trained = live.trained
    result = model.with_liars(model.of(campaign, trained, people), SHARE)
    assert result.liars is not None
    assert len(trained.pulls) == len(moves)
    law = campaign.setting.laws.vector(x.shape[1] + 1)
    most = law.reach().most_moved
    # The pulls are the weights' own linear map: without what a lie is read as, times gradients.
    # They are those of the column that a round moves most: the one with the smallest scale.
    parts = np.array([pull.far for pull in trained.pulls]) / most / np.array(clips)
    parts = (parts * np.min(scales, axis=1))[:, None] / np.array(scales)
    weights = -trained.kept * (parts * np.array(gradients)[:, :-1]).sum(axis=0)
    assert np.allclose(weights, trained.model.weights[0] / trained.model.scale)
    assert trained.kept > 0
    by_lies = abs(trained.kept * parts[:, 0] @ np.array(moves)) * result.influence.units[0]
    first = result.liars.coefficients[0]
    assert first is not None
    assert 0 < by_lies <= first.even <= first.waiting
    score = result.liars.score
    assert score is not None
    unit = 0.5 if kind == "logistic" else 25.0**2
    assert 0 < last * unit <= score.even <= score.waiting


@pytest.mark.parametrize("campaign", [loans(LOANS), campaign_of(LINEAR)])
def test_what_lies_move_is_in_the_unit_of_the_score(campaign: TrainingCampaign) -> None:
    low, high = (
        model._score(campaign, Estimate(value, 0.1, 400, 1.0, About.PARTICIPANTS))
        for value in (0.25, 0.5)
    )
    assert high.value - low.value == pytest.approx(0.25 * model._unit(campaign))
    assert low.stderr == pytest.approx(0.1 * model._unit(campaign))


def test_a_share_of_liars_is_a_share() -> None:
    campaign = loans(LOANS)
    live = LiveTraining(campaign)
    live.end()
    found = model.of(campaign, live.trained, 0)
    assert found.liars is not None
    assert set(found.liars.coefficients) == {None}, "nothing was asked: no bound"
    assert found.liars.score is None
    with pytest.raises(ParameterError, match="share of liars"):
        model.with_liars(found, 1.5)
    old = model.from_json(model.to_json(found).replace(b'"influence"', b'"other"'))
    assert model.with_liars(old, 0.2).influence is None
