"""Routes that accept only declared parameters, and paths whose names may contain a slash."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from itertools import islice
from typing import Any, NoReturn
from urllib.parse import unquote, unquote_to_bytes

from fastapi import APIRouter, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api.errors import MOST_PROBLEMS, ProblemError, as_validation_problem, of_any
from rota.api.unknown import unknown
from rota.model.json_bounds import parse_json

# Replaces a slash inside a name while the path is split at slashes. From the private use area.
_SLASH = "\uf8f0"


_HEADER_BYTES = 32 * 1024
_NO_BYTE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class StrictRequest(Request):
    """Refuses values that are not JSON, and texts that Postgres cannot store."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = _parse(await self.body())
        return self._json


def _parse(body: bytes) -> Any:
    try:
        found = parse_json(body)
    except (ValueError, RecursionError) as error:
        _refuse(f"the body is not JSON: {str(error)[:200]}")
    if b"\\u" in body:
        _check_texts(found)
    return found


def _refuse(detail: str) -> NoReturn:
    raise ProblemError(400, "malformed", detail)


def _check_texts(value: Any) -> None:
    match value:
        case str():
            if "\0" in value:
                _refuse("a string contains a NUL character, which Postgres cannot store")
            if any("\ud800" <= letter <= "\udfff" for letter in value):
                _refuse("a string contains half of a surrogate pair, which Postgres cannot store")
        case list():
            for one in value:
                _check_texts(one)
        case dict():
            for key, one in value.items():
                _check_texts(key)
                _check_texts(one)


class StrictRoute(APIRoute):
    """Refuses parameters that the route does not declare: one may be a mistyped filter."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        known = set(_query_names(self.dependant))
        body = self.body_field.field_info.annotation if self.body_field else None

        async def strict(request: Request) -> Response:
            _check_parameters(request, known)
            request.path_params.update(
                {
                    name: given_name(value) if isinstance(value, str) else value
                    for name, value in request.path_params.items()
                }
            )
            try:
                return await handle(StrictRequest(request.scope, request.receive))
            except RequestValidationError as error:
                raise as_validation_problem(error, body) from error

        return strict


def _check_parameters(request: Request, known: Collection[str]) -> None:
    wrong = (name for name in dict.fromkeys(request.query_params) if name not in known)
    found = [
        {"field": name, "code": "unknown_parameter", "message": unknown("parameter", name, known)}
        for name in islice(wrong, MOST_PROBLEMS)
    ]
    if found:
        first = found[0]
        raise ProblemError(
            422, first["code"], first["message"], field=first["field"], problems=found
        )


def given_name(part: str) -> str:
    """Return the original name from its part of a path."""
    return part.replace(_SLASH, "/")


def _query_names(dependant: Any) -> Iterator[str]:
    for param in dependant.query_params:
        yield param.alias
    for inner in dependant.dependencies:
        yield from _query_names(inner)


def router(*tags: str) -> APIRouter:
    """Return a router for one noun, under /api/v1."""
    return APIRouter(route_class=StrictRoute, tags=list(tags))


class Paths:
    """Keeps an encoded slash inside its name; refuses NUL characters, which no name and no filter
    can contain; and answers for errors that are raised below."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        is_started = False

        async def watch(message: Any) -> None:
            nonlocal is_started
            is_started = is_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(whole_names(scope), receive, watch)
        except Exception as error:
            if is_started:
                raise
            await of_any(error).response()(scope, receive, send)


def whole_names(scope: Scope) -> Scope:
    """Return a scope whose path has a mark for each slash inside a name; `given_name` reverts
    it."""
    if scope["type"] != "http":
        return scope
    raw: bytes = scope.get("raw_path") or b""
    _check_address(raw.partition(b"?")[0])
    _check_address(scope.get("query_string", b""))
    if "\0" in scope["path"]:
        _refuse("a URL cannot contain a NUL character")
    if not scope["path"].startswith("/"):
        _refuse("a URL path must start with a slash")
    _check_headers(scope["headers"])
    if b"%2f" in raw.lower():
        parts = raw.partition(b"?")[0].decode("latin-1").split("/")
        path = "/".join(unquote(part).replace("/", _SLASH) for part in parts)
        return {**scope, "path": path}
    return scope


def _check_headers(headers: Sequence[tuple[bytes, bytes]]) -> None:
    if sum(len(name) + len(value) + 4 for name, value in headers) > _HEADER_BYTES:
        raise ProblemError(
            431, "headers_too_large", f"headers must have at most {_HEADER_BYTES} bytes"
        )
    if {b"content-length", b"transfer-encoding"} <= {name for name, _ in headers}:
        # A proxy may disagree about where this request ends and the next one begins.
        raise ProblemError(
            400, "malformed", "the body's length is given twice", headers={"Connection": "close"}
        )


def _check_address(raw: bytes) -> None:
    """Refuse bytes that are not UTF-8: decoded leniently, they would be another name."""
    if b"%" not in raw:
        return
    if _NO_BYTE.search(raw):
        _refuse("a % in a URL must be followed by two hexadecimal digits")
    try:
        text = unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        _refuse("a URL must be UTF-8")
    if "\0" in text:
        _refuse("a URL cannot contain a NUL character")
