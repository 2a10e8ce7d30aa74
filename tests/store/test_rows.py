"""How rows come back."""

from __future__ import annotations

import json
import sys

import rota
from rota.store.rows import named_row

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
                assert found == json.loads(text)
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
