"""A collector is a host: the same list of spellings for all languages."""

from __future__ import annotations

import json

from murmuration.wire.address import Address, collector_of
from tests.support.vectors import VECTORS


def test_all_spellings_of_a_host_are_one_collector() -> None:
    """And no two hosts are: a person's limit on a collector is a limit on a host."""
    lists = json.loads((VECTORS / "hosts.json").read_text())["collectors"]
    found = [{collector_of(Address.parse(url).origin) for url in urls} for urls in lists]
    assert [len(hosts) for hosts in found] == [1] * len(lists)
    assert len(set().union(*found)) == len(lists)
