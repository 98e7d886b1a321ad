"""The interface as programs see it: described truly, and tried by a program that reads it."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from murmuration.server.openapi import described
from murmuration.server.problems import PROBLEMS
from murmuration.server.routes import ROUTES
from murmuration.wire import report
from tests.support.accounts import campaign_of
from tests.support.collectors import PETS, Collector, one, running, uploads

CAMPAIGN = campaign_of(PETS)
DOCUMENT = msgspec.json.decode(msgspec.json.encode(described(ROUTES)))
EXAMPLES = 10
NOT_CHECKED = "positive_data_acceptance,negative_data_rejection"
"""A bad report in a list is refused alone, in an answer with status 200; 1.0 is not 1."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    texts = [PETS, one("open"), one("guarded", 'upload = "token"')]
    with running(tmp_path_factory.mktemp("openapi") / "store.db", *texts) as found:
        assert found.send("pets", uploads(CAMPAIGN, 1000)).json["stored"] == 1000
        yield found


def test_it_is_openapi() -> None:
    jsonschema_rs.validator_for(OPENAPI_31).validate(DOCUMENT)
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema_rs.meta.validate(schema)


@pytest.mark.slow
def test_it_has_all_routes_and_nothing_else(server: Collector) -> None:
    assert server.ask("GET", "/v1/openapi.json").json == DOCUMENT
    found = {(m.upper(), path) for path, methods in DOCUMENT["paths"].items() for m in methods}
    assert found == {(route.method, route.path) for route in ROUTES}
    operations = [o for methods in DOCUMENT["paths"].values() for o in methods.values()]
    assert len({operation["operationId"] for operation in operations}) == len(ROUTES)


def test_every_route_says_who_may_use_it() -> None:
    for route in ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        assert operation["x-policy"] == route.policy
        assert ("security" in operation) == (route.policy != "public")
        assert ("401" in operation["responses"]) == (route.policy != "public")


def test_every_reference_leads_somewhere() -> None:
    names = re.findall(r"#/components/schemas/(\w+)", msgspec.json.encode(DOCUMENT).decode())
    assert set(names) == set(DOCUMENT["components"]["schemas"])


def test_every_problem_of_a_request_is_described() -> None:
    """Statuses of problems that concern a whole request, except those of wrong addresses."""
    described_ones = {
        int(status)
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
        for status in operation["responses"]
    }
    whole = {status for name, (status, _) in PROBLEMS.items() if name not in report.REASONS}
    assert described_ones == whole - {405} | {200, 204, 303, 304}


def test_a_report_of_a_device_is_one_by_the_document() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    schema: dict[str, Any] = {**schemas["Report"], "components": {"schemas": schemas}}
    validator = jsonschema_rs.validator_for(schema)
    fine = uploads(CAMPAIGN, 20)
    for one_of_them in fine:
        validator.validate(one_of_them)
    for bad in (
        {"id": "x"},
        {"wire": 2},
        {"version": 1},
        {"digest": ""},
        {"entries": [[-1]]},
        {"more": 1},
    ):
        assert not validator.is_valid({**fine[0], **bad})


@pytest.mark.slow
def test_schemathesis_finds_nothing(server: Collector, tmp_path: Path) -> None:
    """Hundreds of requests made from the document: no status and no shape that is not in it."""
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run"),
        f"http://127.0.0.1:{server.port}/v1/openapi.json",
        *("--header", f"Authorization: Bearer {server.admin}"),
        *("--checks", "all", "--exclude-checks", NOT_CHECKED),
        *("--max-examples", str(EXAMPLES), "--generation-deterministic", "--no-color"),
        *("--continue-on-failure", "--warnings", "off"),
    ]
    quiet = {k: v for k, v in os.environ.items() if not k.startswith(("COV", "PYTEST"))}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=quiet)
    assert done.returncode == 0, done.stdout + done.stderr
    (generated,) = re.findall(r"(\d+) generated", done.stdout)
    assert int(generated) > 300
    assert server.status("pets")["people"] == 1000
    assert 'status="5' not in server.get("/metrics").body.decode()
    assert "ERROR" not in server.log
