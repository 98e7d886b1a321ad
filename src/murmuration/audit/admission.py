"""Who may collect: a law that keeps its budget, or one whose operator says what it costs.

A campaign that names a mechanism whose exact loss exceeds its budget is refused with the numbers.
It can still be run (to compare with a published mechanism, say), but not by oversight: the
campaign file has to carry, word for word, the sentence that the audit prints.
"""

from __future__ import annotations

import math

from murmuration.contract import Mechanism
from murmuration.errors import PromiseError
from murmuration.loss import Loss, PairwiseLoss


def admit(mechanism: Mechanism, accept_loss: str | None = None) -> Loss:
    """Return the exact loss of a mechanism that may collect; refuse any other with the numbers.

    >>> from murmuration import mechanism
    >>> admit(mechanism("duchi", epsilon=1.0)).holds
    True
    >>> admit(mechanism("dct", epsilon=1.0))
    Traceback (most recent call last):
        ...
    murmuration.errors.PromiseError: dct is refused: it costs an infinite loss where 1.0 is \
promised. To collect with it all the same, the campaign file must say: \
accept_loss = "an infinite loss where 1.0 is promised"
    >>> admit(mechanism("dct", epsilon=1.0), "an infinite loss where 1.0 is promised").epsilon
    inf
    """
    loss = mechanism.loss()
    if loss.holds:
        return loss
    words = in_words(loss)
    if accept_loss is None:
        raise PromiseError(
            f"{mechanism.name} is refused: it costs {words}. To collect with it all the same, "
            f'the campaign file must say: accept_loss = "{words}"'
        )
    if accept_loss != words:
        raise PromiseError(
            f'{mechanism.name} is refused: accept_loss says "{accept_loss}", but it costs {words}'
        )
    return loss


def in_words(loss: Loss) -> str:
    """Say what a broken promise costs, where it is broken worst: what `accept_loss` must repeat."""
    where, found, promised = "", loss.epsilon, loss.claimed
    if isinstance(loss, PairwiseLoss):
        g, h = loss.worst_pair
        where = f" inside range {g + 1}" if g == h else f" between ranges {g + 1} and {h + 1}"
        found, promised = float(loss.pairwise[g, h]), loss.budgets[g][h]
    amount = f"a loss of {found!r}" if math.isfinite(found) else "an infinite loss"
    return f"{amount}{where} where {promised!r} is promised"
