"""Murmuration: the crowd's answer is sharp, no bird's path is known.

>>> import murmuration
>>> duchi = murmuration.mechanism("duchi", epsilon=1.0)
>>> duchi.loss().holds
True
"""

from murmuration import audit
from murmuration.analysis import combine, postprocess
from murmuration.campaign import levels
from murmuration.errors import MurmurationError
from murmuration.exact.loss import Loss
from murmuration.exact.randomness import seeded_rng, system_rng
from murmuration.mechanisms.base import Mechanism, Task
from murmuration.mechanisms.item.base import Labels
from murmuration.mechanisms.registry import list_mechanisms
from murmuration.mechanisms.tally import Tally
from murmuration.planning import allocate
from murmuration.planning import choose as plan
from murmuration.planning.auto import mechanism
from murmuration.results.distribution import Distribution
from murmuration.results.estimate import Estimate, FrequencyEstimate, TupleEstimate

__version__ = "0.1.0"

__all__ = [
    "Distribution",
    "Estimate",
    "FrequencyEstimate",
    "Labels",
    "Loss",
    "Mechanism",
    "MurmurationError",
    "Tally",
    "Task",
    "TupleEstimate",
    "allocate",
    "audit",
    "combine",
    "levels",
    "list_mechanisms",
    "mechanism",
    "plan",
    "postprocess",
    "seeded_rng",
    "system_rng",
]
