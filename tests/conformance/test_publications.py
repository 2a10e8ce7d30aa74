"""Logical replication: every table can be published, and a copy can take over.

With a publication for all tables, which tools for change data capture make by default, the server
refuses to update or delete rows of a table without a replica identity."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from rota.embedded import EmbeddedPostgres
from rota.postgres.migrate import migrate
from rota.testing import Clock, eventually
from tests.anywhere.day import a_day_of_work
from tests.conftest import load_config
from tests.database import by_tcp, tcp_url
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]

UNNAMED = """
SELECT c.relname FROM pg_class c
WHERE c.relnamespace = 'rota'::regnamespace AND c.relkind IN ('r', 'p') AND c.relpersistence = 'p'
  AND NOT (c.relreplident = 'f' OR c.relreplident = 'd' AND EXISTS (
      SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary))
"""
# Sequences that only count: nothing is named by their numbers.
COUNTERS = {"duplicates", "event_starts", "hook_refused", "queue_refusals"}


def test_every_table_has_a_replica_identity(engine: Engine) -> None:
    engine.one("SELECT rota.ensure_partitions('2031-01-01', '2031-01-01')")
    engine.one("SELECT rota.ensure_ledger(ARRAY[timestamptz '2019-01-01'])")
    assert engine.rows(UNNAMED) == []


@pytest.fixture
def publishing() -> Iterator[str]:
    """A server that writes what replication needs, and publishes everything to somebody."""
    place = Path(tempfile.mkdtemp(prefix="rota-tests-publishing-")).resolve()
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", settings=by_tcp() | {"wal_level": "logical"})
    try:
        server.start()
        url = tcp_url(server)
        migrate(url, "rota")
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute("CREATE PUBLICATION everything FOR ALL TABLES")
            conn.execute(
                "CREATE PUBLICATION by_root FOR ALL TABLES WITH (publish_via_partition_root)"
            )
            conn.execute("SELECT pg_create_logical_replication_slot('reader', 'pgoutput')")
        yield url
    finally:
        server.stop(wait_seconds=20)
        shutil.rmtree(place, ignore_errors=True)


async def test_a_day_of_work_under_a_publication_for_all_tables(publishing: str) -> None:
    await a_day_of_work(publishing)
    app = rota.App(config=load_config(publishing, {"worker.lease_seconds": 20.0}))
    async with app:
        with psycopg.connect(publishing, autocommit=True) as conn:
            await _limits_and_tenants(app, conn)
            await _operate(app, conn)
            await _clean_up(app, conn)
            report = await app.doctor.get()
            identity = [it for it in report.findings if it.check == "replica_identity"]
            assert [it.verdict for it in identity] == ["ok"]
            for publication in ("everything", "by_root"):
                changes = conn.execute(
                    "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('reader', NULL, NULL,"
                    " 'proto_version', '1', 'publication_names', %s)",
                    [publication],
                ).fetchone()
                assert changes is not None
                assert changes[0] > 100


async def _limits_and_tenants(app: rota.App, conn: Conn) -> None:
    @app.job(limits=rota.concurrency(1, name="one"))
    async def single(n: int) -> int:
        return n

    @app.job(limits=rota.rate(100, per=1, name="rated"))
    async def rated(n: int) -> int:
        return n

    @app.job(limits=rota.sequence("line", name="line"))
    async def lined(ctx: rota.Context, n: int) -> int:
        ctx.log.info("in line", n=n)
        return n

    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0})
    async def flaky(ctx: rota.Context) -> None:
        if ctx.attempt == 1:
            raise ValueError("once more")

    @app.job(max_attempts=1)
    async def hopeless() -> None:
        raise ValueError("never")

    jobs = [single, rated, lined]
    acme = app.tenant("acme")
    made = await acme.enqueue_many(job.call(n=n) for n in range(5) for job in jobs)
    bad = await acme.enqueue_many([hopeless.call()] * 3)
    runs = [(await flaky.enqueue()).id, *(run.id for run in made), *(run.id for run in bad)]
    async with app.worker():
        for run in runs:
            await app.runs.wait(run, timeout=60)
    left = conn.execute(
        "SELECT job, state, count(*) FROM rota.runs WHERE job = ANY (%s) GROUP BY 1, 2 ORDER BY 1",
        [["single", "rated", "lined", "flaky", "hopeless"]],
    ).fetchall()
    assert left == [
        ("flaky", "succeeded", 1), ("hopeless", "failed", 3), ("lined", "succeeded", 5),
        ("rated", "succeeded", 5), ("single", "succeeded", 5),
    ]  # fmt: skip


async def _operate(app: rota.App, conn: Conn) -> None:
    """By hand, and by the loops that fold what others have appended."""
    first, second, third = [run.id for run in await app.runs.list(job="hopeless")]
    await app.runs.retry(first)
    await app.runs.cancel(first)
    await app.runs.delete(second)
    await app.runs.handle(third)
    await app.schedules.pause("often")
    async with app.worker():
        action = await app.bulk.start("retry", job="hopeless")

        async def done_and_folded() -> None:
            assert (await app.bulk.get(action.id)).state == "finished"
            for table in ("limit_releases", "error_changes", "count_changes", "tenant_changes"):
                query = sql.SQL("SELECT count(*) FROM rota.{}").format(sql.Identifier(table))
                assert conn.execute(query).fetchone() == (0,), table

        await eventually(done_and_folded, timeout=60)


async def _clean_up(app: rota.App, conn: Conn) -> None:
    """Row by row, by tenant, and by whole partitions."""
    conn.execute("""UPDATE rota.jobs SET retention = '{"count": 1}' WHERE name = 'rated'""")
    await app.retention.run()
    assert len(await app.runs.list(job="rated")) == 1
    await app.tenants.delete("acme")
    assert await app.runs.list(tenant="acme") == []
    clock = Clock(app)
    clock.advance(timedelta(days=60))
    try:
        await app.retention.run()
        assert await app.runs.list(job="send") == []
    finally:
        clock.reset()


def test_a_copy_goes_on_after_the_rows_that_it_has(engine: Engine, app: rota.App) -> None:
    """Logical replication copies no sequences: after a switch-over each begins anew."""
    engine.job("daily")
    engine.conn.execute(
        "INSERT INTO rota.schedules (name, job, cron) VALUES ('d', 'daily', '@daily')"
    )
    for _ in range(3):
        engine.cancel(engine.enqueue())
    engine.enqueue()
    engine.worker()
    engine.one("SELECT rota.emit('order.made')")
    highest = engine.one("SELECT max(id) FROM rota.runs")
    assert engine.rows("SELECT * FROM rota.sequences_behind()") == []
    names = {
        row["relname"]
        for row in engine.rows(
            "SELECT relname FROM pg_class"
            " WHERE relkind = 'S' AND relnamespace = 'rota'::regnamespace"
        )
    }
    for name in names:
        engine.one("SELECT setval(%s::regclass, 1, false)", f"rota.{name}")
    behind = {row["sequence"] for row in engine.rows("SELECT * FROM rota.sequences_behind()")}
    assert {"run_ids", "worker_ids", "event_ids", "audit_id_seq", "schedules_id_seq"} <= behind
    (one,) = [it for it in app.doctor.sync.get().findings if it.check == "sequences"]
    assert one.verdict == "bad"
    assert "run_ids" in str(one.detail)
    assert one.commands == ["SELECT * FROM rota.raise_sequences();"]
    moved = {row["sequence"] for row in engine.rows("SELECT * FROM rota.raise_sequences()")}
    assert moved == behind
    assert engine.rows("SELECT * FROM rota.sequences_behind()") == []
    assert engine.enqueue() > highest
    engine.worker()
    engine.one("SELECT rota.emit('order.made')")


def test_every_sequence_is_watched_or_only_counts(engine: Engine) -> None:
    """A row in each table whose numbers come from a sequence that no column owns."""
    owned = {
        row["relname"]
        for row in engine.rows(
            "SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid"
            " WHERE c.relkind = 'S' AND d.deptype IN ('a', 'i')"
            " AND c.relnamespace = 'rota'::regnamespace"
        )
    }
    every = engine.rows(
        "SELECT relname FROM pg_class WHERE relkind = 'S' AND relnamespace = 'rota'::regnamespace"
    )
    source = engine.one("SELECT prosrc FROM pg_proc WHERE proname = 'sequences_behind'")
    alone = {row["relname"] for row in every} - owned - COUNTERS
    assert alone == {name for name in alone if f"rota.{name}'" in source}


def test_a_table_without_identity_is_found(engine: Engine, app: rota.App) -> None:
    engine.conn.execute("CREATE PUBLICATION few FOR TABLE rota.keys, rota.ended_runs")
    (fine,) = [it for it in app.doctor.sync.get().findings if it.check == "replica_identity"]
    assert fine.verdict == "ok"
    engine.conn.execute("ALTER TABLE rota.keys REPLICA IDENTITY NOTHING")
    part = engine.one(
        "SELECT min(partition) FROM rota.history_parts() WHERE parent = 'ended_runs_long'"
    )
    engine.conn.execute(
        sql.SQL("ALTER TABLE rota.{} REPLICA IDENTITY NOTHING").format(sql.Identifier(part))
    )
    engine.conn.execute("ALTER TABLE rota.jobs REPLICA IDENTITY NOTHING")
    (one,) = [it for it in app.doctor.sync.get().findings if it.check == "replica_identity"]
    assert (one.verdict, one.figure) == ("bad", "2")
    assert one.commands == [
        f"ALTER TABLE rota.{part} REPLICA IDENTITY FULL;",
        "ALTER TABLE rota.keys REPLICA IDENTITY FULL;",
    ]
    for command in one.commands:
        engine.conn.execute(command.encode())
    (mended,) = [it for it in app.doctor.sync.get().findings if it.check == "replica_identity"]
    assert mended.verdict == "ok"
