"""Applies migrations.

Tables, types, indexes and data are changed by numbered SQL files, applied forward, each in its own
transaction, by one process at a time. Functions, views and triggers are defined after the last
file.

A file may contain a line `-- oldest-code: N`: from then on, releases whose last file is below N no
longer work with the schema. Without the line a file only adds, and earlier releases go on.

Until the first release the first migration is built from `schema/`, one topic a file. A release
freezes it as `migrations/0001_baseline.sql`. From then on a change of a table is a further file,
and a change of a function, a view or a trigger is made in `schema/` only
(`postgres/repeatable.py`).
"""

from __future__ import annotations

import re
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from rota.errors import SchemaError
from rota.hints import Hint, ShellCommand, run_command
from rota.postgres.repeatable import Connection, Objects, parse
from rota.postgres.sessions.opening import SETTINGS, Session, own
from rota.postgres.statements import Statements, render

STORE: Traversable = files("rota.postgres")  # a test replaces it with a made-up release
_FILE = re.compile(r"(\d{4})_(\w+)\.sql$")
_OLDEST = re.compile(r"^-- oldest-code: (\d+)$", re.MULTILINE)
_LOCK_TRIES = 10
# Replacements in databases whose encoding is not UTF-8, in hints and similar texts.
_PLAINER = str.maketrans({"…": "...", "“": '"', "”": '"', "–": "-", "−": "-", "×": "x", "→": "->"})
# Another process has just created the object.
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
    """The installed schema: its newest file, and the oldest release that it supports."""

    version: int
    oldest_code: int
    is_other: bool = False  # its first migration has another name: none of ours fits


def baseline() -> Migration:
    """Return the whole schema as one migration: the topic files in their order."""
    topics = STORE.joinpath("schema").iterdir()
    texts = {file.name: file.read_text("utf-8") for file in topics if file.name.endswith(".sql")}
    return Migration(1, "baseline", "\n".join(texts[name] for name in sorted(texts)))


@cache
def known() -> tuple[Migration, ...]:
    """Return the migrations of this release, in order."""
    found = []
    for file in STORE.joinpath("migrations").iterdir():
        match = _FILE.match(file.name)
        if match:
            found.append(Migration(int(match[1]), match[2], file.read_text("utf-8")))
    if all(migration.number != 1 for migration in found):
        found.append(baseline())
    return tuple(sorted(found, key=lambda migration: migration.number))


def latest() -> int:
    return known()[-1].number


def installed(conn: Connection, schema: str) -> Installed | None:
    """Return the installed schema; None if Rota was never installed."""
    statements = Statements(schema)
    if conn.execute(statements.get("migrate/is_installed").encode()).fetchone() != (True,):
        return None
    first = known()[0]
    query = statements.get("migrate/installed").encode()
    found = conn.execute(query, {"number": first.number, "name": first.name}).fetchone()
    return Installed(*(found or (0, 0, False)))


def shadowing_role(conn: Connection, schema: str) -> str | None:
    """Return the session's role if its name equals the schema's, so that `$user` in the search path
    finds Rota's schema first."""
    query = Statements(schema).get("migrate/session").encode()
    role, path = conn.execute(query).fetchone() or ("", "")
    return role if role == schema and "$user" in path else None


def superuser(conn: Connection, schema: str) -> str | None:
    """Return the owner of the schema's tables if it is a superuser: granted roles may call
    functions that run with the owner's privileges."""
    row = conn.execute(Statements(schema).get("migrate/superuser").encode()).fetchone()
    return str(row[0]) if row else None


def check(found: Installed | None, schema: str) -> None:
    """Raise SchemaError if this release cannot work with the schema, with the command to run."""
    if found is None:
        raise SchemaError(
            f"the database has no schema {schema!r}: Rota is not installed there",
            hint=run_command("migrate"),
        )
    _refuse_other(found, schema)
    if found.version < latest():
        raise SchemaError(
            f"schema {schema!r} is at migration {found.version}; this release needs {latest()}",
            hint=run_command("migrate"),
        )
    if found.oldest_code > latest():
        raise SchemaError(
            f"schema {schema!r} is at migration {found.version} and supports releases from "
            f"migration {found.oldest_code} on; this release is at migration {latest()}",
            hint="upgrade Rota in this environment",
        )


def _refuse_other(found: Installed, schema: str) -> None:
    if found.is_other:
        name = schema.replace("{", "{{").replace("}", "}}")  # in the text of a hint
        raise SchemaError(
            f"schema {schema!r} was created by a version before 0.1.0, which cannot be upgraded",
            hint=Hint(
                f'drop it with all its data (DROP SCHEMA "{name}" CASCADE), or set `schema` to '
                "another name, then run {}",
                ShellCommand(("migrate",)),
            ),
        )


