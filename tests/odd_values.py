"""Legal values that hardly any reader can hold, and the columns to write them to: by the catalogue,
so that a new column is tried as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

_NUMBERS = ("NaN", "Infinity", "-Infinity", "1e30")
_DEEP = "[" * 600 + "]" * 600
ODD: dict[str, tuple[str, ...]] = {
    "timestamptz": (
        "infinity",
        "-infinity",
        "0044-03-15 00:00Z BC",
        "10000-01-01 00:00Z",
        "200000-01-01 00:00Z",
    ),
    "date": ("infinity", "0044-03-15 BC", "20000-01-01"),
    "interval": ("170000 years", "-170000 years"),
    "float4": _NUMBERS,
    "float8": (*_NUMBERS, "1e300"),
    "numeric": ("NaN", "1e5000"),
    "jsonb": ('{"n": 1e5000}', f'{{"n": {_DEEP}}}', '[1e5000]', _DEEP, '"text"', "1e5000", "null"),
    "_text": ("{a,NULL}", "{{a,b},{c,d}}", "[5:6]={a,b}"),
    "int2": ("32767", "-32768"),
    "int4": ("2147483647", "-2147483648"),
    "int8": ("9223372036854775807", "-9223372036854775808"),
    "text": ("\u202e\x1b[2J\n\u0085",),
}  # fmt: skip


class Column(NamedTuple):
    table: str
    name: str
    kind: str


def columns(conn: psycopg.Connection[Any], *tables: str) -> list[Column]:
    """Those that plain SQL can write."""
    rows = conn.execute(
        """
        SELECT c.relname, a.attname, t.typname FROM pg_attribute a
        JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
        WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p')
          AND NOT c.relispartition
          AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attidentity = ''
          AND (%(tables)s::text[] = '{}' OR c.relname = ANY (%(tables)s))
        ORDER BY c.relname, a.attnum
        """,
        {"tables": list(tables)},
    ).fetchall()
    return [Column(*row) for row in rows]


def odd_writes(column: Column) -> Iterator[sql.Composed]:
    """Updates of a column, one for each odd value of its kind."""
    for value in ODD.get(column.kind, ()):
        yield sql.SQL("UPDATE rota.{} SET {} = {}").format(
            sql.Identifier(column.table), sql.Identifier(column.name), sql.Literal(value)
        )


def write_odd_turn(conn: psycopg.Connection[Any], table: str, turn: int) -> None:
    """One odd value into each column of a table whose kind has ends; what is refused is left."""
    for column in columns(conn, table):
        if column.kind in ("timestamptz", "float4", "float8", "jsonb", "_text"):
            write = sql.SQL("UPDATE rota.{} SET {} = {}").format(
                sql.Identifier(table),
                sql.Identifier(column.name),
                sql.Literal(ODD[column.kind][turn]),
            )
            with suppress(psycopg.Error):
                conn.execute(write)
