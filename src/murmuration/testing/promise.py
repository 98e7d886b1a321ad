"""Checks of the promise: what reports tell, and that nothing else is in them."""

from __future__ import annotations

from functools import partial

import numpy as np

from murmuration.audit.exact import audit
from murmuration.errors import ContractError, SourceError
from murmuration.exact.keyed import Key, Keys
from murmuration.exact.loss import PairwiseLoss
from murmuration.exact.randomness import Rng, ScriptedRng, system_rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.domain import Values
from murmuration.testing.expected import SECRET, accepted, crowd, expect

TOLERANCE = 1e-5
"""So much of epsilon may be left unused: integer weights are rounded towards more noise."""
UNUSED_OF_A_BUDGET = 1e-4
PEOPLE = 40


def check_loss(mechanism: Mechanism) -> None:
    """The exact loss is within the budget, and the sampler draws from that law."""
    verdict = audit(mechanism)
    loss = verdict.loss
    expect(
        verdict.sampler_agrees,
        f"the sampler does not keep to the law: it {verdict.how}. `respond` and `law`, `p`, `q` or "
        "`channel` must follow from the same integers",
    )
    if mechanism.broken:
        expect(
            not verdict.promise_kept,
            f"keeps_promise is False, but the exact loss {loss.epsilon!r} is within "
            f"{mechanism.budget!r}: leave keeps_promise out",
        )
        return
    expect(
        verdict.promise_kept,
        f"the exact loss is {loss.epsilon!r}, above the budget {mechanism.budget!r}: answers "
        f"{loss.inputs} are told apart by report {loss.output}. Round weights towards more noise "
        "(exp_below)",
    )


def check_budget_is_used(mechanism: Mechanism) -> None:
    """The exact loss is just below the budget: no accuracy is given away."""
    loss = mechanism.loss()
    if mechanism.broken:
        return
    if isinstance(loss, PairwiseLoss):
        used = float((loss.pairwise / np.array(loss.budgets)).max())
        text = f"at most {used:.6g} of a pair's budget is used: the law has more noise than needed"
        expect(used > 1 - UNUSED_OF_A_BUDGET, text)
        return
    expect(
        loss.epsilon > mechanism.epsilon - TOLERANCE,
        f"the exact loss is {loss.epsilon!r} and epsilon is {mechanism.epsilon!r}: the law "
        'has more noise than needed. If that is meant, skip "budget_is_used"',
    )


def check_each_person_alone(mechanism: Mechanism) -> None:
    """A batch is the same as its people one by one: nobody's report depends on another's value."""
    law, values, domain = accepted(mechanism), crowd(mechanism, PEOPLE), mechanism.domain
    names = [SECRET.name(str(person)) for person in range(PEOPLE)]
    people = Keys(np.stack([np.frombuffer(name, np.uint8) for name in names]))
    written = domain.written(domain.checked(values))
    rng = people.rng("answer", written, coins=people.rng("coin"))
    together = mechanism.to_rows(law.privatize(values, rng))
    expect(
        len(together) == PEOPLE, f"{PEOPLE} people sent {len(together)} reports: one each is needed"
    )
    for person, name in enumerate(names):
        own = domain.part(values, slice(person, person + 1))
        alone = law.privatize(own, _own_words(Key(name), written[person].tobytes()))
        expect(
            mechanism.to_rows(alone).tobytes() == together[person].tobytes(),
            f"person {person} of a batch of {PEOPLE} sends another report than alone: every person "
            "draws the same number of words, and who draws again draws from rng.only(who)",
        )


def _own_words(key: Key, written: bytes) -> Rng:
    return key.rng("answer", written, coins=key.rng("coin"))


def check_public_coins(mechanism: Mechanism) -> None:
    """Coins that the report shows look at no answer; a report that shows none draws none."""
    law, domain = accepted(mechanism), mechanism.domain
    for person in map(str, range(8)):
        parts = []
        for answer in domain.extremes():
            value = domain.repeated(answer, 1)
            own = partial(SECRET.rng, "answer", domain.written(value)[0].tobytes(), person)
            report = law.privatize(value, own(coins=SECRET.rng("coin", person)))
            parts.append(mechanism.public_part(report))
            if not parts[-1]:
                _draw_without_coins(law, value, own(coins=ScriptedRng([])))
        expect(
            parts[0] == parts[1],
            "the public part of a report is another one for another answer: it must follow from "
            "rng.public() alone",
        )


def _draw_without_coins(law: Mechanism, value: Values, rng: Rng) -> None:
    try:
        law.privatize(value, rng)
    except SourceError:
        text = "rng.public() is drawn from, but `public_part` says that reports show no coins"
        raise ContractError(text) from None


def check_fresh_randomness(mechanism: Mechanism) -> None:
    """Two runs on the system's generator differ."""
    values = mechanism.domain.repeated(mechanism.domain.extremes()[0], 4000)
    first, second = (accepted(mechanism).privatize(values, system_rng()) for _ in range(2))
    expect(
        bool((first != second).any()),
        "4,000 reports are the same in two runs on the system's generator: draw from the `rng` "
        "that `respond` is given",
    )
