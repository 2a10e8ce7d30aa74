"""The one format of errors, and which errors an endpoint may answer with."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from rota.api.errors import MEDIA_TYPE


class FieldProblem(BaseModel):
    """An invalid value."""

    field: str = Field(description="Path of the value: `priority`, `tags[0]`, `filter.states[1]`.")
    code: str = Field(description="Machine-readable code.")
    message: str = Field(description="Human-readable message.")


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:rota:problem:run_not_found",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "there is no run 7",
                    "code": "run_not_found",
                }
            ]
        }
    )

    type: str = Field(description="Identifier of the kind of problem.")
    title: str = Field(description="HTTP status phrase.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What is wrong here.")
    code: str = Field(description="Machine-readable code of the problem; the last part of `type`.")
    operation: str | None = Field(
        default=None, description="Operation that refused: the `operationId` of the endpoint."
    )
    field: str | None = Field(default=None, description="Name of the invalid field.")
    values: dict[str, Any] | None = Field(
        default=None, description="Names and numbers in `detail`."
    )
    hint: str | None = Field(default=None, description="What to do about it.")
    errors: list[FieldProblem] | None = Field(default=None, description="All invalid values.")


_EXAMPLES: dict[int, tuple[str, str, str]] = {
    400: ("malformed", "The request is malformed.", "the body is not JSON: …"),
    401: (
        "unauthorized",
        "The token is missing or wrong.",
        "authentication required: send Authorization: Bearer …",
    ),
    403: (
        "cross_site",
        "Requests from this origin are not allowed.",
        "requests from other sites are refused",
    ),
    404: ("run_not_found", "Not found.", "there is no run 7"),
    408: ("request_timeout", "The body arrived too slowly.", "the body did not arrive in time"),
    409: ("wrong_state", "Not allowed in its current state.", "run 7 is running"),
    412: (
        "version_conflict",
        "It has changed since the `If-Match` version was read.",
        'schedule "digest" has changed: it is at version 4, not 3',
    ),
    413: ("body_too_large", "The body is too large.", "the body must have at most 2097152 bytes"),
    415: (
        "unsupported_media_type",
        "The body is not JSON.",
        "the body must be application/json, not 'text/plain'",
    ),
    422: ("invalid", "A value is invalid.", "priority: Input should be less than or equal to 9"),
    429: (
        "too_many_requests",
        "Too many failed requests, a full queue, or a tenant over its quota.",
        "more than 10 failed requests per second",
    ),
    500: (
        "internal",
        "Internal server error.",
        "internal error; see the server's log",
    ),
    503: ("database_unavailable", "The database is unavailable.", "the database cannot be reached"),
    504: ("database_timeout", "The request timed out.", "the database did not respond in time"),
}
ALWAYS = (400, 401, 403, 422, 429, 500, 503, 504)
WITH_BODY = (408, 413, 415)
_HEADERS: dict[int, dict[str, Any]] = {
    429: {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "string"}}},
    401: {
        "WWW-Authenticate": {"description": "How to authenticate.", "schema": {"type": "string"}},
    },
}


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return `responses=` of a route or router."""
    return {status: _response(status) for status in statuses}


def _response(status: int) -> dict[str, Any]:
    code, description, detail = _EXAMPLES[status]
    example = {
        "type": f"urn:rota:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    content = {"schema": {"$ref": "#/components/schemas/Problem"}, "example": example}
    found: dict[str, Any] = {"description": description, "content": {MEDIA_TYPE: content}}
    return found | ({"headers": _HEADERS[status]} if status in _HEADERS else {})
