"""A log line as the database can hold it, and as COPY reads it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from pydantic_core import to_json

_encode = msgspec.json.Encoder().encode
_NONE = r"\N"


class Line(NamedTuple):
    """`written` is monotonic time: the instant is the database's to say."""

    written: float
    run_id: int
    worker: int
    attempt: int
    seq: int
    level: str
    job: str
    tenant: str
    message: str
    fields: str | None

    @property
    def size(self) -> int:
        """About what it takes in memory."""
        return 200 + len(self.message) + (0 if self.fields is None else len(self.fields))


def clean(text: str) -> str:
    """Text that Postgres can hold: NUL and what is no character become visible."""
    if "\x00" in text:
        text = text.replace("\x00", "␀")
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int) -> str:
    if len(text) <= limit // 4 or len(raw := text.encode()) <= limit:
        return text
    kept = raw[:limit].decode("utf-8", "ignore")
    return f"{kept}… [cut, {len(raw)} bytes]"


def to_message(message: object, limit: int) -> str:
    """Never raises: whatever somebody wanted to say must not fail its attempt."""
    try:
        text = message if type(message) is str else str(message)
    except Exception as error:
        text = f"<a message that cannot be shown: {type(error).__name__}>"
    # A megabyte is cut before it is looked at.
    if len(text) > limit:
        kept = clean(text[:limit]).encode()[:limit].decode("utf-8", "ignore")
        return f"{kept}… [cut, {len(text)} characters]"
    return cut(clean(text), limit)


def to_fields(fields: Mapping[str, Any], limit: int) -> str:
    """The fields as JSON, now: what they hold may change. What JSON cannot hold goes as its text,
    what is too long is cut: at first the long values, then all of it."""
    text = _json(fields)
    if len(text) <= limit:
        return text
    short = {name: _short(value, limit // 4) for name, value in fields.items()}
    text = _json(short)
    return text if len(text) <= limit else _json({"cut": cut(clean(text), limit)})


def _json(fields: Mapping[str, Any]) -> str:
    try:
        text = _encode(fields).decode()
    except Exception:
        text = _json_of_anything(fields)
    # Escaped NULs are no text to Postgres; an escaped backslash before them is something else.
    return text if "\\u0000" not in text else _encode(_clean(msgspec.json.decode(text))).decode()


def _json_of_anything(fields: Mapping[str, Any]) -> str:
    try:
        return to_json(dict(fields), fallback=_repr, inf_nan_mode="null").decode()
    except Exception:
        return _encode({clean(str(name)): _plain(it) for name, it in fields.items()}).decode()


def _plain(value: object) -> object:
    is_small = isinstance(value, int) and abs(value) < 2**63
    if value is None or is_small:
        return value
    return clean(value) if isinstance(value, str) else _repr(value)


def _repr(value: object) -> str:
    try:
        return clean(repr(value))
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _short(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return cut(clean(value), limit)
    text = _json({"": value})[4:-1]
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


def to_copy(lines: list[Line], now: datetime, monotonic: float) -> bytes:
    """Rows for COPY in its text format. `now` is what the database's clock said at `monotonic`."""
    rows = []
    for written, run_id, worker, attempt, seq, level, job, tenant, message, fields in lines:
        at = now - timedelta(seconds=monotonic - written)
        shown = _NONE if fields is None else _escape(fields)
        rows.append(
            f"{at}\t{run_id}\t{worker}\t{attempt}\t{seq}\t{level}\t{_escape(job)}\t"
            f"{_escape(tenant)}\t{_escape(message)}\t{shown}\n"
        )
    return "".join(rows).encode()


def _escape(text: str) -> str:
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if not text.isprintable():
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text
