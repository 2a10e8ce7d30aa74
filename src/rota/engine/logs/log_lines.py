"""A log line in the form that the database can store and that COPY reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, NamedTuple

import msgspec
from pydantic_core import to_json

_encode = msgspec.json.Encoder().encode

# The values of a line. A named tuple would take four times as long to create, and the garbage
# collector would visit each of them repeatedly.
Row = tuple[int, int, int, int, int, str, str, str, str, bytes | None]


class BufferedLine(NamedTuple):
    """A row with names, for less frequent uses. `written` is monotonic time in nanoseconds; the
    database's clock gives the time of day."""

    written: int
    run_id: int
    worker: int
    attempt: int
    seq: int
    level: str
    job: str
    tenant: str
    message: str
    fields: bytes | None


def clean(text: str) -> str:
    """Make text storable in Postgres: NUL and invalid characters are replaced by visible ones."""
    if "\x00" in text:
        text = text.replace("\x00", "␀")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    if len(text) <= limit // 4 or len(raw := text.encode()) <= limit:
        return text
    kept = raw[:limit].decode("utf-8", "ignore")
    return f"{kept}… [cut, {len(raw)} bytes]"


def to_message(message: object, limit: int) -> str:
    """Never raises: a log message must not fail its attempt."""
    try:
        text = message if type(message) is str else str(message)
    except Exception as error:
        text = f"<message that cannot be shown: {type(error).__name__}>"
    # Cut a megabyte before it is examined.
    if len(text) > limit:
        kept = clean(text[:limit]).encode()[:limit].decode("utf-8", "ignore")
        return f"{kept}… [cut, {len(text)} characters]"
    return cut(clean(text), limit)


def to_fields(fields: Mapping[str, Any], limit: int) -> bytes:
    """Encode the fields as JSON now, because their values may change. Values that JSON cannot
    represent become text; if the result is too long, first the long values are cut, then all of
    it."""
    raw = _json(fields)
    if len(raw) <= limit:
        return raw
    short = {name: _short(value, limit // 4) for name, value in fields.items()}
    raw = _json(short)
    return raw if len(raw) <= limit else _json({"cut": cut(clean(raw.decode()), limit)})


def _json(fields: Mapping[str, Any]) -> bytes:
    try:
        raw = _encode(fields)
    except Exception:
        raw = _json_of_anything(fields)
    # Postgres text cannot contain escaped NULs; after an escaped backslash it is not a NUL.
    return raw if b"\\u0000" not in raw else _encode(_clean(msgspec.json.decode(raw)))


def _json_of_anything(fields: Mapping[str, Any]) -> bytes:
    try:
        return to_json(dict(fields), fallback=_told, inf_nan_mode="null")
    except Exception:
        return _encode({clean(str(name)): _plain(it) for name, it in fields.items()})


def _plain(value: object) -> object:
    is_small = isinstance(value, int) and abs(value) < 2**63
    if value is None or is_small:
        return value
    return clean(value) if isinstance(value, str) else _repr(value)


def _told(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else _repr(value)


def _repr(value: object) -> str:
    try:
        return clean(repr(value))
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _short(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(clean(value), limit)
    text = _json({"": value})[4:-1].decode()
    return value if len(text) <= limit else cut(clean(text), limit)


def _clean(value: Any) -> Any:
    match value:
        case str():
            return clean(value)
        case list():
            return [_clean(item) for item in value]
        case dict():
            return {clean(name): _clean(item) for name, item in value.items()}
        case _:
            return value


# COPY in its binary format, so that neither side formats or parses times or escapes text. Columns:
# level, job, tenant, at, run_id, worker, attempt, seq, message, fields.
COPY_BEGIN = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_END = b"\xff\xff"
_COLUMNS = 10
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NONE = b"\xff\xff\xff\xff"
_count = Struct("!h").pack
_length = Struct("!i").pack
_numbers = Struct("!iqiqiqiiiii").pack
_json_head = Struct("!ib").pack


def to_copy(rows: Iterable[Row], now: datetime, monotonic: int) -> bytes:
    """Encode rows for COPY. `now` is the time of the database's clock at `monotonic`."""
    start = (now - _EPOCH) // _MICROSECOND - monotonic // 1000
    kinds: dict[tuple[str, str, str], bytes] = {}
    parts: list[bytes] = []
    for written, run_id, worker, attempt, seq, level, job, tenant, message, fields in rows:
        kind = kinds.get((level, job, tenant))
        if kind is None:
            kind = kinds[level, job, tenant] = _kind(level, job, tenant)
        text = message.encode()
        at = start + written // 1000
        parts += (
            kind,
            _numbers(8, at, 8, run_id, 8, worker, 4, attempt, 4, seq, len(text)),
            text,
            *((_NONE,) if fields is None else (_json_head(len(fields) + 1, 1), fields)),
        )
    return b"".join(parts)


def _kind(*texts: str) -> bytes:
    """The begin of a row with these values: the same for many rows."""
    parts = [text.encode() for text in texts]
    return _count(_COLUMNS) + b"".join([_length(len(part)) + part for part in parts])
