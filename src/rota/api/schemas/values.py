"""Values that several requests have in common."""

from __future__ import annotations

import math
import re
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from rota.api.errors import ProblemError
from rota.api.request_limits import MOST_LISTED
from rota.model import cursors
from rota.model.durations import EXAMPLES, read_duration
from rota.model.fields import BIGGEST_ID as BIGGEST_ID
from rota.model.instants import SUPPORTED, is_instant

_INSTANT = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)")


def _read_instant(value: Any) -> Any:
    """Refuse numbers, which pydantic would read as seconds since 1970."""
    if isinstance(value, datetime):
        return value
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be a date and time with an offset, like 2026-03-08T09:00:00Z")
    return value


def _check_instant(value: datetime) -> datetime:
    if not is_instant(value):
        raise ValueError(f"must be in {SUPPORTED}")
    return value


Instant = Annotated[
    AwareDatetime,
    BeforeValidator(_read_instant),
    AfterValidator(_check_instant),
    Field(strict=False),
]


def _read_seconds(value: Any) -> Any:
    """Read a text as every interface reads durations; check anything else as a number."""
    if not isinstance(value, str):
        return value
    found = read_duration(value)
    if found is None:
        raise ValueError(f"must be a duration: seconds, or a text like {EXAMPLES}")
    return found


class _DurationSchema:
    """Documents that a duration may be a number of seconds or a text."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        text = {"type": "string", "format": "duration", "examples": ["1h30m"]}
        return {"anyOf": [handler(schema), text]}


# A duration in seconds.
Seconds = Annotated[float, BeforeValidator(_read_seconds), _DurationSchema()]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Reason = Annotated[
    str | None,
    Field(max_length=2000, description="Reason, recorded in the audit trail."),
]
Why = Annotated[
    str | None, Query(max_length=2000, description="Reason, recorded in the audit trail.")
]
Payload = dict[str, Any]
KeySeconds = Annotated[Seconds, Field(ge=0, le=3_153_600_000)] | Literal["forever"] | None

RunId = Annotated[int, Path(ge=1, le=BIGGEST_ID, description="Run ID.")]
Limit = Annotated[int, Query(ge=1, le=MOST_LISTED, description="Maximum number of items per page.")]
Cursor = Annotated[
    str | None,
    Query(
        max_length=2000, description="`next_cursor` of the previous page; keep the same filters."
    ),
]
Tenant = Annotated[str, Query(max_length=200, description="Tenant. Empty: no tenant.")]
Metadata = Annotated[
    list[Annotated[str, StringConstraints(pattern="^[^:]+:", max_length=1000)]] | None,
    Query(
        max_length=20,
        description="Metadata key and value, e.g. `team:billing`; repeatable.",
        examples=["team:billing"],
    ),
]
PayloadField = Annotated[
    list[Annotated[str, StringConstraints(pattern="^[^:]+:", max_length=1000)]] | None,
    Query(
        max_length=20,
        description="Payload field and value, e.g. `customer.id:7`; repeatable.",
        examples=["customer.id:7"],
    ),
]
Pairs = list[Annotated[str, StringConstraints(pattern="^[^:]+:", max_length=1000)]] | None
ScheduleName = Annotated[str, Path(min_length=1, max_length=200, description="Schedule name.")]


def read_metadata(given: list[str] | None) -> dict[str, str] | None:
    """Read each as `key:value`."""
    return {key: value for key, _, value in (pair.partition(":") for pair in given or ())}


def read_cursor(kind: str, cursor: str | None, *types: type) -> tuple[Any, ...] | None:
    """Return where a page begins; raise ProblemError for a cursor that this list has not issued."""
    if cursor is None:
        return None
    try:
        found = cursors.read_cursor(kind, cursor)
        return tuple(_read(value, kind_) for value, kind_ in zip(found, types, strict=True))
    except (ValueError, TypeError, OverflowError):
        raise ProblemError(
            422, "invalid", "cursor: not a cursor of this list", field="cursor"
        ) from None


def _read(value: Any, kind: Any) -> Any:
    if kind is datetime:
        return datetime.fromisoformat(value).isoformat()
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if type(value) is not kind or (kind is int and not 0 <= value <= BIGGEST_ID):
        raise ValueError
    if kind is str and "\0" in value:
        raise ValueError
    return value
