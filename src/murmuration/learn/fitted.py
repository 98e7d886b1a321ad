"""The model of a live training as an estimator of scikit-learn: it predicts from raw tables."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.collector.training.model import TrainedModel
from murmuration.learn.columns import Category, Column, Number
from murmuration.learn.estimators import (
    LinearModel,
    LinearRegression,
    LinearSVC,
    LogisticRegression,
)
from murmuration.results.estimate import About, Estimate
from murmuration.training.campaign import Feature, TrainingCampaign

KINDS: dict[str, type[LinearModel]] = {
    "linear": LinearRegression,
    "logistic": LogisticRegression,
    "svm": LinearSVC,
}


def fitted(campaign: TrainingCampaign, trained: TrainedModel) -> Any:
    """Return the estimator that `fit` would have made of these reports.

    Its `coefficients()` are in the attributes' own units. Numbers beyond their range are moved to
    its end, as devices did; a label that the campaign does not have is refused.
    """
    columns = {feature.question.name: _column(feature) for feature in campaign.features}
    options: dict[str, Any] = {"columns": columns}
    if not campaign.target.labels:
        options["target_bounds"] = campaign.target.range
    model = KINDS[campaign.model](campaign.epsilon, **options)
    if campaign.target.labels:
        model.classes_ = np.array(campaign.target.labels, dtype=object)
    model.feature_names_in_ = np.array(list(columns), dtype=object)
    model.feature_names_out_ = np.array(campaign.columns, dtype=object)
    model.n_features_in_, model.n_iter_, model.clamped_ = len(columns), trained.rounds, 0
    model.kept_, model.noise_ = trained.kept, np.array(trained.noise)
    model.loss_, model.score_ = campaign.loss(), _score(campaign, trained)
    weights = np.array(trained.weights) / np.array(trained.scale)
    constant = trained.encoded_intercept - weights @ np.array(trained.centre)
    model._take(np.append(weights, constant), len(weights))
    return model


def _column(feature: Feature) -> Column:
    question = feature.question
    if question.labels:
        return Category(question.labels)
    return Number(*question.range, clamp=True, typical=feature.typical)


def _score(campaign: TrainingCampaign, trained: TrainedModel) -> Estimate | None:
    score = trained.score
    if score is None:
        return None
    about = About.POPULATION
    return Estimate(score.value, score.stderr, score.n, campaign.epsilon, about, note=score.note)
