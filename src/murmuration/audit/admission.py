"""Who may collect: a law that keeps its budget, or one whose operator says what it costs.

A campaign that names a mechanism whose exact loss exceeds its budget is refused with the numbers.
It can still be run (to compare with a published mechanism, say), but not by oversight: the
campaign file has to carry, word for word, the sentence that the audit prints.
"""

from __future__ import annotations

import math
from typing import Protocol, TypeVar

import numpy as np

from murmuration.errors import PromiseError
from murmuration.exact.loss import Loss, PairwiseLoss
from murmuration.mechanisms.base import Mechanism

_Mechanism = TypeVar("_Mechanism", bound=Mechanism)


class Promising(Protocol):
    """Anything with an exact loss: a mechanism, an attribute with levels, a survey."""

    def loss(self) -> Loss:
        """Return the exact loss."""


def admit(mechanism: _Mechanism, accept_loss: str | None = None) -> _Mechanism:
    """Return the mechanism, allowed to collect; refuse a broken promise with the numbers.

    >>> from murmuration import mechanism, system_rng
    >>> admit(mechanism("duchi", epsilon=1.0))
    Duchi(epsilon=1.0)
    >>> dct = mechanism("dct", epsilon=1.0)
    >>> admit(dct)
    Traceback (most recent call last):
        ...
    murmuration.errors.PromiseError: dct is refused: it costs an infinite loss where 1.0 is \
promised. To collect with it all the same, the campaign file must say: \
accept_loss = "an infinite loss where 1.0 is promised"
    >>> allowed = admit(dct, "an infinite loss where 1.0 is promised")
    >>> len(allowed.privatize([0.5], system_rng()))
    1
    """
    loss = require_kept(mechanism, accept_loss)
    return mechanism if loss.holds else mechanism.accepting_its_loss()


def require_kept(asked: Promising, accept_loss: str | None = None) -> Loss:
    """Return the exact loss if it is within its budget, or accepted word for word."""
    loss = asked.loss()
    if loss.holds:
        return loss
    name, words = getattr(asked, "name", type(asked).__name__), in_words(loss)
    if accept_loss is None:
        raise PromiseError(
            f"{name} is refused: it costs {words}. To collect with it all the same, "
            f'the campaign file must say: accept_loss = "{words}"'
        )
    if accept_loss != words:
        raise PromiseError(
            f'{name} is refused: accept_loss says "{accept_loss}", but it costs {words}'
        )
    return loss


def in_words(loss: Loss) -> str:
    """Say what a broken promise costs: what `accept_loss` must repeat.

    Between ranges: the largest loss, and the one that is most times its own budget.
    """
    if not isinstance(loss, PairwiseLoss):
        return _cost(loss.epsilon, "", loss.claimed)
    largest = np.unravel_index(int(loss.pairwise.argmax()), loss.pairwise.shape)
    pairs = dict.fromkeys([(int(largest[0]), int(largest[1])), loss.worst_pair])
    return ", and ".join(
        _cost(float(loss.pairwise[g, h]), _where(g, h), loss.budgets[g][h]) for g, h in pairs
    )


def _cost(loss: float, where: str, promised: float) -> str:
    amount = f"a loss of {loss!r}" if math.isfinite(loss) else "an infinite loss"
    return f"{amount}{where} where {promised!r} is promised"


def _where(g: int, h: int) -> str:
    return f" inside range {g + 1}" if g == h else f" between ranges {g + 1} and {h + 1}"
