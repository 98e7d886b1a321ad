"""OpenAPI 3.1, built from the routes and from the types that are really decoded and encoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from murmuration import report
from murmuration.server import figures
from murmuration.server.problems import MEDIA_TYPE, PROBLEMS

if TYPE_CHECKING:
    from murmuration.server.app import Route

ALWAYS = ("too-many-requests", "internal")
SECURED = ("unauthorized", "forbidden", "store-unavailable")
BODIES = (
    "unreadable-body",
    "too-slow",
    "too-large",
    "overloaded",
    "store-unavailable",
    "store-full",
)
"""What can go wrong wherever a body is read."""
PROBLEMS_OF: dict[tuple[str, str], tuple[str, ...]] = {
    ("POST", "/reports"): (*BODIES, "unsupported-type"),
    ("POST", "/tally"): (*BODIES, "unsupported-type", "mismatched-tally"),
    ("GET", "/estimates"): ("cohort-too-small", "bad-parameter", "not-acceptable"),
    ("GET", "/ready"): ("store-unavailable",),
    ("GET", "/problems/{problem}"): ("not-found",),
}
OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["type", "title", "status"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
    },
}


def described(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the whole document."""
    from murmuration.server.app import Receipt

    (report_schema, receipt_schema), components = msgspec.json.schema_components(
        [report.Report, Receipt], ref_template="#/components/schemas/{name}"
    )
    components["Report"]["properties"]["id"] = {"type": "string", "pattern": "^[0-9a-fA-F]{32}$"}
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route)
        if route.path.endswith("/reports"):
            operation["requestBody"] = _report_body(report_schema)
            operation["responses"]["200"]["content"] = {
                "application/json": {"schema": receipt_schema}
            }
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Murmuration collector", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": PROBLEM_SCHEMA},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _report_body(schema: dict[str, Any]) -> dict[str, Any]:
    many = {"type": "array", "items": schema, "maxItems": report.MOST_REPORTS}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {report.JSON: {"schema": {"anyOf": [schema, many]}}, report.BINARY: binary}
    return {"required": True, "content": content}


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "responses": _responses(route),
        "x-policy": route.policy,
    }
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    text = {"type": "string"}
    parameters = [{"name": n, "in": "path", "required": True, "schema": text} for n in names]
    if route.path.endswith("/estimates"):
        parameters += _estimate_parameters()
    if parameters:
        operation["parameters"] = parameters
    if route.path.endswith("/tally") and route.method == "POST":
        operation["requestBody"] = {"required": True, "content": OCTETS}
    if route.policy != "public":
        operation["security"] = [{"token": []}, {}] if route.policy == "device" else [{"token": []}]
    return operation


def _estimate_parameters() -> list[dict[str, Any]]:
    level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    about = {"type": "string", "enum": ["participants", "population"]}
    form = {"type": "string", "enum": list(figures.FORMATS)}
    schemas = {"level": level, "about": about, "format": form}
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


def _responses(route: Route) -> dict[str, Any]:
    """Return the answer of success and every problem that this route can have."""
    found: dict[str, Any] = {"200": {"description": route.summary, "content": _success(route)}}
    if route.path.endswith("{campaign}"):
        found["304"] = {"description": "Not changed"}
    for name in _problems_of(route):
        status, title = PROBLEMS[name]
        shape = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        found.setdefault(str(status), {"description": title, "content": shape})
    return found


def _problems_of(route: Route) -> list[str]:
    own = [
        name
        for (method, end), names in PROBLEMS_OF.items()
        if method == route.method and route.path.endswith(end)
        for name in names
    ]
    campaign = ["unknown-campaign"] if "{campaign}" in route.path else []
    secured = list(SECURED) if route.policy != "public" else []
    return [*own, *campaign, *secured, *ALWAYS]


def _success(route: Route) -> dict[str, Any]:
    if route.path.endswith("/tally") and route.method == "GET":
        return OCTETS
    if route.path == "/metrics":
        return {"text/plain": {"schema": {"type": "string"}}}
    plain: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    if route.path.endswith("/estimates"):
        for media in (figures.CSV, figures.PARQUET):
            plain[media] = {"schema": {"type": "string"}}
    return plain
