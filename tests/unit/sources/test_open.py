"""Where analysts read: what goes along, and where to."""

from __future__ import annotations

from pathlib import Path

import pytest

from murmuration.collector.store import open_store
from murmuration.errors import ParameterError
from murmuration.sources.open import open_source
from tests.support.between import answering, free_port


def test_a_token_for_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with answering(lambda number, body: (200, {}, b"{}")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.partition("/v1")[0])
        collector = f"http://localhost:{free_port()}/v1/campaigns/phones"
        with pytest.raises(ConnectionError):
            open_source(collector, "", "murmur_secret").status()


@pytest.mark.parametrize(
    "where",
    ["http://ann:secret@host/v1/campaigns/x", "https://host/?x=1", "https://", "http://h:x"],
)
def test_what_is_no_address_of_a_collector_is_refused(where: str) -> None:
    with pytest.raises(ParameterError, match="not an address of a campaign") as told:
        open_source(where, "x")
    assert "secret" not in str(told.value)


def test_a_token_needs_a_protected_way() -> None:
    there = "http://collector.example/v1/campaigns/x"
    with pytest.raises(ParameterError, match=r"collector.example .* plain HTTP"):
        open_source(there, token="murmur_secret")  # noqa: S106 - it goes nowhere
    for fine in (
        open_source(there),  # nothing secret goes along
        open_source(there, token="murmur_secret", plain_http=True),  # noqa: S106
        open_source(there.replace("http:", "https:"), token="murmur_secret"),  # noqa: S106
    ):
        fine.close()


def test_a_store_without_that_campaign_is_closed_again(tmp_path: Path) -> None:
    open_store(tmp_path / "store.db").close()
    with pytest.raises(ParameterError, match="this store has none"):
        open_source(str(tmp_path / "store.db"))
