"""The declared fields of a record agree with the columns that hold them: type, NOT NULL, range,
length and choices. The fields are those of the registry, so a new one is compared by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import psycopg
import pytest
from psycopg import sql

from rota.model.fields import UNCHANGED, Argument, field_of
from rota.operations.registry import NOUNS, commands_of, operations_of

Connection = psycopg.Connection[Any]
TABLES = {
    "queues": "queues", "limits": "limits", "tenants": "tenants", "workers": "workers",
    "jobs": "jobs", "calendars": "calendars", "schedules": "schedules", "runs": "open_runs",
    "errors": "error_groups", "bulk": "bulk_actions", "views": "run_views", "audit": "audit",
    "watches": "table_watches", "events": "events", "templates": "schedule_templates",
}  # fmt: skip
# Nouns whose records are kept in the tables of others.
WITHOUT = {"cleanup": "a schedule and its job"}
_TYPES: dict[Any, tuple[str, ...]] = {
    str: ("text", "uuid", "name"), int: ("smallint", "integer", "bigint"), bool: ("boolean",),
    float: ("double precision", "real", "numeric"), datetime: ("timestamp with time zone",),
    dict: ("jsonb",), list: ("ARRAY", "jsonb"), tuple: ("ARRAY", "jsonb"),
}  # fmt: skip
_KINDS: dict[str, tuple[str, ...]] = {
    "flag": ("boolean",), "whole": _TYPES[int], "number": _TYPES[float], "choice": ("text",),
    "duration": (*_TYPES[float], *_TYPES[int]), "text": _TYPES[str], "words": ("ARRAY",),
    "object": ("jsonb",), "numbers": ("ARRAY",), "moment": ("timestamp with time zone",),
    "pairs": ("jsonb",), "selection": ("ARRAY",), "objects": ("jsonb",),
    "instant": ("timestamp with time zone",),
}  # fmt: skip
# A row of each table with settings, in which one column after the other is changed.
ROWS = {
    "queues": "INSERT INTO rota.queues (name) VALUES ('a')",
    "limits": "INSERT INTO rota.limits (name, kind, cap) VALUES ('a', 'concurrency', 1)",
    "tenants": "INSERT INTO rota.tenants (name) VALUES ('a')",
    "jobs": "INSERT INTO rota.jobs (name) VALUES ('a')",
    "calendars": "INSERT INTO rota.calendars (name, definition) VALUES ('a', '{}')",
    "schedules": "INSERT INTO rota.jobs (name) VALUES ('a');"
    " INSERT INTO rota.schedules (name, job, cron) VALUES ('a', 'a', '@daily')",
    "schedule_templates": "INSERT INTO rota.schedule_templates (name, cron) VALUES ('a', '@daily')",
    "run_views": "INSERT INTO rota.run_views (name, query, created_by)"
    " VALUES ('a', 'state=failed', 'ada')",
}
# What a row needs before the field can be set.
_RATE = "UPDATE rota.limits SET kind = 'rate', cap = 1000000, period_seconds = 60 WHERE name = 'a'"
_SEQUENCE = "UPDATE rota.limits SET kind = 'sequence', next_after = 'end' WHERE name = 'a'"
_INTERVAL = "UPDATE rota.schedules SET cron = NULL, interval_seconds = 60 WHERE name = 'a'"
_INIT = "UPDATE rota.schedules SET cron = NULL, init = 'once' WHERE name = 'a'"
_SQL_JOB = (
    "CREATE FUNCTION public.f() RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';"
    " UPDATE rota.jobs SET kind = 'sql', function_name = 'public.f' WHERE name = 'a'"
)
FIRST = {
    "limits.period_seconds": _RATE, "limits.burst": _RATE, "limits.cost": _RATE,
    "limits.next_after": _SEQUENCE, "schedules.interval_seconds": _INTERVAL,
    "schedules.every_from": _INTERVAL, "schedules.init": _INIT,
    "jobs.function_name": _SQL_JOB, "jobs.run_as": _SQL_JOB,
}  # fmt: skip
# None leaves it as it is, or stands for the default of the column, which is NOT NULL.
DEFAULTS = {
    "tenants.weight", "tenants.description", "tenants.metadata", "schedules.is_enabled",
}  # fmt: skip
# The column is NULL for records that people cannot set it for, or that never did.
UNSET = {"jobs.backoff", "jobs.function_name"}
# Their choices depend on what else is set; the empty tenant is none.
OTHER_FIELDS, EMPTY = {"limits.kind", "jobs.transaction_mode"}, {"jobs.tenant"}
# A trigger or a view fills them.
FILLED = {
    "schedules.anchor_at", "runs.payload", "runs.tags", "runs.metadata", "runs.triggered_by",
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    type: str
    is_nullable: bool


@pytest.fixture
def columns(conn: Connection) -> dict[tuple[str, str], Column]:
    rows = conn.execute(
        "SELECT table_name, column_name, data_type, is_nullable = 'YES'"
        " FROM information_schema.columns WHERE table_schema = 'rota'"
    )
    return {(table, name): Column(kind, nullable) for table, name, kind, nullable in rows}


def settings() -> Iterator[Any]:
    """The table and each field of an operation that is stored in it."""
    for many, table in TABLES.items():
        if table in ROWS:
            found = {
                one.name: one
                for operation in operations_of(commands_of(many))
                for one in operation.inputs
                if one.default is UNCHANGED or operation.verb in ("save", "set")
            }
            yield from (
                pytest.param(table, one, id=f"{table}.{one.name}") for one in found.values()
            )


def test_every_noun_is_compared() -> None:
    assert {*TABLES, *WITHOUT} == {*NOUNS}
    assert len([*settings()]) > 40


@pytest.mark.parametrize("many", TABLES)
def test_a_record_reads_what_its_columns_hold(
    columns: dict[tuple[str, str], Column], many: str
) -> None:
    record, wrong = commands_of(many).noun.record, []
    hints = get_type_hints(record, include_extras=True)
    for name in (one.name for one in fields(record)):
        column = columns.get((TABLES[many], name))
        if column is None:
            continue
        hint = hints[name]
        inner = get_args(hint)[0] if field_of(hint) is not None else hint
        members = get_args(inner) if get_origin(inner) in (UnionType, Union) else (inner,)
        kinds = [get_origin(one) or one for one in members if one not in (NoneType, Any)]
        kinds = [str if one is Literal else one for one in kinds]
        if kinds and not any(column.type in _TYPES.get(one, ("jsonb",)) for one in kinds):
            wrong.append(f"{name}: {inner} reads {column.type}")
        is_filled = f"{many}.{name}" in FILLED
        if column.is_nullable and NoneType not in members and inner is not Any and not is_filled:
            wrong.append(f"{name}: {inner} reads a column that may be NULL")
    assert not wrong, wrong


@pytest.mark.parametrize(("table", "one"), [*settings()])
def test_a_setting_takes_what_its_column_takes(
    conn: Connection, columns: dict[tuple[str, str], Column], table: str, one: Argument
) -> None:
    column, name = columns[table, one.name], f"{table}.{one.name}"
    assert column.type in _KINDS[one.kind]
    if name not in DEFAULTS | UNSET:
        assert (one.is_optional and one.field.default is None) == column.is_nullable
    conn.execute(ROWS[table].encode())
    if name in FIRST:
        conn.execute(FIRST[name].encode())
    if one.kind in ("whole", "number", "duration"):
        _check_range(conn, table, one)
    elif one.kind == "choice":
        assert name in OTHER_FIELDS or all(takes(conn, table, one.name, it) for it in one.words)
        assert not takes(conn, table, one.name, "no such word")
    elif one.kind == "text":
        assert not takes(conn, table, one.name, "x" * (one.field.longest + 1))
        if one.field.shortest and name not in EMPTY:
            assert not takes(conn, table, one.name, "")
    if not column.is_nullable:
        assert not takes(conn, table, one.name, None)


def _check_range(conn: Connection, table: str, one: Argument) -> None:
    least, most = one.field.least, one.field.most
    step = 1 if one.kind == "whole" else 0.0001
    if least is not None:
        assert takes(conn, table, one.name, least)
        assert not takes(conn, table, one.name, least - step), least
    if most is not None:
        # Some are stored in single precision.
        assert takes(conn, table, one.name, most)
        assert not takes(conn, table, one.name, most + max(step, int(most // 100_000))), most


def takes(conn: Connection, table: str, column: str, value: Any) -> bool:
    """Whether the database stores the value. Another rule may refuse it because of other columns:
    that is not about this column."""
    query = sql.SQL("UPDATE rota.{} SET {} = %s WHERE name = 'a'").format(
        sql.Identifier(table), sql.Identifier(column)
    )
    given = json.dumps(value) if isinstance(value, dict) else value
    try:
        with conn.transaction():
            conn.execute(query, [given])
            conn.execute("SET CONSTRAINTS ALL IMMEDIATE")
            raise psycopg.Rollback
    except psycopg.Error:
        return False
    return True
