"""The API's description of itself, made from the table of routes: OpenAPI 3.0."""

import re
from collections.abc import Iterable

from leveret import __version__
from leveret.management.http.json import JsonObject
from leveret.management.http.route import ANYONE, Route

PART = re.compile(r"\{([a-z_]+)\}")
PAGING: dict[str, JsonObject] = {
    "page": {"type": "integer", "minimum": 1},
    "page_size": {"type": "integer", "minimum": 1, "maximum": 500},
    "name": {"type": "string"},
    "use_regex": {"type": "string", "enum": ["true", "false"]},
    "columns": {"type": "string"},
    "sort": {"type": "string"},
    "sort_reverse": {"type": "string", "enum": ["true", "false"]},
}
ERROR: JsonObject = {
    "type": "object",
    "required": ["error", "reason"],
    "properties": {"error": {"type": "string"}, "reason": {"type": "string"}},
}
REFUSALS = {
    "400": "Invalid request",
    "401": "Not logged in, or not authorised",
    "404": "Not found",
    "503": "Unhealthy, or not available now",
}


def described(routes: Iterable[Route]) -> JsonObject:
    """All routes, each with its parameters and answers."""
    paths: dict[str, JsonObject] = {}
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
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "schemas": {"Error": ERROR},
        },
        "security": [{"basic": []}, {"bearer": []}],
    }


def operation(route: Route) -> JsonObject:
    parameters: list[JsonObject] = [parameter(name) for name in PART.findall(route.path)]
    if route.method == "GET":
        parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in PAGING.items()]
    found: JsonObject = {
        "summary": route.about,
        "operationId": route.method.lower() + re.sub(r"[^a-z0-9]+", "_", route.path.removeprefix("/api").lower()),
        "tags": [route.path.split("/")[2] if route.path.startswith("/api/") else "metrics"],
        "parameters": parameters,
        "responses": answers(route),
    }
    if route.method in ("PUT", "POST"):
        found["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
    if route.level == ANYONE:
        found["security"] = []
    return found


def parameter(name: str) -> JsonObject:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def answers(route: Route) -> JsonObject:
    refusal = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: JsonObject = {status: {"description": about, "content": refusal} for status, about in REFUSALS.items()}
    if route.method in ("GET", "POST"):
        found["200"] = {"description": route.about}
    if route.method in ("PUT", "POST"):
        found["201"] = {"description": "Created"}
    if route.method != "GET":
        found["204"] = {"description": "Done"}
    return found
