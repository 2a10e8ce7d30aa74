"""Numbered SQL files, applied forward, each in its own transaction, by one process at a time.

A file may carry a line `-- oldest-code: N`: from it on, releases that know no file above N - 1
can no longer work with the schema. Without the line a file only adds, and the releases before
it run on.

Until the first release the schema stands once, in `schema/`, one topic a file: the first migration
is those files, one after the other. A release freezes it as `migrations/0001_baseline.sql`, and
what changes afterwards comes by further files; a test compares them with `schema/`.
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import psycopg
from psycopg import sql

from rota.errors import SchemaError
from rota.store.sessions.opening import SETTINGS, Session, own
from rota.store.statements import render

_FILE = re.compile(r"(\d{4})_(\w+)\.sql$")
_OLDEST = re.compile(r"^-- oldest-code: (\d+)$", re.MULTILINE)
_LOCK_TRIES = 10
# What databases in other encodings than UTF-8 get instead, in hints and the like.
_PLAINER = str.maketrans({"…": "...", "“": '"', "”": '"', "–": "-", "−": "-", "×": "x", "→": "->"})
# Somebody was faster by a moment: what was to be made is there.
_MADE_MEANWHILE = (
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DuplicateTable,
)


@dataclass(frozen=True, slots=True)
class Migration:
    number: int
    name: str
    text: str

    @property
    def oldest_code(self) -> int:
        found = _OLDEST.search(self.text)
        return int(found[1]) if found else 0

    def __str__(self) -> str:
        return f"{self.number:04}_{self.name}"


@dataclass(frozen=True, slots=True)
class Installed:
    """What a database holds: its newest file, and the oldest code that it still serves."""

    version: int
    oldest_code: int
    is_other: bool = False  # its first file is none of ours: no file of ours fits on it


def baseline() -> Migration:
    """The whole schema as one migration: the topic files in their order."""
    topics = files("rota.store").joinpath("schema").iterdir()
    texts = {one.name: one.read_text("utf-8") for one in topics if one.name.endswith(".sql")}
    # Functions name tables and functions of later files.
    parts = ["SET LOCAL check_function_bodies = off;", *(texts[name] for name in sorted(texts))]
    return Migration(1, "baseline", "\n".join(parts))


@cache
def known() -> tuple[Migration, ...]:
    """The migrations of this release, in order."""
    found = []
    for file in files("rota.store").joinpath("migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    if all(one.number != 1 for one in found):
        found.append(baseline())
    return tuple(sorted(found, key=lambda one: one.number))


def latest() -> int:
    return known()[-1].number


def installed(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> Installed | None:
    """What the database holds; None where Rota was never installed."""
    table = sql.Identifier(schema, "migrations")
    row = conn.execute("SELECT to_regclass(%s)", [table.as_string()]).fetchone()
    if row is None or row[0] is None:
        return None
    query = sql.SQL(
        "SELECT coalesce(max(number), 0), coalesce(max(oldest_code), 0),"
        " bool_or(number = %s AND name <> %s) IS TRUE FROM {}"
    )
    first = known()[0]
    found = conn.execute(query.format(table), [first.number, first.name]).fetchone() or (
        0,
        0,
        False,
    )
    return Installed(int(str(found[0])), int(str(found[1])), bool(found[2]))


def shadowing_role(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> str | None:
    """The role of this session, if it finds the schema before the user's own because of its name
    alone."""
    row = conn.execute("SELECT current_user, current_setting('search_path')").fetchone()
    role, path = map(str, row or ("", ""))
    return role if role == schema and "$user" in path else None


def superuser(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> str | None:
    """The owner of the schema's tables, if it is one: granted roles may call functions that run
    with the owner's privileges."""
    query = (
        "SELECT r.rolname FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_roles r ON r.oid = c.relowner"
        " WHERE c.oid = pg_catalog.to_regclass(%s) AND r.rolsuper"
    )
    row = conn.execute(query, [sql.Identifier(schema, "jobs").as_string()]).fetchone()
    return str(row[0]) if row else None


