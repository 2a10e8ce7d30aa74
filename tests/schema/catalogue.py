"""What a database says of its schema, and what differs between two.

`read` gives a thing's name and its text: columns in their order, constraints, indexes, triggers,
functions with their bodies and settings, owners, rights, comments, and the rows that a new
installation holds. Partitions are named by their day, and count as one of each parent.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

Catalogue = dict[str, str]

_QUERY = Path(__file__).with_name("catalogue.sql").read_text("utf-8")
_DAY = re.compile(r"(?<=_)\d{8}(?!\d)")
_BOUNDS = re.compile(r"FROM \('[^']*'\) TO \('[^']*'\)")
_TABLES = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = %(schema)s::text::regnamespace AND c.relkind IN ('r', 'p')
      AND NOT c.relispartition AND c.relname <> 'migrations' ORDER BY c.relname
"""
# When something was installed differs from one database to the next, and so does the channel.
_INSTANT = re.compile(r'"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[^"]*"|"rota_[0-9a-f]{32}"')


def read(url: str, schema: str = "rota") -> Catalogue:
    with psycopg.connect(url, autocommit=True) as conn:
        return read_from(conn, schema)


def read_from(conn: psycopg.Connection[Any], schema: str = "rota") -> Catalogue:
    """What this session sees, changes that are not committed among it."""
    conn.execute("SELECT set_config('search_path', 'pg_catalog', false)")
    found = {}
    for kind, name, aspect, text in conn.execute(_QUERY, {"schema": schema}):
        key = _DAY.sub("DAY", f"{kind} {name}: {aspect}")
        found[key] = _BOUNDS.sub("FROM … TO …", _DAY.sub("DAY", text or ""))
    return found | dict(_rows(conn, schema))


def _rows(conn: psycopg.Connection[Any], schema: str) -> Iterator[tuple[str, str]]:
    """What a new installation holds already: settings, reasons, jobs and schedules of its own."""
    for (table,) in conn.execute(_TABLES, {"schema": schema}).fetchall():
        query = sql.SQL("SELECT to_jsonb(t)::text FROM {} t ORDER BY 1")
        rows = conn.execute(query.format(sql.Identifier(schema, table))).fetchall()
        yield f"rows {table}: all", "\n".join(sorted(_INSTANT.sub('"…"', row) for (row,) in rows))


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Empty if both are the same; else a line or a diff for each thing that is not."""
    found = [f"only in the first: {key}" for key in sorted(first.keys() - second.keys())]
    found += [f"only in the second: {key}" for key in sorted(second.keys() - first.keys())]
    for key in sorted(first.keys() & second.keys()):
        if first[key] != second[key]:
            lines = difflib.unified_diff(
                first[key].split("\n"), second[key].split("\n"), lineterm=""
            )
            found.append("\n".join([f"differs: {key}", *list(lines)[2:]]))
    return found
