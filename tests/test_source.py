"""Where analysts read: what goes along, and where to."""

from __future__ import annotations

import pytest

from between import answering, free_port
from murmuration.analysis.open import open_source


def test_a_token_for_this_machine_goes_to_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with answering(lambda number, body: (200, {}, b"{}")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.partition("/v1")[0])
        collector = f"http://localhost:{free_port()}/v1/campaigns/phones"
        with pytest.raises(ConnectionError):
            open_source(collector, "", "murmur_secret").status()
