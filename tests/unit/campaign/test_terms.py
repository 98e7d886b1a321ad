"""Terms are one struct: one that is added there is everywhere, and no device of today minds it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import murmuration
from murmuration.campaign.survey import SurveyCampaign
from murmuration.campaign.terms import READ, WRITTEN, Terms, Told
from murmuration.definition import document
from murmuration.definition.load import parse
from murmuration.definition.resolve import FORM as SURVEY
from murmuration.definition.training import FORM as TRAINING
from murmuration.errors import FormatError, ParameterError
from tests.support import warm

FILE = """
name = "moods"
purpose = "How people are."
epsilon = 1.0
[[attributes]]
name = "mood"
kind = "category"
labels = ["good", "bad"]
"""
ADDED = '    added_later: Annotated[str, _in_file("Whom to ask.", "us@example.org")] = ""\n'
SCRIPT = f"""
import json, sys
from murmuration.definition import document, load, write
plain = load.read({FILE!r})
told = load.read({FILE!r}.replace("epsilon", "added_later = 'us@example.org'\\nepsilon"))
assert told.terms.added_later == "us@example.org"
assert told.asked == plain.asked and told.campaign.digest == plain.campaign.digest
published = document.publish(told.campaign)
assert document.read(published).terms == told.terms
assert b"added_later" not in document.publish(plain.campaign)
text = write.written("a", "b", 1.0, 100, [write.Draft("x", 0.0, 1.0)])
assert "# Whom to ask.\\n# added_later = us@example.org" in text
from murmuration.cli.terms import terms_data
assert terms_data(told.terms)["added_later"] == "us@example.org"
sys.stdout.write(json.dumps([published.decode(), document.publish(plain.campaign).decode()]))
"""


@pytest.fixture(scope="module")
def later(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """Documents of a release with one more term: one line is added to the struct, and no other."""
    folder = tmp_path_factory.mktemp("later")
    source = Path(murmuration.__file__).parent
    ignored = shutil.ignore_patterns("static", "__pycache__")
    shutil.copytree(source, folder / "murmuration", ignore=ignored)
    terms = folder / "murmuration" / "campaign" / "terms.py"
    text, last = terms.read_text(), "\n\nclass Terms(Told"
    assert text.count(last) == 1
    terms.write_text(text.replace(last, f"{ADDED}{last}"))
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**warm.unmeasured(), "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    told, plain = json.loads(run.stdout)
    return told.encode(), plain.encode()


def test_a_term_is_added_in_one_place_and_no_device_of_today_minds(later) -> None:
    told, plain = later
    assert json.loads(told)["added_later"] == "us@example.org"
    today = document.read(told, SurveyCampaign)
    assert today == document.read(plain, SurveyCampaign)
    assert document.publish(today) == plain == document.publish(parse(FILE))


def test_a_key_of_the_collection_must_be_known(later) -> None:
    outside = json.loads(later[1])
    outside["collection"] = outside["collection"].replace("{", '{"added_later":"x",', 1)
    with pytest.raises(FormatError, match="unknown field `added_later`"):
        document.read(json.dumps(outside).encode())


@pytest.mark.parametrize("key", WRITTEN)
def test_a_term_that_is_always_written_cannot_be_left_out(later, key: str) -> None:
    outside = json.loads(later[1])
    del outside[key]
    with pytest.raises(FormatError, match=f"has no {key}"):
        document.read(json.dumps(outside).encode())


def test_all_lists_of_terms_are_made_from_the_struct() -> None:
    for form in (SURVEY, TRAINING):
        assert set(Told.__struct_fields__) < set(form.table.__struct_fields__)
    assert set(READ) <= set(Terms.__struct_fields__)
    assert Terms.keys()[: len(READ)] == list(READ)


def test_terms_that_cannot_be_are_refused() -> None:
    terms = Terms(purpose="p")
    for change in ({"cohort": 99}, {"people": 0}, {"upload": "anyone"}, {"grace": -1}):
        with pytest.raises(ParameterError, match=next(iter(change))):
            msgspec.structs.replace(terms, **change)
