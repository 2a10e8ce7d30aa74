"""The result of a SQL function: `{"success": boolean, "message": text, "details": anything}`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from rota.engine.executors.remote import RemoteError
from rota.model.json_bounds import check_bounds

_QUOTED = 200
_T = TypeVar("_T", bool, str)


@dataclass(frozen=True, slots=True)
class FunctionResult:
    """`details` and `text` are JSON; `text` is the whole result."""

    success: bool
    message: str | None = None
    details: str | None = None
    text: str | None = None


class SqlFailure(RemoteError):
    """A failure with the text of the function or the server."""

    def __str__(self) -> str:
        return self.message


class InvalidResult(SqlFailure):
    """The function returned no valid result."""

    @classmethod
    def of(cls, what: str, text: str | None) -> InvalidResult:
        returned = "NULL" if text is None else text
        quoted = returned if len(returned) <= _QUOTED else f"{returned[:_QUOTED]}…"
        message = f"{what}; it returned {quoted}"
        return cls("InvalidResult", message, message)


def read_result(text: str | None) -> FunctionResult:
    """Check and parse the result; InvalidResult quotes it."""
    if text is None:
        raise InvalidResult.of("the function must return {success, message, details?}", None)
    try:
        check_bounds(text.encode())
    except ValueError as error:
        raise InvalidResult.of(
            f"the function's result cannot be stored as JSON: {error}", text
        ) from None
    if not text.startswith("{"):
        raise InvalidResult.of(
            "the function must return an object {success, message, details?}", text
        )
    # Raw parts, so that decimals keep their digits.
    parts = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    success = _read(parts, "success", bool, "a boolean", text)
    message = _read(parts, "message", str, "a text", text)
    details = bytes(parts.get("details", b"null")).decode().strip()
    return FunctionResult(success, message, None if details == "null" else details, text)


def _read(parts: Mapping[str, msgspec.Raw], key: str, kind: type[_T], name: str, text: str) -> _T:
    if key not in parts:
        raise InvalidResult.of(f'the function\'s result has no "{key}"', text)
    found: Any = msgspec.json.decode(parts[key])
    if not isinstance(found, kind):
        raise InvalidResult.of(f'"{key}" must be {name}', text)
    return found