def _check_owner(conn: Connection, schema: str) -> None:
    """Refuse a schema that belongs to another role, or has tables or functions of another role,
    before anything in it is read."""
    row = conn.execute(
        Statements(schema).get("migrate/stranger").encode(), {"schema": schema}
    ).fetchone()
    if row is not None:
        owner, is_schema = row
        what = "belongs to" if is_schema else "has tables or functions of"
        raise SchemaError(
            f'schema {schema!r} {what} role "{owner}", whose code would run as yours',
            hint=f'connect as "{owner}", or set `schema` to another name',
        )


def pending(conn: Connection, schema: str) -> list[Migration]:
    _check_owner(conn, schema)
    found = installed(conn, schema)
    if found is not None:
        _refuse_other(found, schema)
    version = found.version if found else 0
    return [migration for migration in known() if migration.number > version]


def migrate(url: str, schema: str, *, upto: int | None = None) -> list[Migration]:
    """Apply the missing migrations and return them. Any number of processes may call this at once:
    each file is applied by one of them, and the others wait for it."""
    with Session.connect(url, **own("rota migrate")) as conn:
        _check_encoding(conn)
        _prepare(conn, schema)
        todo = [
            migration
            for migration in pending(conn, schema)
            if upto is None or migration.number <= upto
        ]
        return [migration for migration in todo if _Upgrade(conn, schema, migration).apply()]


def _check_encoding(conn: Connection) -> None:
    if conn.info.parameter_status("server_encoding") == "SQL_ASCII":
        raise SchemaError(
            "the database's encoding is SQL_ASCII, which Rota does not support",
            hint="CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8'",
        )


def _prepare(conn: Connection, schema: str) -> None:
    _check_owner(conn, schema)
    statements = Statements(schema)
    while not installed(conn, schema):
        with suppress(*_MADE_MEANWHILE), conn.transaction():
            conn.execute(statements.naming("migrate/create_schema", schema=schema))
            _check_owner(conn, schema)  # another role may have been first
            conn.execute(statements.get("migrate/create_table").encode())


@dataclass(frozen=True, slots=True)
class _Upgrade:
    """A migration, applied to a database."""

    conn: Connection
    schema: str
    migration: Migration

    def apply(self) -> bool:
        """Apply the migration in one transaction; return False if another process has applied it.
        Wait for locks in short tries, so that other sessions do not queue behind a migration that
        cannot lock a table."""
        for attempt in range(1, _LOCK_TRIES + 1):
            try:
                with self.conn.transaction():
                    # Behind a pooler the session lacks Rota's settings.
                    for name, value in (SETTINGS | {"client_min_messages": "warning"}).items():
                        self._run("migrate/set", name=name, value=value)
                    return self._apply_locked()
            except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected):
                if attempt == _LOCK_TRIES:
                    raise
                time.sleep(0.1 * attempt)
        return False

    def _apply_locked(self) -> bool:
        """Apply the migration under a lock on `rota.migrations`: a role that may not change this
        table cannot block migrations."""
        # Another process may be applying a long one.
        self._run("migrate/set", name="lock_timeout", value="60s")
        self._run("migrate/lock")
        number, hashes = self._run("migrate/newest").fetchone() or (0, {})
        if number >= self.migration.number:
            return False
        self._run("migrate/set", name="lock_timeout", value="2s")
        objects = Objects(self.conn, self.schema, self._render, self.migration.number)
        self.conn.execute(self._render(self.migration.text))
        hashes |= objects.hashes(parse(self.migration.text))
        is_last = self.migration == known()[-1]
        if is_last:
            hashes = objects.define(parse(baseline().text), hashes)
        if is_last or self.migration.number > 1:  # the first migration pins functions itself
            self._run("migrate/pin")
        migration = self.migration
        row = {
            "number": migration.number,
            "name": migration.name,
            "oldest_code": migration.oldest_code,
        }
        self._run("migrate/record", **row, objects=Jsonb(hashes))
        return True

    def _run(self, name: str, /, **params: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.conn.execute(Statements(self.schema).get(name).encode(), params)

    def _render(self, text: str) -> bytes:
        text = render(text, self.schema)
        if self.conn.info.parameter_status("server_encoding") != "UTF8":
            text = text.translate(_PLAINER).encode("ascii", "replace").decode()
        return text.encode()
