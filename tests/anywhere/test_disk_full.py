"""A disk that is full: workers wait, say so in one line, lose nothing, and go on by themselves."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

import rota
from rota.embedded.accounts import server_account
from rota.errors import DatabaseError
from rota.postgres.migrate import migrate
from rota.testing import eventually
from tests.chaos.server import make_server
from tests.conftest import load_config
from tests.database import tcp_url
from tests.sql_engine import Engine

RUNS = 20
_FILL = "INSERT INTO public.filler SELECT repeat('x', 8000) FROM generate_series(1, %s)"


@pytest.fixture
def small_disk() -> Iterator[str]:
    """A database on a small file system, on a server of its own: one that cannot write a page of
    one database refuses the others its checkpoints, and what needs room in its buffers."""
    with make_server() as server:
        place = server.home.parent / "small"
        place.mkdir()
        account = server_account(place / "none")
        options = f"size=96m,mode=700,uid={account.uid},gid={account.gid}"
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "none", place], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            pytest.skip("no right to mount a small file system: a full disk was not tested")
        base, _, _ = tcp_url(server).rpartition("/")
        try:
            with psycopg.connect(f"{base}/postgres", autocommit=True) as admin:
                admin.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
                admin.execute("CREATE DATABASE small TABLESPACE small")
            migrate(f"{base}/small", "rota")
            yield f"{base}/small"
        finally:
            server.stop(wait_seconds=20)
            subprocess.run(["umount", "-l", place], check=False)


def fill(conn: psycopg.Connection[tuple[object, ...]]) -> None:
    """Every page of the disk; what a refused insert has taken stays taken."""
    conn.execute("CREATE TABLE public.filler (x text)")
    conn.execute("ALTER TABLE public.filler ALTER x SET STORAGE PLAIN")
    for rows in (1000, 100, 10, 1, 1, 1):
        with suppress(psycopg.errors.DiskFull):
            while True:
                conn.execute(_FILL, [rows])


async def test_a_full_disk(small_disk: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    app = rota.App(config=load_config(small_disk, {"worker.lease_seconds": 60.0}))
    is_full, running = asyncio.Event(), 0

    @app.job(max_attempts=1)
    async def work(ctx: rota.Context, blob: str = "") -> str:
        nonlocal running
        running += 1
        await is_full.wait()
        ctx.log.info("a line that waits, too")
        return "x" * 50_000

    def said(words: str) -> int:
        return sum(words in line for line in caplog.messages)

    with psycopg.connect(small_disk, autocommit=True) as conn:
        engine = Engine(conn)
        async with app, app.worker() as worker:
            await app.enqueue_many(work.call() for _ in range(RUNS))
            identity = worker.id
            await eventually(lambda: running == app.config.worker.concurrency or running == RUNS)
            await asyncio.to_thread(fill, conn)
            is_full.set()
            await eventually(lambda: said("the server's disk is full") > 0)
            with pytest.raises(DatabaseError) as refused:
                await work.enqueue(blob="x" * 900_000)
            assert refused.value.sqlstate == "53100"
            conn.execute("DROP TABLE public.filler")
            await eventually(lambda: engine.one("SELECT count(*) FROM rota.open_runs") == 0, 60)
            await eventually(lambda: said("the database is writable again") > 0, 60)
            assert worker.id == identity
        ended = "SELECT count(*) FROM rota.runs WHERE state = 'succeeded' AND attempt = 1"
        assert engine.one(ended) == RUNS
        assert engine.one("SELECT count(*) FROM rota.logs") == RUNS
    assert said("the server's disk is full") == 1
