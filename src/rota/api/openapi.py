"""The OpenAPI document: what the framework derives from the routes, and what the middleware
adds."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rota.api.auth import OPEN_PATHS
from rota.api.idempotency import HEADER, REPLAYED
from rota.api.schemas.problem import Problem, problems

ABOUT = """
The Rota API. Send `Authorization: Bearer …` with every request, except to `/health` and `/ready`.
Errors are `application/problem+json`. Lists are paginated: pass `next_cursor` as `cursor`. A POST
with an `Idempotency-Key` can be repeated safely.
""".strip()
_KEY: dict[str, Any] = {
    "name": HEADER,
    "in": "header",
    "required": False,
    "description": "Repeating the request with the same key and body within a day returns "
    "the first response and does nothing again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
_REPLAYED: dict[str, Any] = {
    "description": "`true`: the stored response of an earlier request.",
    "schema": {"type": "string"},
}


def install(api: FastAPI) -> None:
    api.openapi = lambda: describe(api)  # type: ignore[method-assign]


def describe(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title, version=api.version, description=ABOUT, routes=api.routes
        )
        _add_components(found)
        _name_bounds(found)
        for path, operations in found["paths"].items():
            for method, operation in operations.items():
                if path in OPEN_PATHS:
                    operation["security"] = []
                if method == "post":
                    _add_key(operation)
        api.openapi_schema = found
    return api.openapi_schema


def _name_bounds(schema: Any) -> None:
    """Rename bounds: a duration may be a text too, so pydantic writes its own names for them."""
    if isinstance(schema, list):
        for one in schema:
            _name_bounds(one)
    elif isinstance(schema, dict):
        for name, real in (("ge", "minimum"), ("le", "maximum"), ("gt", "exclusiveMinimum")):
            if isinstance(schema.get(name), int | float):
                schema[real] = schema.pop(name)
        for one in schema.values():
            _name_bounds(one)


def _add_components(found: dict[str, Any]) -> None:
    components = found.setdefault("components", {})
    made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas = made.pop("$defs", {}) | {"Problem": made}
    components.setdefault("schemas", {}).update(schemas)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "description": "The admin token."}
    }
    found["security"] = [{"token": []}]


def _add_key(operation: dict[str, Any]) -> None:
    operation.setdefault("parameters", []).append(_KEY)
    responses = operation["responses"]
    responses.setdefault("409", problems(409)[409])
    for status, response in responses.items():
        if status.startswith("2"):
            response.setdefault("headers", {})[REPLAYED] = _REPLAYED