def check(found: Installed | None, schema: str) -> None:
    """Refuse a schema that this release cannot work with, and say what to run."""
    if found is None:
        raise SchemaError(
            f"the database has no schema {schema!r}: Rota is not installed there",
            hint="run `rota migrate`",
        )
    _refuse_other(found, schema)
    if found.version < latest():
        raise SchemaError(
            f"schema {schema!r} is at migration {found.version}; this release needs {latest()}",
            hint="run `rota migrate`",
        )
    if found.oldest_code > latest():
        raise SchemaError(
            f"schema {schema!r} is at migration {found.version} and supports releases from "
            f"migration {found.oldest_code} on; this release is at migration {latest()}",
            hint="upgrade Rota in this environment",
        )


def _refuse_other(found: Installed, schema: str) -> None:
    if found.is_other:
        raise SchemaError(
            f"schema {schema!r} was created by a version before 0.1.0, which cannot be upgraded",
            hint=f'drop it with all its data (DROP SCHEMA "{schema}" CASCADE), or set `schema` to'
            " another name, then run `rota migrate`",
        )


def pending(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> list[Migration]:
    found = installed(conn, schema)
    if found is not None:
        _refuse_other(found, schema)
    version = found.version if found else 0
    return [one for one in known() if one.number > version]


def migrate(url: str, schema: str, *, upto: int | None = None) -> list[Migration]:
    """Apply what is missing and return it. Any number of processes may call this at once: each
    file is applied by one of them, and the others wait for it."""
    with Session.connect(url, **own("rota migrate")) as conn:
        _check_encoding(conn)
        _prepare(conn, schema)
        todo = [one for one in pending(conn, schema) if upto is None or one.number <= upto]
        return [one for one in todo if _apply(conn, schema, one)]


def _check_encoding(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    if conn.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise SchemaError(
            "the database's encoding is SQL_ASCII, which Rota does not support",
            hint="CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'",
        )


def _prepare(conn: psycopg.Connection[tuple[object, ...]], schema: str) -> None:
    while not installed(conn, schema):
        with suppress(*_MADE_MEANWHILE), conn.transaction():
            conn.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            conn.execute(
                sql.SQL(
                    "CREATE TABLE IF NOT EXISTS {} (number integer PRIMARY KEY, name text NOT NULL,"
                    " oldest_code integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())"
                ).format(sql.Identifier(schema, "migrations"))
            )


def _apply(conn: psycopg.Connection[tuple[object, ...]], schema: str, one: Migration) -> bool:
    """One file, one transaction; False if another process has applied it. Waits for locks in short
    tries, so that a migration which cannot get a table does not make everybody queue behind it."""
    for attempt in range(1, _LOCK_TRIES + 1):
        try:
            with conn.transaction():
                # Behind a pooler the session has none of what ours have.
                for name, value in (SETTINGS | {"client_min_messages": "warning"}).items():
                    conn.execute("SELECT set_config(%s, %s, true)", [name, value])
                return _apply_locked(conn, schema, one)
        except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
            if attempt == _LOCK_TRIES:
                raise
            time.sleep(0.1 * attempt)
    return False


def _apply_locked(
    conn: psycopg.Connection[tuple[object, ...]], schema: str, one: Migration
) -> bool:
    """The lock is one of the table that says what is applied: who may not change that, cannot keep
    others from migrating."""
    table = sql.Identifier(schema, "migrations")
    conn.execute("SET LOCAL lock_timeout = '60s'")  # somebody may be at a long one
    conn.execute(sql.SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(table))
    query = sql.SQL("SELECT FROM {} WHERE number = %s").format(table)
    if conn.execute(query, [one.number]).fetchone() is not None:
        return False
    conn.execute("SET LOCAL lock_timeout = '2s'")
    text = render(one.text, schema)
    if conn.info.parameter_status("server_encoding") != "UTF8":
        text = text.translate(_PLAINER).encode("ascii", "replace").decode()
    conn.execute(text.encode())
    if one.number > 1:  # the first one does it itself
        conn.execute(render("SELECT rota.pin_functions()", schema).encode())
    insert = sql.SQL("INSERT INTO {} (number, name, oldest_code) VALUES (%s, %s, %s)")
    conn.execute(insert.format(table), [one.number, one.name, one.oldest_code])
    return True
