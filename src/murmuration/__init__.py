"""Murmuration: the crowd's answer is sharp, no bird's path is known.

>>> import murmuration
>>> duchi = murmuration.mechanism("duchi", epsilon=1.0)
>>> duchi.loss().holds
True
"""

from murmuration import allocate, audit, combine, levels, plan, postprocess
from murmuration.auto import mechanism
from murmuration.contract import Mechanism, Tally, Task
from murmuration.distribution import Distribution
from murmuration.errors import MurmurationError
from murmuration.estimate import Estimate, FrequencyEstimate, TupleEstimate
from murmuration.frequency import Labels
from murmuration.loss import Loss
from murmuration.mechanisms import mechanisms
from murmuration.randomness import seeded_rng, system_rng

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
    "mechanism",
    "mechanisms",
    "plan",
    "postprocess",
    "seeded_rng",
    "system_rng",
]
