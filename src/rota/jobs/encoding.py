"""JSON that Postgres can hold, or an error that says why not."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import pydantic_core

from rota.errors import InputError, PayloadError, ResultError, RotaError
from rota.model.json_bounds import DEEPEST, check_bounds

# jsonb has no NUL. The escape of a backslash before `u0000` is innocent text, so it is counted.
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_ALWAYS_FINE = frozenset({int, bool})
_LARGEST_PLAIN = 1 << 63

encode_plain = msgspec.json.Encoder().encode


def has_nul(raw: bytes) -> bool:
    """Whether a JSON text holds a NUL character. Nearly always answered by the first look."""
    return b"\\u0000" in raw and _NUL.search(raw) is not None


def check_size(raw: bytes) -> None:
    """ValueError for what JSON's readers cannot hold, of Python's values: a level takes two
    characters, a whole number beyond a double 309."""
    if len(raw) > 2 * DEEPEST:
        check_bounds(raw)


def dump_json(value: Any) -> bytes:
    """A JSON-native value as JSON; NaN and Infinity, which JSON does not have, are a ValueError."""
    text = json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return text.encode()


def as_plain(value: Any) -> dict[Any, Any]:
    """For encoders, of a value that they do not know: every mapping is an object."""
    if isinstance(value, Mapping):
        return dict(value)
    kind = type(value)
    raise ValueError(f"a value of type {kind.__module__}.{kind.__qualname__} has no JSON form")


_ERRORS: dict[str, type[RotaError]] = {"payload": PayloadError, "the result": ResultError}


def encode_value(value: Any, what: str) -> bytes:
    """Any value that JSON can say, models and dates too, or an error that begins `what`."""
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
    """What a handler returned, as JSON; None for none."""
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
