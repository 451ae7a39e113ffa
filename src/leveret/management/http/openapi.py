"""The API's own description, made of the table of routes: OpenAPI 3.0."""

import re
from collections.abc import Iterable
from typing import Any

from leveret import __version__
from leveret.management.http.route import ANYONE, Route

PART = re.compile(r"\{([a-z_]+)\}")
PAGING = {
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": 500},
    "name": {"type": "string"},
    "use_regex": {"type": "string", "enum": ["true", "false"]},
    "columns": {"type": "string"},
    "sort": {"type": "string"},
    "sort_reverse": {"type": "string", "enum": ["true", "false"]},
}
ERROR = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
REFUSALS = {"400": "it cannot be done so", "401": "not you", "404": "there is no such thing", "503": "not well"}


def described(routes: Iterable[Route]) -> dict[str, Any]:
    """All routes, each with its parameters and answers."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "Leveret's HTTP API",
            "version": __version__,
            "description": "RabbitMQ 3.13's management API, and more.",
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {"basic": {"type": "http", "scheme": "basic"}},
            "schemas": {"Error": ERROR},
        },
        "security": [{"basic": []}],
    }


def operation(route: Route) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": route.about,
        "operationId": route.method.lower() + re.sub(r"[^a-z0-9]+", "_", route.path.removeprefix("/api").lower()),
        "tags": [route.path.split("/")[2] if route.path.startswith("/api/") else "metrics"],
        "parameters": [parameter(name) for name in PART.findall(route.path)],
        "responses": answers(route),
    }
    if route.method == "GET":
        found["parameters"] += [{"name": name, "in": "query", "schema": schema} for name, schema in PAGING.items()]
    if route.method in ("PUT", "POST"):
        found["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    if route.level == ANYONE:
        found["security"] = []
    return found


def parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def answers(route: Route) -> dict[str, Any]:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {status: {"description": about, "content": refusal} for status, about in REFUSALS.items()}
    if route.method in ("GET", "POST"):
        found["200"] = {"description": route.about}
    if route.method in ("PUT", "POST"):
        found["201"] = {"description": "made"}
    if route.method != "GET":
        found["204"] = {"description": "done"}
    return found
