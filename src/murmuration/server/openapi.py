"""OpenAPI 3.1, built from the routes and from the types that are really decoded and encoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from murmuration.analysis import figures
from murmuration.analysis.combine import NAMES
from murmuration.analysis.tables import VIEWS
from murmuration.campaign.kind import WIRE
from murmuration.definition.schema import NAME
from murmuration.server.access import BY_BROWSER
from murmuration.server.planner import Question
from murmuration.server.problems import PROBLEMS
from murmuration.server.responses import Described
from murmuration.wire import report

if TYPE_CHECKING:
    from murmuration.server.routes import Route

PLACE = "#/components/schemas/{name}"
ALWAYS = ("bad-request", "head-too-large", "too-many-requests", "internal")
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
    ("POST", "/reports"): (*BODIES, "unsupported-type", "no-round"),
    ("POST", "/tally"): (*BODIES, "unsupported-type", "mismatched-tally", "is-training"),
    ("GET", "/tally"): ("is-training",),
    ("GET", "/estimates"): ("cohort-too-small", "is-training", "bad-parameter", "not-acceptable"),
    ("GET", "/trend"): ("is-training", "bad-parameter"),
    ("GET", "/round"): ("no-round", "no-training"),
    ("GET", "/rounds/{number}"): ("not-found", "no-training"),
    ("GET", "/model"): ("no-model", "no-training", "bad-parameter"),
    ("OPTIONS", "/round"): ("origin-not-named",),
    ("GET", "/ready"): ("store-unavailable",),
    ("GET", "/problems/{problem}"): ("not-found",),
    ("GET", "/client/{file}"): ("not-found",),
    ("GET", "/pages/{file}"): ("not-found",),
    ("POST", "/v1/plan"): (*BODIES, "bad-plan", "unsupported-type"),
    ("GET", "/sign-in"): ("bad-code", "store-unavailable", "store-full"),
    ("POST", "/sign-out"): ("other-page", "store-unavailable", "store-full"),
    ("OPTIONS", "/{campaign}"): ("origin-not-named",),
    ("OPTIONS", "/reports"): ("origin-not-named",),
}
IN_PATHS: dict[str, dict[str, Any]] = {
    "campaign": {"type": "string", "pattern": f"^{NAME.pattern}$"},
    "problem": {"type": "string", "enum": list(PROBLEMS)},
    "file": {"type": "string", "pattern": "^[A-Za-z0-9._-]+$"},
    "number": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
}
FIELDS: dict[str, dict[str, Any]] = {
    "digest": {"pattern": "^[0-9a-f]{64}$", "description": "The campaign document's digest."},
    "wire": {"const": WIRE, "description": "This format. The campaign's version is another thing."},
    "version": {
        "const": WIRE,
        "deprecated": True,
        "description": "What earlier devices called wire: exactly one of the two is there.",
    },
    "id": {
        "pattern": "^[0-9a-fA-F]{32}$",
        "description": "16 bytes that tell nothing: not the time, not the device. "
        "A report that is sent again has the same id and is counted once.",
    },
    "period": {
        "minimum": 0,
        "description": "The number of the period, where the campaign has periods; else left out.",
    },
    "entries": {
        "items": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "description": "For each: the number of a cell (its place in the cells of the document's "
        "collection), then the octets of that cell's report.",
    },
}
"""What a report's fields are, beyond their types: one that is not like that is refused alone."""
KEPT = (
    "document",
    "client",
    "page_file",
    "dashboard",
    "planner",
    "participant",
    "proof",
    "sign_in",
)
"""What has a tag, so that it need not be sent again."""
COLLECTION = "JSON as text, because the digest is over these bytes: attributes, cells and laws."
OCTETS = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


