"""How rows come back."""

from __future__ import annotations

import copy
import json
import sys
from datetime import UTC, datetime, timedelta

import pytest

import rota
from rota.api.errors import as_problem
from rota.cli.terminal.failure import is_away
from rota.errors import DatabaseError
from rota.postgres.errors import translate
from rota.postgres.rows import NOT_READ, named_row, read_again

# What Postgres can hold: more digits than a float, and more than a float can hold at all.
NUMBERS = (
    """{"big": 123456789012345678901234, "small": -0.5, "huge": 1e400, "list": [1, "ü", null]}"""
)


async def test_json_is_read_as_json(app: rota.App) -> None:
    async with app.database.connection() as conn:
        for kind in ("json", "jsonb"):
            for is_binary in (False, True):
                query = f"SELECT v, v::text FROM (VALUES ('{NUMBERS}'::{kind})) t (v)".encode()
                cursor = await conn.execute(query, binary=is_binary)
                found, text = (await cursor.fetchone()) or ()
                huge = found.pop("huge")
                assert found == {key: it for key, it in json.loads(text).items() if key != "huge"}
                assert huge == (10**400 if kind == "jsonb" else "unreadable: 1e400")
                assert found["big"] == 123456789012345678901234


async def test_rows_have_the_names_that_code_has(app: rota.App) -> None:
    async with app.database.connection() as conn:
        cursor = conn.cursor(row_factory=named_row)
        await cursor.execute("SELECT 1 AS attempts, 2 AS queue")
        row = await cursor.fetchone()
        assert row == {"attempts": 1, "queue": 2}
        assert all(name is sys.intern(name) for name in row)
        await cursor.execute("SET LOCAL work_mem = '4MB'")
        assert cursor.description is None


ODD = (
    "('infinity'), ('-infinity'), ('0044-03-15 00:00Z BC'), ('20000-01-01 00:00Z'), ('2026-01-01')"
)


@pytest.mark.parametrize("is_binary", [False, True])
async def test_an_instant_that_python_cannot_hold_is_shown(app: rota.App, is_binary: bool) -> None:
    async with app.database.connection() as conn:
        cursor = conn.cursor(row_factory=named_row)
        await cursor.execute(
            f"SELECT at::timestamptz, 1 AS n FROM (VALUES {ODD}) v (at)".encode(), binary=is_binary
        )
        with pytest.raises(NOT_READ):
            await cursor.fetchall()
        rows = read_again(cursor, named_row(cursor))
    shown = [str(row["at"]) for row in rows]
    assert shown[:2] == ["unreadable: infinity", "unreadable: -infinity"]
    assert all("unreadable" in text for text in shown[2:4])
    assert rows[4]["at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert rows[1]["at"] < rows[2]["at"] + timedelta(1) < rows[4]["at"] < rows[0]["at"]
    assert copy.deepcopy(rows[0]["at"]).isoformat() == "unreadable: infinity"


async def test_a_value_that_cannot_be_read_is_not_a_database_that_is_away(app: rota.App) -> None:
    with pytest.raises(DatabaseError) as caught, translate():
        async with app.database.connection() as conn:
            await (await conn.execute("SELECT 'infinity'::timestamptz")).fetchall()
    assert caught.value.sqlstate == "XX001"
    assert not is_away(caught.value)
    assert as_problem(caught.value).status_code == 500
