"""Jobs under limits. What is at work is counted by locks that the server takes back when a process
dies."""

from __future__ import annotations

import asyncio
import os

import psycopg

import rota
from tests.apps.making import make_app

app = make_app()

_AT_WORK = """
    INSERT INTO at_work SELECT count(*) FROM pg_locks
    WHERE locktype = 'advisory' AND classid = 4711 AND granted
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@app.job(max_attempts=20, limits=rota.concurrency(3, name="three"))
async def careful(ctx: rota.Context, seconds: float) -> None:
    url = os.environ["ROTA_TEST_DATABASE"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("SELECT pg_advisory_lock(4711, %s)", [ctx.run_id % 2**31])
        await conn.execute(_AT_WORK)
        await asyncio.sleep(seconds)


@app.job(max_attempts=20, limits=rota.concurrency(3, name="three marked"))
async def marked(file: str, seconds: float) -> None:
    """Says when it begins and ends where no connection is needed for it."""
    with open(file, "a", buffering=1) as marks:  # noqa: ASYNC230 - a byte
        marks.write("+\n")
        try:
            await asyncio.sleep(seconds)
        finally:
            marks.write("-\n")


@app.job(limits=[rota.sequence("{line}"), rota.concurrency(50)])
async def in_line(line: str, n: int) -> None:
    url = os.environ["ROTA_TEST_DATABASE"]
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("INSERT INTO lines (line, n) VALUES (%s, %s)", [line, n])