def described(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the whole document."""
    answers = [route.answer for route in routes if not isinstance(route.answer, str | None)]
    types = [report.Report, Described, Question, *answers]
    schemas, components = msgspec.json.schema_components(types, ref_template=PLACE)
    fields = components["Report"]["properties"]
    components["Document"]["properties"]["collection"]["description"] = COLLECTION
    components["Report"]["properties"] = {name: {**fields[name], **FIELDS[name]} for name in fields}
    components["Report"]["oneOf"] = [{"required": ["wire"]}, {"required": ["version"]}]
    schema_of = dict(zip(map(str, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, schema_of)
        if route.path.endswith("/reports") and route.method == "POST":
            operation["requestBody"] = _report_body(schema_of[str(report.Report)])
        if route.path == "/v1/plan":
            content = {figures.JSON: {"schema": schema_of[str(Question)]}}
            operation["requestBody"] = {"required": True, "content": content}
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Murmuration collector", "version": "1"},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": "murmur-NAME"},
            },
        },
    }


def _report_body(schema: dict[str, Any]) -> dict[str, Any]:
    many = {"type": "array", "items": schema, "maxItems": report.MOST_REPORTS}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {report.JSON: {"schema": {"anyOf": [schema, many]}}, report.BINARY: binary}
    return {"required": True, "content": content}


def _operation(route: Route, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "responses": _responses(route, schema_of),
        "x-policy": route.policy,
    }
    names = [part[1:-1] for part in route.path.split("/") if part.startswith("{")]
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": IN_PATHS[name]} for name in names
    ]
    if route.path.endswith("/estimates"):
        parameters += _estimate_parameters()
    if route.path.endswith("/trend"):
        kept = ("confidence", "about", "combine", "together", "liars")
        parameters += [
            parameter for parameter in _estimate_parameters() if parameter["name"] in kept
        ]
    if route.path.endswith("/model"):
        parameters += [
            parameter for parameter in _estimate_parameters() if parameter["name"] == "liars"
        ]
    if route.path == "/sign-in":
        parameters.append({"name": "code", "in": "query", "schema": {"type": "string"}})
    if parameters:
        operation["parameters"] = parameters
    if route.path.endswith("/tally") and route.method == "POST":
        operation["requestBody"] = {"required": True, "content": OCTETS}
    if route.policy != "public":
        more: list[dict[str, list[str]]] = [{}] if route.policy == "device" else []
        more += [{"session": []}] if route.policy in BY_BROWSER else []
        operation["security"] = [{"token": []}, *more]
    return operation


def _estimate_parameters() -> list[dict[str, Any]]:
    confidence = {"type": "number", "exclusiveMinimum": 0, "maximum": figures.MOST_CONFIDENCE}
    about = {"type": "string", "enum": list(figures.ABOUT)}
    form = {"type": "string", "enum": list(figures.FORMATS)}
    combine = {"type": "string", "enum": list(NAMES)}
    together = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    schemas = {
        **{"confidence": confidence, "about": about, "combine": combine, "together": together},
        **{"period": {"type": "string"}, "since": {"type": "string"}},
        "tables": {"type": "string", "enum": list(VIEWS)},
        "liars": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
        "format": form,
    }
    return [{"name": name, "in": "query", "schema": schema} for name, schema in schemas.items()]


def _responses(route: Route, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of success and every problem that this route can have."""
    answers: dict[str, Any] = {"204": {"description": route.summary}}
    if route.path == "/sign-out":
        answers = {"303": {"description": "Signed out: on to the sign-in page"}}
    if route.answer is not None:
        content = _success(route, schema_of)
        answers = {"200": {"description": route.summary, "content": content}}
    if route.path.endswith("/proof"):
        answers["303"] = {
            "description": "Of a training: on to the participant's page, which has it"
        }
    if route.path == "/sign-in":
        answers["303"] = {"description": "Signed in: on to the dashboard"}
    if route.handler.__name__ in KEPT:
        answers["304"] = {"description": "Not changed"}
    for name in _problems_of(route):
        status, title = PROBLEMS[name]
        shape = {report.PROBLEM: {"schema": schema_of[str(Described)]}}
        if route.page:
            shape = {**shape, **_success(route, schema_of)}
        answers.setdefault(str(status), {"description": title, "content": shape})
    return answers


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


def _success(route: Route, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(route.answer, str):
        return {route.answer: {"schema": {"type": "string"}}}
    content: dict[str, Any] = {figures.JSON: {"schema": schema_of[str(route.answer)]}}
    if route.path.endswith("/estimates"):
        for media in (figures.CSV, figures.PARQUET):
            content[media] = {"schema": {"type": "string"}}
    if route.path.endswith("/live"):
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return content
