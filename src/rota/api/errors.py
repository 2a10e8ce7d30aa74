"""The one format of all errors: application/problem+json (RFC 9457)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from rota import errors
from rota.api.unknown import fields_at, unknown
from rota.api.words import API
from rota.hints import Words
from rota.telemetry.logger import get_logger

MEDIA_TYPE = "application/problem+json"

# The status of each error of Rota; a subclass that is not listed has its parent's.
STATUS: dict[type[errors.RotaError], int] = {
    errors.RotaError: 500,
    errors.ConfigError: 500,
    errors.UnknownOption: 422,
    errors.EmbeddedError: 503,
    errors.SchemaError: 503,
    errors.JobError: 422,
    errors.TimingError: 422,
    errors.TemplateNotFound: 404,
    errors.InputError: 422,
    errors.PayloadError: 422,
    errors.FilterError: 422,
    errors.SearchError: 422,
    errors.UnknownJob: 404,
    errors.DuplicateKey: 409,
    errors.RunNotFound: 404,
    errors.ScheduleNotFound: 404,
    errors.CalendarNotFound: 404,
    errors.QueueNotFound: 404,
    errors.TenantNotFound: 404,
    errors.QuotaExceeded: 429,
    errors.QueueFull: 429,
    errors.LimitNotFound: 404,
    errors.LimitError: 422,
    errors.WorkerNotFound: 404,
    errors.ErrorGroupNotFound: 404,
    errors.AuditEntryNotFound: 404,
    errors.EventNotFound: 404,
    errors.WatchNotFound: 404,
    errors.BulkActionNotFound: 404,
    errors.ViewNotFound: 404,
    errors.WrongState: 409,
    errors.VersionConflict: 412,
    errors.LeaseLost: 409,
    errors.AttemptTimeout: 500,
    errors.RunFailed: 409,
    errors.WaitTimeout: 504,
    errors.ResultError: 500,
    errors.MissingExtra: 500,
    errors.DatabaseError: 500,
}
# Errors of the database, by the beginning of their SQLSTATE: the status, the code of the problem,
# and whether the server's own message may be shown.
_DATABASE: tuple[tuple[str, int, str, bool], ...] = (
    ("57014", 504, "database_timeout", False),
    ("40", 503, "database_busy", False),
    ("55P03", 503, "database_busy", False),
    ("08", 503, "database_unavailable", False),
    ("53100", 503, "database_full", False),
    ("25006", 503, "database_read_only", False),
    ("53", 503, "database_unavailable", False),
    ("57P", 503, "database_unavailable", False),
    ("22", 422, "refused_by_database", True),
    # It names a constraint, and may quote a row that the caller may not see.
    ("23", 422, "refused_by_database", False),
)
_TEXTS = {
    "database_timeout": "the database did not respond in time",
    "database_busy": "the same rows are locked by another transaction: try again",
    "database_full": "the database's disk is full",
    "database_read_only": "the database is read-only, as during a fail-over: try again",
    "database_unavailable": "the database cannot be reached",
    "refused_by_database": "the database rejected this; see the server's log",
}
_UNKNOWN = "unknown_field"
# The number of problems that are listed for one request.
MOST_PROBLEMS = 20
_LONGEST_NAME = 200
_LONGEST_TEXT = 2000
_log = get_logger("api")
_QUIET_SECONDS = 30.0


class Often:
    """Limits the rate of a log message that every request would cause while the database is
    unavailable or busy."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._said: dict[str, float] = {}

    def may_say(self, what: str) -> bool:
        now = self._now()
        if what in self._said and now - self._said[what] < _QUIET_SECONDS:
            return False
        self._said[what] = now
        return True


_often = Often()


