"""JSON that Postgres can hold, or an error that says why not."""

from __future__ import annotations

import json
import re
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


_ERRORS: dict[str, type[RotaError]] = {"payload": PayloadError, "the result": ResultError}


def encode_value(value: Any, what: str) -> bytes:
    """Any value that JSON can say, models and dates too, or an error that begins `what`."""
    kind = _ERRORS.get(what, InputError)
    try:
        raw = pydantic_core.to_json(value, inf_nan_mode="constants", bytes_mode="base64")
        if b"NaN" in raw or b"Infinity" in raw:
            json.loads(raw, parse_constant=_refuse_constant)
        check_size(raw)
    except (ValueError, RecursionError, OverflowError) as error:
        raise kind(f"{what} cannot be stored as JSON: {error}") from error
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
