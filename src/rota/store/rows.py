"""How rows come back: as dicts, with what is JSON taken apart. Lists have a thousand of them.

What a reader cannot hold (infinity, years before 1 and after 9999) is met once in a blue moon: the
driver's own loaders read a result, and only one that they fail on is read again by patient ones.
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

# What the driver raises about a value that it cannot read, when the rows are taken.
NOT_READ = (psycopg.DataError, ValueError, OverflowError)
_YEAR = 31_556_952_000_000  # in microseconds
_ENDS = {2**63 - 1: "infinity", -(2**63): "-infinity", 2**31 - 1: "infinity", -(2**31): "-infinity"}


class Adapters:
    """What a connection of ours takes its loaders from."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        set_json_loads(read_json_column, self)


def named_row(cursor: AnyCursor) -> Callable[..., Row]:
    """As the driver's `dict_row`, but with the names that Python's own code has: a row whose names
    are other objects takes four times as long to become a dataclass of thirty fields."""
    if cursor.description is None:
        return no_result
    names = [sys.intern(column.name) for column in cursor.description]

    def row(values: Sequence[Any]) -> Row:
        return dict(zip(names, values, strict=False))

    return row


def read_again(cursor: AnyCursor, make: Callable[..., Any]) -> list[Any]:
    """All rows of a result that the usual loaders have failed on."""
    assert cursor.pgresult is not None
    return read_patiently(cursor, cursor.pgresult, make)


def read_patiently(context: Any, result: PGresult, make: Callable[..., R]) -> list[R]:
    """The same, of a connection or cursor that has got the result."""
    loader = adapt.Transformer.from_context(_Patience(context))
    loader.set_pgresult(result)
    return loader.load_rows(0, result.ntuples, make)


class _Patience:
    """The loaders of a connection, with patient ones for what has ends."""

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
    """An instant in microseconds, or a date in days, since 2000."""
    (number,) = struct.unpack("!q" if len(raw) == 8 else "!i", raw)
    if number in _ENDS:
        return _ENDS[number]
    years = number / _YEAR if len(raw) == 8 else number / 365.2425
    year = round(2000 + years)
    return f"about the year {year}" if year > 0 else f"about the year {1 - year} BC"


def read_json_column(data: str | bytes) -> Any:
    """JSON as the columns of our connections are read."""
    raw = data.encode() if isinstance(data, str) else bytes(data)
    if not is_readable(raw):
        return read_json(raw)
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:  # numbers beyond what a float can hold
        return read_json(raw)
