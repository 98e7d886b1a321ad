"""Models from randomised answers: every person answers once, nobody's data is ever seen.

>>> import numpy
>>> from murmuration import learn
>>> x = numpy.random.default_rng(1).uniform(-1, 1, (100_000, 2))
>>> model = learn.LinearRegression(epsilon=4.0, random_state=1).fit(x, 0.5 * x[:, 0])
>>> [abs(round(weight, 1)) for weight in model.coef_.tolist()]
[0.5, 0.0]
"""

from murmuration.learn.columns import Category, Interaction, Number
from murmuration.learn.encode import Encoder
from murmuration.learn.estimators import LinearRegression, LinearSVC, LogisticRegression
from murmuration.learn.papers.hiera import ByAttribute
from murmuration.learn.papers.rounds import Model, Training
from murmuration.learn.papers.schedule import FewRounds, MiniBatches, OneByOne
from murmuration.training.algorithm.adaptive import AdaptiveTraining
from murmuration.training.algorithm.state import Setting

__all__ = [
    "AdaptiveTraining",
    "ByAttribute",
    "Category",
    "Encoder",
    "FewRounds",
    "Interaction",
    "LinearRegression",
    "LinearSVC",
    "LogisticRegression",
    "MiniBatches",
    "Model",
    "Number",
    "OneByOne",
    "Setting",
    "Training",
]
