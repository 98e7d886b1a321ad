"""The contract that every mechanism is held to, for your own mechanism, too.

    from murmuration.testing import check_mechanism

    def test_mine() -> None:
        check_mechanism(Mine(epsilon=1.0))

It takes some seconds. What fails is listed in one `ContractError`, an AssertionError: each check by
its name, what it saw and what to do. Seeds are fixed, so a check that passes once passes always;
statistical bounds are 4.5 standard errors. Nothing here needs pytest.

    promise    the exact loss, the sampler against the law, coins, each person alone
    wire       documents, bytes, refusals, tallies
    figures    estimates without bias, variances, coverage of intervals

`CHECKS` has the functions one by one. docs/own-mechanism.md has a mechanism to start from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from murmuration.errors import ContractError, ParameterError
from murmuration.mechanisms.base import Mechanism
from murmuration.testing.figures import check_coverage, check_unbiased, check_variance
from murmuration.testing.promise import (
    check_budget_is_used,
    check_each_person_alone,
    check_fresh_randomness,
    check_loss,
    check_public_coins,
)
from murmuration.testing.wire import (
    check_another_law,
    check_document,
    check_refusals,
    check_tallies,
    check_valid,
    check_wire,
)

Check = Callable[[Mechanism], None]

CHECKS: tuple[Check, ...] = (
    check_loss,
    check_budget_is_used,
    check_document,
    check_another_law,
    check_wire,
    check_valid,
    check_each_person_alone,
    check_public_coins,
    check_refusals,
    check_fresh_randomness,
    check_tallies,
    check_unbiased,
    check_variance,
)
"""All checks but that of coverage, which takes minutes."""

__all__ = ["CHECKS", "ContractError", "check_coverage", "check_mechanism"]


def check_mechanism(
    mechanism: Mechanism, *, skip: Collection[str] = (), coverage_runs: int = 0
) -> None:
    """Hold a mechanism to the contract; raise one `ContractError` that lists what it breaks.

    `skip` has names of checks that do not apply, as "budget_is_used" for a law that is known to
    spend less than it may. With `coverage_runs`, 500 say, that many collections are simulated, to
    see that intervals cover as often as they say.

    >>> from murmuration import mechanism
    >>> check_mechanism(mechanism("duchi", epsilon=1.0))
    """
    checks = {name_of(check): check for check in CHECKS}
    if unknown := sorted(set(skip) - set(checks)):
        raise ParameterError(
            f"no check is called {', '.join(unknown)}; there are {', '.join(checks)}"
        )
    chosen = {name: check for name, check in checks.items() if name not in skip}
    if coverage_runs:
        chosen["coverage"] = lambda law: check_coverage(law, runs=coverage_runs)
    tried = {name: _problem_of(check, mechanism) for name, check in chosen.items()}
    failures = {name: problem for name, problem in tried.items() if problem}
    if failures:
        lines = [f"  {name}: {_said(problem)}" for name, problem in failures.items()]
        count = f"{len(failures)} of {len(chosen)} checks"
        text = "\n".join([f"{mechanism} breaks the contract of a mechanism ({count}):", *lines])
        raise ContractError(text) from next(iter(failures.values()))


def name_of(check: Check) -> str:
    """Return what a check is called in messages and in `skip`.

    >>> name_of(check_wire)
    'wire'
    """
    return check.__name__.removeprefix("check_")


def _problem_of(check: Check, mechanism: Mechanism) -> Exception | None:
    """Return what a check finds wrong; a mechanism may raise anything."""
    try:
        check(mechanism)
    except Exception as problem:
        return problem
    return None


def _said(problem: Exception) -> str:
    """Say what is wrong; what the mechanism itself raised, with its type."""
    if isinstance(problem, ContractError):
        return str(problem)
    return f"{type(problem).__name__}: {problem}"
