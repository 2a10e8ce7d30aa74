"""Encodes JSON that Postgres can store, or raises an error that explains why not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pydantic_core

from rota.errors import InputError, PayloadError, ResultError, RotaError
from rota.model.json_bounds import DEEPEST, check_bounds

# jsonb cannot store NUL. `u0000` after an escaped backslash is ordinary text, so the backslashes
# are counted.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ALWAYS_FINE = frozenset({int, bool})
_LARGEST_PLAIN = 1 << 63

encode_plain = msgspec.json.Encoder().encode


def has_nul(raw: bytes) -> bool:
    """Return whether a JSON text contains a NUL character; the first check is nearly always
    enough."""
    return b"\\u0000" in raw and _NUL.search(raw) is not None


def check_size(raw: bytes) -> None:
    """Raise ValueError if JSON readers cannot hold the value. Short texts need no check: a level
    takes two characters, a whole number beyond a double 309."""
    if len(raw) > 2 * DEEPEST:
        check_bounds(raw)


def dump_json(value: Any) -> bytes:
    """Encode a JSON-native value; raise ValueError for NaN and Infinity, which JSON does not
    have."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def as_plain(value: Any) -> dict[Any, Any]:
    """Convert a value of an unknown type for an encoder: every mapping is an object."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value)
    raise ValueError(f"a value of type {kind.__module__}.{kind.__qualname__} has no JSON form")


_ERRORS: dict[str, type[RotaError]] = {"payload": PayloadError, "the result": ResultError}


def encode_value(value: Any, what: str) -> bytes:
    """Encode any value with a JSON form, including models and dates; the error begins with
    `what`."""
    kind = _ERRORS.get(what, InputError)
    try:
        raw = pydantic_core.to_json(
            value, inf_nan_mode="constants", bytes_mode="base64", fallback=as_plain
        )
        if b"NaN" in raw or b"Infinity" in raw:
            json.loads(raw, parse_constant=_refuse_constant)
        check_size(raw)
    except (ValueError, RecursionError, OverflowError) as error:
        reason = str(error).removeprefix("Error serializing to JSON: ValueError: ")
        raise kind(f"{what} cannot be stored as JSON: {reason}") from error
    if has_nul(raw):
        raise kind(f"{what} contains a NUL character, which jsonb cannot store")
    return raw


def encode_result(value: Any, limit: int) -> bytes | None:
    """Encode a handler's result as JSON; None stays None."""
    if value is None:
        return None
    if type(value) in _ALWAYS_FINE and -_LARGEST_PLAIN < value < _LARGEST_PLAIN:
        return encode_plain(value)
    raw = encode_value(value, "the result")
    if len(raw) > limit:
        raise ResultError(
            f"the result has {len(raw)} bytes; the limit is {limit}",
            hint="store the data elsewhere and return its address, or raise runs.result_bytes",
        )
    return raw


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not valid JSON")
