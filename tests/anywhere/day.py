"""A small day of work, the same on every server: runs, failures, transactions, delays, keys,
schedules, logs, a SQL job, the API and commands. Afterwards the books balance."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import redirect_stdout
from io import StringIO
from typing import Any
from unittest.mock import patch

import httpx
from psycopg.rows import tuple_row

import rota
from rota.api import create_api
from rota.cli.main import run as run_command
from rota.testing import run_due
from tests.conftest import load_config

TOKEN = "a token for tests"
ODD = 'a \\ back, a \' quote, "two" and %s'
RUNS = 40
# A busy machine is not to lose the worker's lease.
_OURS = {"server.token": TOKEN, "worker.lease_seconds": 20.0}
COMMANDS = (
    ("runs", "list", "--state", "failed", "--since", "1h"),
    ("jobs", "list"),
    ("queues", "list"),
    ("schedules", "list"),
    ("workers", "list"),
    ("logs", "search", "quote"),
    ("errors", "list"),
    ("stats",),
    ("audit", "list"),
    ("retention", "run", "--dry-run"),
    ("doctor",),
)
# Every run ended as it should, after one attempt, and nothing else is there.
_UNBALANCED = """
SELECT r.id, r.job, r.state, r.last_error FROM rota.runs r
WHERE r.state <> CASE WHEN r.payload ->> 'n' = '2' THEN 'failed' ELSE 'succeeded' END
   OR (SELECT count(*) FROM rota.attempts a WHERE a.run_id = r.id) <> 1
"""


async def a_day_of_work(url: str, *, sql_job: str | None = None, **settings: Any) -> None:
    """`sql_job`: one that is declared already, to be run too; `settings` by their dotted keys."""
    app = rota.App(config=load_config(url, _OURS | settings))
    async with app:
        expected = await _enqueue(app, sql_job)
        await run_due(app, timeout=60)
        await _balance(app, expected)
        await _ask_api(app)
    await asyncio.to_thread(_command, url, settings)


async def _enqueue(app: rota.App, sql_job: str | None) -> int:
    """Answers how many runs there will be."""

    @app.job(max_attempts=1)
    def follow(n: int) -> int:
        return n

    @app.job(max_attempts=1)
    async def send(ctx: rota.Context, n: int) -> dict[str, Any]:
        ctx.log.warning(ODD, n=n)
        ctx.progress(0.5, ODD)
        if n == 2:
            raise ValueError(ODD)
        if n == 3:
            async with ctx.transaction() as conn:
                await follow.options(connection=conn).enqueue(n=n)
        return {"n": n, "said": ODD}

    await send.options(delay=0.01, tags=[ODD], metadata={"said": ODD}).enqueue(n=0)
    await asyncio.to_thread(send.enqueue_sync, n=1)
    await app.enqueue_many(send.call(n=n) for n in range(2, RUNS))
    once = send.options(key="once")
    assert not (await once.enqueue(n=RUNS)).is_duplicate
    assert (await once.enqueue(n=RUNS)).is_duplicate
    await app.schedules.create("often", job="send", every=3600, payload={"n": 7})
    await app.schedules.trigger("often")
    if sql_job is not None:
        await app.runs.enqueue(sql_job, {"n": RUNS})
    return RUNS + 3 + (sql_job is not None)


async def _balance(app: rota.App, expected: int) -> None:
    async with app.database.connection() as conn:
        cursor = conn.cursor(row_factory=tuple_row)
        assert await (await cursor.execute(_UNBALANCED)).fetchall() == []
        count = "SELECT count(*), count(DISTINCT (job, payload, schedule)) FROM rota.runs"
        assert await (await cursor.execute(count)).fetchone() == (expected, expected)
    run = (await app.runs.list(tag=ODD))[0]
    assert (run.result, run.metadata) == ({"n": 0, "said": ODD}, {"said": ODD})
    assert run.created_at.tzinfo is not None
    lines = (await app.logs.show(run.id)).lines
    assert ODD in [line.message for line in lines]
    assert (await app.schedules.get("often")).next_run_at is not None


async def _ask_api(app: rota.App) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(create_api(app))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://rota.test", headers=headers
    ) as client:
        made = await client.post("/api/v1/runs", json={"job": "follow", "payload": {"n": 77}})
        assert made.status_code == 201, made.text
        for path in ("runs", "jobs", "queues", "schedules", "workers", "overview", "stats"):
            answer = await client.get(f"/api/v1/{path}")
            assert answer.status_code == 200, (path, answer.text)


def _command(url: str, settings: dict[str, Any]) -> None:
    given = {"ROTA_" + key.upper().replace(".", "_"): str(it) for key, it in settings.items()}
    with patch.dict(os.environ, {"ROTA_DATABASE_URL": url, **given}):
        for words in COMMANDS:
            said = StringIO()
            with redirect_stdout(said):
                code = run_command([*words, "--json"])
            assert code in ((0, 1) if words == ("doctor",) else (0,)), (words, said.getvalue())
            json.loads(said.getvalue())
