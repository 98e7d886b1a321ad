"""Reports of a training are merged and exported like any others: each once, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from murmuration.collector.files import rounds as files
from murmuration.collector.merging.rounds import merge_rounds
from murmuration.collector.store import open_store
from murmuration.collector.store import rounds as stored
from murmuration.collector.training.rounds import closed_tallies, counted, round_of
from murmuration.errors import FormatError, MismatchError, ParameterError
from murmuration.mechanisms.tally import Tally
from tests.support.command import murmur
from tests.support.training_cases import LOANS, People, loans
from tests.training.test_rounds import CLOSING, HOUR, Held


@pytest.fixture
def two(tmp_path: Path) -> Iterator[tuple[Held, Held]]:
    with ExitStack() as stack:
        held = [
            Held(stack.enter_context(closing(open_store(tmp_path / name))))
            for name in ("a.db", "b.db")
        ]
        held[1].people = People(loans(), seed=7)
        yield held[0], held[1]


def kept(held: Held) -> list[tuple[int, str, str, tuple[Tally, ...]]]:
    """All that a store has of its rounds."""
    return [
        (
            *(one.number, one.digest, one.state),
            counted(held.store, one, round_of(held.served.campaign, one)),
        )
        for one in stored.rounds(held.store, held.served.key)
    ]


def answered(held: Held) -> int:
    """How many people have answered the last round."""
    return sum(tally.n for tally in kept(held)[-1][3])


def test_two_collectors_of_one_training(two: tuple[Held, Held]) -> None:
    """The second begins with what the first has, and its reports count in the first, once."""
    first, second = two
    first.play(2)
    done = merge_rounds(second.store, first.store, "loans")
    assert done.rounds == 2
    assert kept(second) == kept(first)
    assert done.new == sum(t.n for one in closed_tallies(first.store, first.served) for t in one)
    first.come(50)
    second.come(70)
    back = merge_rounds(first.store, second.store, "loans")
    assert (back.new, back.late, back.full) == (70, 0, 0)
    assert back.known == done.new
    assert answered(first) == 120
    again = merge_rounds(first.store, second.store, "loans")
    assert (again.new, again.known) == (0, done.new + 70)
    first.play()
    assert first.model() is not None
    merge_rounds(second.store, first.store, "loans")
    assert kept(second) == kept(first)
    assert second.model() == first.model()
    status = second.served.status(second.store)
    assert status.balanced
    assert status.reports == first.served.status(first.store).reports
    unchanged = merge_rounds(second.store, first.store, "loans")
    assert (unchanged.new, unchanged.rounds, unchanged.late) == (0, 0, 0)


def test_a_round_takes_as_many_as_it_has_room_for(two: tuple[Held, Held]) -> None:
    first, second = two
    size = first.open.round.size
    first.come(size - 30)
    second.come(50)
    done = merge_rounds(first.store, second.store, "loans")
    assert (done.new, done.full) == (30, 20)
    first.advance()
    assert first.states() == ["closed", "open"]
    late = merge_rounds(first.store, second.store, "loans")
    assert (late.new, late.known, late.late) == (0, 30, 20)
    with pytest.raises(MismatchError, match="round 1 was closed in the other store without"):
        merge_rounds(second.store, first.store, "loans")
    assert second.states() == ["open"]
    assert answered(second) == 50


def test_two_trainings_are_not_one(two: tuple[Held, Held], tmp_path: Path) -> None:
    first, second = two
    first.play(2)
    second.play(2)
    before = kept(first)
    with pytest.raises(MismatchError, match="they are two trainings"):
        merge_rounds(first.store, second.store, "loans")
    assert kept(first) == before
    with closing(open_store(tmp_path / "c.db")) as store:
        third = Held(store, LOANS.replace("epsilon = 4.0", "epsilon = 2.0"))
        with pytest.raises(MismatchError, match="other features, laws or terms"):
            merge_rounds(first.store, third.store, "loans")
    with pytest.raises(MismatchError, match="itself"):
        merge_rounds(first.store, first.store, "loans")
    with pytest.raises(MismatchError, match="does not have"):
        merge_rounds(first.store, second.store, "other")


def test_a_round_that_was_closed_in_both_has_the_same_reports(tmp_path: Path) -> None:
    with ExitStack() as stack:
        held = [
            Held(stack.enter_context(closing(open_store(tmp_path / name))), CLOSING)
            for name in ("a.db", "b.db")
        ]
        for seed, one in enumerate(held):
            one.people = People(loans(CLOSING), seed=seed)
            one.come(one.open.round.size - 1)
            one.advance(11 * HOUR)
            assert one.states() == ["closed"]
        with pytest.raises(MismatchError, match="round 1 was closed in both stores, with other"):
            merge_rounds(held[0].store, held[1].store, "loans")


def test_a_training_that_goes_on_is_not_ended_by_one_that_has_ended(tmp_path: Path) -> None:
    """Two stores with one round: one closes it and asks on, the other ends with it."""
    with ExitStack() as stack:
        going, ended = (
            Held(stack.enter_context(closing(open_store(tmp_path / name))), text)
            for name, text in (("a.db", LOANS), ("b.db", CLOSING))
        )
        going.come(going.open.round.size)
        merge_rounds(ended.store, going.store, "loans")
        ended.advance(11 * HOUR)
        going.advance()
        going.come(20)
        assert (ended.states(), going.states()) == (["closed"], ["closed", "open"])
        before = kept(going)
        with pytest.raises(MismatchError, match="this store has gone on after the other one ended"):
            merge_rounds(going.store, ended.store, "loans")
        assert going.model() is None
        assert kept(going) == before
        with pytest.raises(MismatchError, match="the other store has gone on after this one ended"):
            merge_rounds(ended.store, going.store, "loans")
        assert ended.states() == ["closed"]


def test_without_reports_an_open_round_cannot_be_merged(tmp_path: Path) -> None:
    with ExitStack() as stack:
        text = LOANS.replace("rounds = 12", "rounds = 12\nkeep_reports = false")
        first, second = (
            Held(stack.enter_context(closing(open_store(tmp_path / name))), text)
            for name in ("a.db", "b.db")
        )
        first.play(2)
        merge_rounds(second.store, first.store, "loans")
        assert kept(second) == kept(first)
        first.come(5)
        with pytest.raises(MismatchError, match="keeps no reports"):
            merge_rounds(second.store, first.store, "loans")
        with pytest.raises(ParameterError, match="keep_reports"):
            files.write(first.store, first.served, tmp_path / "out")


def test_closed_rounds_are_files_that_count_to_the_same(
    two: tuple[Held, Held], tmp_path: Path
) -> None:
    held, other = two
    held.play(2)
    held.come(10)
    out = tmp_path / "out"
    done = files.write(held.store, held.served, out)
    tallies = closed_tallies(held.store, held.served)
    assert done.written == sum(t.n for one in tallies for t in one)
    paths = sorted((out / "loans").iterdir())
    assert [path.name for path in paths] == ["round-001.parquet", "round-002.parquet"]
    for path, one in zip(paths, tallies, strict=True):
        found = files.read(path)
        assert found.tallies() == one
        assert found.campaign.digest == held.served.campaign.digest
    held.play(1)
    more = files.write(held.store, held.served, out)
    assert more.before == done.written
    assert len(list((out / "loans").iterdir())) == 3
    other.play(2)
    with pytest.raises(FormatError, match="of another training"):
        files.write(other.store, other.served, out)
    spoilt = replace(files.read(paths[0]), path=paths[1])
    with pytest.raises(FormatError):
        spoilt.tallies()


def test_the_commands(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "a.db")) as store:
        held = Held(store)
        held.play(2)
        people = sum(t.n for one in closed_tallies(store, held.served) for t in one)
    with closing(open_store(tmp_path / "b.db")) as store:
        Held(store)
    said = murmur("merge", "b.db", "a.db", folder=tmp_path).stdout
    assert f"{people:,} new reports, 2 rounds closed" in said
    said = murmur("export", "b.db", "out", folder=tmp_path).stdout
    assert f"{people:,} new reports of loans" in said
    assert len(list((tmp_path / "out" / "loans").iterdir())) == 2
    refused = murmur("export", "b.db", "out.parquet", folder=tmp_path, code=2)
    assert "its rounds go to a folder" in refused.problem
    assert np.array_equal(*[kept_reports(tmp_path / name) for name in ("a.db", "b.db")])


def kept_reports(path: Path) -> np.ndarray:
    """The ids of a training's store, in order."""
    with closing(open_store(path, readonly=True)) as store:
        key = store.key_of(loans().digest) or 0
        return np.concatenate([ids for ids, _, _ in store.kept_reports(key, 0)])
