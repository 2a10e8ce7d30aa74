"""The declared fields of schedules agree with their columns: type, NOT NULL, default, range and
choices. The table is asked, by writing values at the bounds and beyond them."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from rota.model.fields import Argument
from rota.model.schedule_fields import KINDS, schedule_settings

SETTINGS = list(schedule_settings().values())
TYPES = {
    "flag": {"boolean"}, "whole": {"integer", "smallint"}, "number": {"double precision"},
    "duration": {"double precision", "real"}, "instant": {"timestamp with time zone"},
    "choice": {"text"}, "words": {"ARRAY"}, "text": {"text"}, "object": {"jsonb"},
    "objects": {"jsonb"},
}  # fmt: skip


@pytest.fixture
def columns(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    rows = conn.execute(
        "SELECT column_name, data_type, is_nullable = 'NO', column_default"
        " FROM information_schema.columns WHERE table_schema = 'rota' AND table_name = 'schedules'"
    )
    return {name: rest for name, *rest in rows}


@pytest.fixture
def schedule(conn: psycopg.Connection[Any]) -> int:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work')")
    row = conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', 'work', 60)"
        " RETURNING id"
    ).fetchone()
    assert row is not None
    return int(row[0])


def write(conn: psycopg.Connection[Any], schedule: int, name: str, value: Any) -> None:
    with conn.transaction(force_rollback=True):
        conn.execute(
            f"UPDATE rota.schedules SET {name} = %s WHERE id = %s",  # type: ignore[arg-type]
            [value, schedule],
        )


@pytest.mark.parametrize("one", SETTINGS, ids=lambda one: one.name)
def test_type_and_default(conn: psycopg.Connection[Any], columns: Any, one: Argument) -> None:
    kind, is_required, default = columns[one.name]
    assert kind in TYPES[one.kind]
    assert is_required == (one.field.default is not None or one.name == "is_enabled")
    if one.field.default is not None:
        stored = conn.execute(f"SELECT to_jsonb({default})").fetchone()  # type: ignore[arg-type]
        assert stored is not None
        assert stored[0] == json.loads(json.dumps(one.field.default))


BOUNDED = [one for one in SETTINGS if one.kind in ("whole", "duration", "choice")]


@pytest.mark.parametrize("one", BOUNDED, ids=lambda one: one.name)
def test_range_and_choices(conn: psycopg.Connection[Any], schedule: int, one: Argument) -> None:
    if one.kind == "choice":
        for word in one.words if one.name not in KINDS else ():
            write(conn, schedule, one.name, word)
        beyond: Any = "something else"
    else:
        assert one.field.least is not None
        write(conn, schedule, one.name, one.field.least)
        beyond = one.field.least - 1
    with pytest.raises(psycopg.Error) as caught:
        write(conn, schedule, one.name, beyond)
    assert caught.value.sqlstate == "RO002"
