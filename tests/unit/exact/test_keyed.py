"""Words that follow from a secret."""

import hashlib
import hmac

import numpy as np
import pytest

from murmuration.device.words import CrowdWords, DeviceWords
from murmuration.errors import ParameterError, SourceError
from murmuration.exact.keyed import Key, Keys, context
from murmuration.exact.randomness import uniform
from murmuration.mechanisms.domain import Ball, Box, Items, Number
from murmuration.mechanisms.number.duchi import Duchi

SECRET = bytes(range(32))


def test_words_are_those_that_the_page_describes() -> None:
    """Nothing of ours, only what a browser has as well."""
    text = b"\x00\x00\x00\x06answer\x00\x00\x00\x012"
    key = hmac.new(SECRET, text, hashlib.sha256).digest()
    blocks = [hmac.new(key, i.to_bytes(8, "big"), hashlib.sha256).digest() for i in range(3)]
    wanted = [int.from_bytes(b"".join(blocks)[8 * i :][:8], "little") for i in range(11)]
    rng = Key(SECRET).rng("answer", "2")
    assert [*rng.words(1), *rng.words(0), *rng.words(7), *rng.words(3)] == wanted


def test_no_two_purposes_share_words() -> None:
    key = Key(SECRET)
    contexts = [("a", "b"), ("ab",), ("a", "b", ""), ("", "ab"), ("a", b"\0\0\0\1b"), ()]
    assert len({context(*parts) for parts in contexts}) == len(contexts)
    assert len({key.rng(*parts).words(1).tobytes() for parts in contexts}) == len(contexts)
    assert Key.new().name() != Key.new().name()


def test_a_secret_is_long_enough_and_never_shown() -> None:
    for bad in (b"", b"short", "x" * 32, 5):
        with pytest.raises(ParameterError):
            Key(bad)  # type: ignore[arg-type]
    key = Key(SECRET)
    assert SECRET.hex() not in repr(key) + repr(key.rng("a"))


def test_written_values() -> None:
    assert (Number().written(np.array([0.0])) == Number().written(np.array([-0.0]))).all()
    assert Number().written(np.array([0.5, -1.0])).view("<f8").ravel().tolist() == [0.5, -1.0]
    assert Box((0, 3)).written([np.array([0.5]), np.array([2])]).shape == (1, 16)
    assert Ball(3).written(np.ones((4, 3)) / 3).shape == (4, 24)
    assert Items(9).written(np.array([8, 1], dtype=np.int64))[:, 0].tolist() == [8, 1]


# --- many people at once -------------------------------------------------------------------------


def crowd(n: int) -> tuple[Keys, list[Key]]:
    """The keys of n people, together and one by one."""
    numbers = np.arange(n, dtype=">u2").view(np.uint8).reshape(n, 2)
    key = Key(SECRET)
    return key.each("p", numbers), [Key(key.name("p", row.tobytes())) for row in numbers]


def test_a_crowd_draws_what_each_of_its_people_would() -> None:
    """Any number of words, some of the people, some of them twice, in any order."""
    keys, people = crowd(6)
    written = np.arange(18, dtype=np.uint8).reshape(6, 3)
    together = keys.rng("answer", written, "")
    alone = [key.rng("answer", row.tobytes(), "") for key, row in zip(people, written, strict=True)]
    draw = np.random.default_rng(2)
    for _ in range(40):
        who = draw.integers(0, 6, draw.integers(0, 9))
        each = int(draw.integers(0, 12))
        wanted = [word for person in who for word in alone[person].words(each).tolist()]
        assert together.only(who).words(each * len(who)).tolist() == wanted
    some = together.only(np.array([4, 1, 2])).only(slice(1, None))  # 1 and 2
    assert some.octets(2, 11).tolist() == [alone[i].octets(1, 11)[0].tolist() for i in (1, 2)]


def test_uniform_numbers_of_a_crowd() -> None:
    """Half of all words are drawn again, by those whose words they were."""
    keys, people = crowd(5)
    bound = (1 << 51) + 1
    together = uniform(keys.rng("a"), 5, bound, each=3).reshape(5, 3)
    assert together.tolist() == [uniform(key.rng("a"), 1, bound, 3).tolist() for key in people]


def test_people_who_are_drawn_in_several_passes() -> None:
    class FewAtATime(Duchi):
        people_per_pass = 3

    keys, people = crowd(10)
    values = np.linspace(-1, 1, 10)
    together = FewAtATime(epsilon=1.0).privatize(values, keys.rng("a"))
    alone = [
        Duchi(epsilon=1.0).privatize([x], k.rng("a"))[0]
        for x, k in zip(values, people, strict=True)
    ]
    assert together.tolist() == alone


def test_a_crowd_shows_no_secret_and_draws_as_much_for_each() -> None:
    keys, _ = crowd(3)
    with pytest.raises(SourceError, match="as many each"):
        keys.rng("a").words(4)
    with pytest.raises(ParameterError, match="rows of 32"):
        Keys(np.zeros((2, 31), dtype=np.uint8))
    assert repr(keys) + repr(keys.rng("a")) == "Keys(... of 3 people)CrowdRng(...)"
    nobody = keys.only(np.arange(0))
    assert nobody.name("a").shape == (0, 32)
    assert len(nobody.rng("a").words(0)) == 0


# --- what a device's words are for ---------------------------------------------------------------


def purposes(words: DeviceWords) -> dict[str, object]:
    """The generator of each purpose."""
    noise, kept = words.answer(1, b"x", "r"), words.permanent(1, b"x")
    return {
        "which": words.which("r"),
        "answer": noise,
        "coin": noise.public(),
        "permanent": kept,
        "spread": words.spread(["x"])["x"],
    }


def test_purposes_share_no_words_and_answers_no_coins() -> None:
    device = DeviceWords(Key(SECRET), "https://a:443", "d")
    others = [
        DeviceWords(Key(SECRET), "https://b:443", "d"),  # another collector
        DeviceWords(Key(SECRET), "https://a:443", "e"),  # another campaign
        DeviceWords(Key.new(), "https://a:443", "d"),  # another person
    ]
    found = [rng.words(4).tolist() for one in (device, *others) for rng in purposes(one).values()]
    found += [device.answer(*more).words(4).tolist() for more in ANSWERS]
    words = [word for some in found for word in some]
    assert len(set(words)) == len(words)
    for cell, written, turn in ANSWERS:
        coin = device.answer(cell, written, turn).public().words(2).tolist()
        same = device.answer(cell, b"another answer", turn).public().words(2).tolist()
        assert coin == same
    assert device.report_id("r") == device.report_id("r") != device.report_id("s")


ANSWERS = [(1, b"y", "r"), (2, b"x", "r"), (1, b"x", "s"), (1, b"x\0", "r")]
"""Another answer, cell or round than the one in `purposes`."""


def test_a_crowd_has_each_devices_words() -> None:
    keys, people = crowd(2)
    written = np.array([[7], [120]], dtype=np.uint8)
    crowd_words = CrowdWords(keys, "https://a:443", "d")
    noise, kept = crowd_words.answer(1, written, "r"), crowd_words.permanent(1, written)
    together = {
        "which": crowd_words.which("r"),
        "answer": noise,
        "coin": noise.public(),
        "permanent": kept,
        "spread": crowd_words.spread(["x"])["x"],
    }
    alone = purposes(DeviceWords(people[1], "https://a:443", "d"))
    for purpose, rng in together.items():
        assert rng.words(10)[5:].tolist() == alone[purpose].words(5).tolist(), purpose
