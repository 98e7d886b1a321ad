"""`murmur init --data` on the columns that real files have, and what it warns of."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tests.support import command

ROWS = 1000


def said(folder: Path, columns: dict[str, list[str]], *more: str) -> tuple[str, str, str]:
    """Write a file and a campaign from it; return what is printed, remarks, and the campaign."""
    lines = [";".join(columns), *map(";".join, zip(*columns.values(), strict=True))]
    (folder / "people.csv").write_text("\n".join(lines))
    init = ("init", "--data", "people.csv", "--yes", "--force", "--decimal", ".", *more)
    done = command.murmur(*init, folder=folder, columns=400)
    return done.stdout, " ".join(done.stderr.split()), (folder / "campaign.toml").read_text()


def ages(**texts: int) -> list[str]:
    """Return ages of people, of whom so many gave a text instead."""
    given = [text for text, n in texts.items() for _ in range(n)]
    return given + [str(18 + i % 72) for i in range(ROWS - len(given))]


def test_texts_among_numbers_are_named_where_many_rows_have_them(tmp_path: Path) -> None:
    """A rare text could be one person's: it is counted, and not named."""
    table, remarks, campaign = said(
        tmp_path, {"size": ages(), "age": ages(refused=30, fourty_two=1)}
    )
    assert "96% of the rows are numbers; others: 'refused' 30, and rarer texts in 1 row" in table
    assert "--missing refused" in table
    assert "--missing refused" in remarks
    assert "fourty_two" not in table + remarks + campaign
    assert "max-labels" not in table


def test_a_scale_with_a_text_says_that_it_is_nearly_a_number(tmp_path: Path) -> None:
    likert = ["refused"] * 50 + [str(1 + i % 5) for i in range(ROWS - 50)]
    table, _, _ = said(tmp_path, {"mood": likert})
    assert "category, 6 labels" in table
    assert "95% of the rows are numbers; others: 'refused' 50" in table
    table, _, campaign = said(tmp_path, {"mood": likert}, "--missing", "refused")
    assert "number, 1 to 5" in table
    assert tomllib.loads(campaign)["attributes"][0]["markers"] == ["refused"]


def test_a_lone_extreme_is_told_and_named_only_if_it_is_common(tmp_path: Path) -> None:
    table, remarks, _ = said(tmp_path, {"age": [*ages()[:-40], *["-99"] * 40]})
    assert "-99 in 40 rows is far from the other numbers" in table
    assert "--missing=-99" in remarks
    table, _, _ = said(tmp_path, {"age": [*ages()[:-40], *["-99"] * 40]}, "--missing=-99")
    assert "number, 10 to 90" in table
    assert "far from" not in table
    table, _, _ = said(tmp_path, {"age": [*ages()[:-1], "4321"]})
    assert "a number that few rows have is far from the others" in table
    assert "4321" not in table
    assert "far from" not in said(tmp_path, {"age": ages()})[0]


def test_dates_and_grouped_digits_are_left_out_with_the_reason(tmp_path: Path) -> None:
    dates = [f"2026-{1 + i % 5:02}-{1 + i % 10:02}" for i in range(ROWS)]
    sums = [f"1,{i % 1000:03}.56" for i in range(ROWS)]
    table, _, campaign = said(tmp_path, {"age": ages(), "day": dates, "sum": sums})
    assert "dates: ask for a number instead" in table
    assert "write them as 1234.56" in table
    assert [one["name"] for one in tomllib.loads(campaign)["attributes"]] == ["age"]


def test_a_campaign_that_hides_its_attributes_is_told_with_the_remedy(tmp_path: Path) -> None:
    columns = {"age": ages(), "size": ages(), "speed": ages()}
    _, remarks, _ = said(tmp_path, columns)
    assert "Nothing will be shown of age, size, speed: 1,000 people give about 333" in remarks
    assert "sample = 3" in remarks
    _, remarks, _ = said(tmp_path, {"age": ages()})
    assert "Nothing will be shown" not in remarks


def test_a_column_without_a_name_is_called_that(tmp_path: Path) -> None:
    _, _, campaign = said(tmp_path, {"age": ages(), " ": ages()})
    assert "# Column (no name) was left out: it has no usable name.\n" in campaign


def test_an_empty_input_is_told_what_is_needed(tmp_path: Path) -> None:
    done = command.murmur("init", "c.toml", folder=tmp_path, stdin="", code=130)
    assert "Answers are read from the terminal" in done.stderr
    assert "--data FILE --yes needs none" in done.stderr
