"""READ FIRST: one collection, all its parties, on one screen.

    device  --bytes-->  collector  --tally-->  analyst
                        another one --tally-->

The device is the only one who ever sees a value. What it sends is an integer drawn from a law
that the auditor can check. The collector counts. The analyst reads the counts.
"""

from __future__ import annotations

from numpy.typing import ArrayLike

from murmuration.errors import MismatchError, PromiseError
from murmuration.exact.randomness import Rng
from murmuration.mechanisms.base import Mechanism
from murmuration.mechanisms.tally import Tally
from murmuration.results.estimate import AnyEstimate


def device(mechanism: Mechanism, value: ArrayLike, rng: Rng) -> bytes:
    """Randomise the value (one, or many people's); send the law's fingerprint and the bytes."""
    return _law(mechanism) + mechanism.pack(mechanism.privatize(value, rng))


def collector(mechanism: Mechanism, uploads: list[bytes]) -> Tally:
    """Count what arrived; another law, or a report that no device can have sent, is refused."""
    total, law = mechanism.empty(), _law(mechanism)
    for upload in uploads:
        if not upload.startswith(law):
            raise MismatchError(f"an upload was made with another law than that of {mechanism}")
        total += mechanism.tally(mechanism.unpack(upload[len(law) :]))
    return total


def _law(mechanism: Mechanism) -> bytes:
    return bytes.fromhex(mechanism.fingerprint[:16])


def analyst(mechanism: Mechanism, tallies: list[bytes]) -> AnyEstimate:
    """Add up the tallies of any number of collectors and read the crowd's answer."""
    merged = Tally.merge(Tally.from_bytes(data, mechanism) for data in tallies)
    return mechanism.estimate(merged)


def auditor(mechanism: Mechanism) -> bool:
    """Check the promise on the integers that the devices use, not on the paper."""
    return mechanism.loss().holds


def run(mechanism: Mechanism, values: list[float], rng: Rng) -> AnyEstimate:
    """Run all of it: half of the people report to one collector, half to another.

    >>> from murmuration import mechanism, seeded_rng
    >>> result = run(mechanism("duchi", epsilon=2.0), [0.5, -0.5, 0.25, 0.75] * 1000, seeded_rng(1))
    >>> low, high = result.interval()
    >>> low < 0.25 < high
    True
    """
    if not auditor(mechanism):
        raise PromiseError(f"{mechanism} does not keep its promise: nothing is collected")
    uploads = [device(mechanism, value, rng) for value in values]
    east, west = collector(mechanism, uploads[::2]), collector(mechanism, uploads[1::2])
    return analyst(mechanism, [east.to_bytes(), west.to_bytes()])
