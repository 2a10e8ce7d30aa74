"""Reads rows as dicts, with decoded JSON; lists have a thousand of them.

Values that Python cannot hold (infinity, years before 1 and after 9999) are rare: the driver's own
loaders read a result, and only a result on which they fail is read again by slower, tolerant ones.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import msgspec
import psycopg
from psycopg import abc, adapt
from psycopg.adapt import AdaptersMap
from psycopg.pq import Format
from psycopg.pq.abc import PGresult
from psycopg.rows import no_result
from psycopg.types.json import set_json_loads

from rota.model.json_bounds import is_readable, read_json
from rota.model.unreadable import Unreadable

Row = dict[str, Any]
R = TypeVar("R")
AnyCursor = psycopg.AsyncCursor[Any] | psycopg.Cursor[Any]

# Errors of the driver about a value that it cannot read, raised when rows are fetched.
NOT_READ = (psycopg.DataError, ValueError, OverflowError)
_YEAR = 31_556_952_000_000  # in microseconds
_ENDS = {2**63 - 1: "infinity", -(2**63): "-infinity", 2**31 - 1: "infinity", -(2**31): "-infinity"}


class Adapters:
    """The loaders of Rota's connections."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        set_json_loads(read_json_column, self)


def named_row(cursor: AnyCursor) -> Callable[..., Row]:
    """Make rows like the driver's `dict_row`, but with interned names: otherwise a row takes four
    times as long to become a dataclass of thirty fields."""
    if cursor.description is None:
        return no_result
    names = [sys.intern(column.name) for column in cursor.description]

    def row(values: Sequence[Any]) -> Row:
        return dict(zip(names, values, strict=False))

    return row


def read_again(cursor: AnyCursor, make: Callable[..., Any]) -> list[Any]:
    """Return all rows of a result on which the usual loaders failed."""
    assert cursor.pgresult is not None
    return read_patiently(cursor, cursor.pgresult, make)


def read_patiently(context: Any, result: PGresult, make: Callable[..., R]) -> list[R]:
    """Return all rows of a result, with the tolerant loaders; `context` is its connection or
    cursor."""
    loader = adapt.Transformer.from_context(_Patience(context))
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, make)


class _Patience:
    """The loaders of a connection, with tolerant ones for types that have infinite values."""

    def __init__(self, context: Any) -> None:
        self.connection: Any = context.connection
        self.adapters = AdaptersMap(context.adapters)
        for name in ("timestamptz", "date", "interval"):
            for form in (Format.TEXT, Format.BINARY):
                usual = self.adapters.get_loader(self.adapters.types[name].oid, form)
                assert usual is not None
                patient = type(f"_{name}", (_Patient,), {"format": form, "usual": usual})
                self.adapters.register_loader(name, patient)


class _Patient(adapt.Loader):
    usual: ClassVar[type[abc.Loader]]

    def __init__(self, oid: int, context: abc.AdaptContext | None = None) -> None:
        super().__init__(oid, context)
        self._usual = type(self).usual(oid, context)
        self._is_interval = oid == psycopg.adapters.types["interval"].oid

    def load(self, data: abc.Buffer) -> Any:
        try:
            return self._usual.load(data)
        except NOT_READ:
            raw = bytes(data)
            if self._is_interval:
                return timedelta.min if raw[:1] == b"-" else timedelta.max
            return Unreadable(raw.decode() if self.format == Format.TEXT else _in_words(raw))


def _in_words(raw: bytes) -> str:
    """Describe an instant in microseconds, or a date in days, since 2000."""
    (number,) = struct.unpack("!q" if len(raw) == 8 else "!i", raw)
    if number in _ENDS:
        return _ENDS[number]
    years = number / _YEAR if len(raw) == 8 else number / 365.2425
    year = round(2000 + years)
    return f"about the year {year}" if year > 0 else f"about the year {1 - year} BC"


def read_json_column(data: str | bytes) -> Any:
    """Decode a JSON column of Rota's connections."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if not is_readable(raw):
        return read_json(raw)
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # numbers beyond what a float can hold
        return read_json(raw)