class ProblemError(HTTPException):
    """Raised anywhere below the API to answer with a problem."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        field: str | None = None,
        hint: str | None = None,
        operation: str | None = None,
        values: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        problems: Sequence[Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(status, detail, headers=dict(headers or {}))
        self.code, self.field, self.hint, self.problems = code, field, hint, problems
        self.operation, self.values = operation, values

    def body(self) -> dict[str, Any]:
        content: dict[str, Any] = {
            "type": f"urn:rota:problem:{self.code}",
            "title": HTTPStatus(self.status_code).phrase,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
        }
        more = {
            "operation": self.operation,
            "field": self.field,
            "values": self.values or None,
            "hint": self.hint,
            "errors": self.problems,
        }
        found = content | {name: value for name, value in more.items() if value is not None}
        return {name: _cut(value) for name, value in found.items()}

    def response(self) -> JSONResponse:
        return JSONResponse(
            self.body(), self.status_code, headers=self.headers, media_type=MEDIA_TYPE
        )


def _cut(value: Any) -> Any:
    """Cut texts that quote a large value of the request."""
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]}…"
    if isinstance(value, Mapping):
        return {name: _cut(one) for name, one in value.items()}
    return [_cut(one) for one in value] if isinstance(value, list | tuple) else value


def as_problem(error: errors.RotaError, words: Words = API) -> ProblemError:
    """Return the problem in the words of the API, or of a page."""
    if isinstance(error, errors.DatabaseError):
        return _of_database(error)
    kind = next(ancestor for ancestor in type(error).__mro__ if ancestor in STATUS)
    status = STATUS[kind]
    if status == 500:
        return internal(error)
    headers = {"Retry-After": "5"} if status == 503 else None
    if status == 503:
        # The address and the state of the database are hidden from callers.
        _log.error("the database is unavailable", error=str(error))
        detail = (kind.__doc__ or "").strip() or "not available"
        return ProblemError(status, error.code, detail, headers=headers)
    return ProblemError(
        status,
        error.code,
        error.sentence(words),
        field=error.field,
        hint=words.hint(error.advice),
        operation=error.operation,
        values={name: _plain(it) for name, it in error.values.items()},
    )


def _plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(it) for name, it in value.items()}
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, str | int | float | None) and is_finite else str(value)


def _of_database(error: errors.DatabaseError) -> ProblemError:
    state = error.sqlstate
    if state is None:
        state = "08"  # the driver could not even send the statement
    for start, status, code, is_shown in _DATABASE:
        if state.startswith(start):
            detail = str(error) if is_shown else _TEXTS[code]
            headers = {"Retry-After": "1"} if status == 503 else None
            if not is_shown and _often.may_say(code):
                _log.warning(detail, sqlstate=error.sqlstate, error=str(error))
            return ProblemError(status, code, detail, headers=headers)
    return internal(error)


def internal(error: BaseException) -> ProblemError:
    """Hide an unexpected error from the caller; the log has it."""
    _log.error("request failed", exc_info=error)
    return ProblemError(500, "internal", "internal error; see the server's log")


def of_any(error: Exception, words: Words = API) -> ProblemError:
    """Return the problem for an error that middleware or `authenticate` raises before a route is
    reached."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, errors.RotaError):
        return as_problem(error, words)
    if isinstance(error, AnyHTTPException):
        code = HTTPStatus(error.status_code).name.lower()
        return ProblemError(error.status_code, code, str(error.detail), headers=error.headers)
    return internal(error)


def as_validation_problem(error: RequestValidationError, body: Any = None) -> ProblemError:
    """Return the problems of a request. `body` is the type of its body, used to suggest names for
    unknown fields. Unknown fields come first: a missing field may be among them, misspelled. Only
    the first few are listed, because finding suggestions takes time."""
    wrong = sorted(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    found = [_invalid(problem, body) for problem in wrong[:MOST_PROBLEMS]]
    first = found[0]
    text = first["message"]
    detail = text if first["code"] == _UNKNOWN else f"{first['field']}: {text}"
    return ProblemError(422, "invalid", detail, field=first["field"], problems=found)


def _invalid(one: Mapping[str, Any], body: Any) -> dict[str, str]:
    place = one["loc"]
    if one["type"] != "extra_forbidden":
        message = str(one["msg"]).removeprefix("Value error, ")
        return {"field": _path(place), "code": str(one["type"]), "message": message}
    known = fields_at(body, place[1:-1])
    message = unknown("field", _path(place), known) if known else str(one["msg"])
    return {"field": _path(place), "code": _UNKNOWN, "message": message}


def _path(place: Sequence[Any]) -> str:
    """Return `tags[0]` for `("body", "tags", 0)`, `limit` for `("query", "limit")`."""
    parts = list(place[1:]) or list(place)
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return text.removeprefix(".")[:_LONGEST_NAME]


def install(api: FastAPI) -> None:
    """Make every error of a route use this format."""

    @api.exception_handler(ProblemError)
    async def on_problem(request: Request, error: ProblemError) -> JSONResponse:
        return _about(request, error)

    @api.exception_handler(errors.RotaError)
    async def on_rota_error(request: Request, error: errors.RotaError) -> JSONResponse:
        return _about(request, as_problem(error))

    @api.exception_handler(RequestValidationError)
    async def on_invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return _about(request, as_validation_problem(error))

    @api.exception_handler(AnyHTTPException)
    async def on_http_error(request: Request, error: AnyHTTPException) -> JSONResponse:
        return _of_http(request, error).response()


def _about(request: Request, problem: ProblemError) -> JSONResponse:
    """Name the operation of the route."""
    route = request.scope.get("route")
    problem.operation = getattr(route, "operation_id", None) or problem.operation
    return problem.response()


def _of_http(request: Request, error: AnyHTTPException) -> ProblemError:
    if error.status_code == 404:
        return ProblemError(404, "no_such_path", "no endpoint has this path")
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        detail = f"{request.method} is not allowed here; use {allowed}"
        return ProblemError(405, "method_not_allowed", detail, headers={"Allow": allowed})
    return of_any(error)


def _methods(request: Request) -> set[str]:
    """Return the methods of all routes of this path; the framework names only those of the
    first."""
    found: set[str] = set()
    path = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    for prefix, route in request.app.state.rota.routes:
        if path.startswith(prefix) and route.path_regex.match(path.removeprefix(prefix)):
            found |= route.methods or set()
    return found
