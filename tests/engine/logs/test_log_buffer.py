"""Lines on their way: bounded, told when dropped, written when an attempt ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from time import monotonic_ns
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.logs.log_buffer import LogBuffer
from rota.engine.logs.log_lines import COPY_BEGIN, COPY_END, BufferedLine, Row, to_copy
from rota.engine.logs.log_writer import Unanswered
from rota.model.run import Claim
from rota.postgres.sessions.pool import AsyncConn
from rota.testing import eventually
from tests.sql_engine import Engine

MakeApp = Callable[..., rota.App]


class Attempt:
    """What the buffer asks of one."""

    worker = 3

    def __init__(self, run_id: int) -> None:
        values = dict.fromkeys(Claim._fields) | {
            "id": run_id,
            "attempt": 1,
            "job": "work",
            "tenant": "blue",
        }
        self.claim = Claim(**values)
        self.log_seqs = count(1)


@pytest.fixture
async def make_buffer(app: rota.App) -> Callable[..., LogBuffer]:
    await app.database.open()

    def make(**options: Any) -> LogBuffer:
        usual = {"buffer_lines": 100, "buffer_bytes": 1 << 20, "flush_seconds": 60}
        return LogBuffer(app.database, **(usual | {"line_bytes": 1000} | options))

    return make


def lines(engine: Engine) -> list[dict[str, Any]]:
    return engine.rows("SELECT * FROM rota.logs ORDER BY run_id, seq")


async def test_what_is_added_is_written_in_order(
    make_buffer: Callable[..., LogBuffer], engine: Engine
) -> None:
    buffer, attempt = make_buffer(), Attempt(7)
    buffer.add(attempt, "info", "one", {"a": 1}, monotonic_ns())
    buffer.add(attempt, "error", "two", {}, monotonic_ns())
    assert await buffer.run_once() == 60
    found = lines(engine)
    assert [(it["seq"], it["level"], it["message"], it["fields"]) for it in found] == [
        (1, "info", "one", {"a": 1}),
        (2, "error", "two", None),
    ]
    assert {(it["run_id"], it["worker"], it["tenant"], it["job"]) for it in found} == {
        (7, 3, "blue", "work")
    }
    await buffer.run_once()
    assert len(lines(engine)) == 2


@pytest.mark.parametrize(
    "options", [{"buffer_lines": 3}, {"buffer_bytes": 3 * 750, "buffer_lines": 100}]
)
async def test_a_full_buffer_drops_and_tells_each_attempt(
    make_buffer: Callable[..., LogBuffer], engine: Engine, options: dict[str, int]
) -> None:
    buffer, loud, quiet = make_buffer(**options), Attempt(1), Attempt(2)
    for n in range(10):
        buffer.add(loud, "info", f"line {n}", {}, monotonic_ns())
    buffer.add(quiet, "info", "hello", {}, monotonic_ns())
    assert buffer.dropped_total == 8
    await buffer.run_once()
    message = "log lines were dropped: the buffer was full"
    assert [(it["run_id"], it["seq"], it["message"], it["fields"]) for it in lines(engine)] == [
        (1, 1, "line 0", None),
        (1, 2, "line 1", None),
        (1, 3, "line 2", None),
        (1, 4, message, {"dropped": 7}),
        (2, 1, message, {"dropped": 1}),
    ]
    buffer.add(loud, "info", "again", {}, monotonic_ns())
    await buffer.run_once()
    assert [it["seq"] for it in lines(engine) if it["run_id"] == 1] == [1, 2, 3, 4, 11]


async def test_a_refused_line_does_not_keep_the_others_out(
    make_buffer: Callable[..., LogBuffer], engine: Engine
) -> None:
    buffer, attempt = make_buffer(), Attempt(1)
    for n in range(5):
        buffer.add(attempt, "info", f"line {n}", {}, monotonic_ns())
    # Deeper than the server can follow, past every check of ours.
    deep = "[" * 200_000 + "]" * 200_000
    line = BufferedLine._make(buffer._rows[2])
    buffer._rows[2] = line._replace(fields=b'{"deep": ' + deep.encode() + b"}")
    await buffer.run_once()
    found = lines(engine)
    assert [it["message"] for it in found] == ["line 0", "line 1", "line 2", "line 3", "line 4"]
    assert list(found[2]["fields"]) == ["refused"]


async def test_a_clock_that_was_moved_finds_its_partition(
    make_buffer: Callable[..., LogBuffer], engine: Engine
) -> None:
    buffer = make_buffer()
    engine.conn.execute("SELECT rota.set_clock('2040-01-01')")
    buffer.add(Attempt(1), "info", "from the future", {}, monotonic_ns())
    await buffer.run_once()
    assert engine.one(
        "SELECT extract(year FROM at)::int FROM rota.logs WHERE at > '2039-01-01'"
    ) in (
        2039,
        2040,
    )


async def test_threads_get_one_sequence(
    make_buffer: Callable[..., LogBuffer], engine: Engine
) -> None:
    buffer, attempt = make_buffer(buffer_lines=10_000), Attempt(1)

    def talk() -> None:
        for n in range(200):
            buffer.add(attempt, "info", "x", {"n": n}, monotonic_ns())

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    await buffer.run_once()
    assert [it["seq"] for it in lines(engine)] == list(range(1, 801))


async def test_stopping_waits_for_the_write_under_way_and_stores_nothing_twice(
    make_buffer: Callable[..., LogBuffer], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = make_buffer()
    sent, may_end = asyncio.Event(), asyncio.Event()
    send = buffer._writer._send

    async def slow(*args: Any) -> None:
        await send(*args)
        sent.set()
        await may_end.wait()

    monkeypatch.setattr(buffer._writer, "_send", slow)
    buffer.add(Attempt(1), "info", "once", {}, monotonic_ns())
    buffer.start()
    await sent.wait()
    stopping = asyncio.create_task(buffer.stop())
    await asyncio.sleep(0)
    may_end.set()
    await stopping
    assert len(lines(engine)) == 1


async def test_stopping_tries_again_while_the_database_is_away(
    make_buffer: Callable[..., LogBuffer], engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = make_buffer()
    write, tries = buffer._writer.write, [0]

    async def flaky(batch: list[Row]) -> None:
        tries[0] += 1
        if tries[0] < 3:
            raise psycopg.OperationalError("away")
        await write(batch)

    monkeypatch.setattr(buffer._writer, "write", flaky)
    buffer.add(Attempt(1), "info", "last", {}, monotonic_ns())
    await buffer.stop()
    assert [it["message"] for it in lines(engine)] == ["last"]


# A connection that broke before the answer came.


@pytest.mark.parametrize("is_stored", [True, False])
async def test_lines_without_an_answer_are_stored_once(
    make_buffer: Callable[..., LogBuffer],
    engine: Engine,
    monkeypatch: pytest.MonkeyPatch,
    is_stored: bool,
) -> None:
    buffer, attempt = make_buffer(), Attempt(1)
    send = buffer._writer._send

    async def broken(conn: AsyncConn, *rest: Any) -> None:
        if is_stored:
            await send(conn, *rest)
        await conn.close()
        raise psycopg.OperationalError("the connection is lost")

    buffer.add(attempt, "info", "one", {}, monotonic_ns())
    buffer.add(attempt, "info", "two", {}, monotonic_ns())
    monkeypatch.setattr(buffer._writer, "_send", broken)
    with pytest.raises(psycopg.OperationalError):
        await buffer.run_once()
    assert len(lines(engine)) == (2 if is_stored else 0)
    buffer.add(attempt, "info", "three", {}, monotonic_ns())
    monkeypatch.setattr(buffer._writer, "_send", send)
    await buffer.run_once()
    assert [it["message"] for it in lines(engine)] == ["one", "two", "three"]
    assert not buffer._writer._doubtful


async def test_lines_wait_while_the_server_may_still_store_them(
    make_buffer: Callable[..., LogBuffer], engine: Engine, app: rota.App
) -> None:
    """The network lost the connection; the process of the server has not noticed yet."""
    buffer, attempt = make_buffer(), Attempt(1)
    buffer.add(attempt, "info", "once", {}, monotonic_ns())
    row = buffer._rows[0]
    with psycopg.connect(app.database.url) as other:
        with other.cursor() as cursor, cursor.copy(buffer._writer._copy_sql) as copy:
            now = datetime.now(UTC)
            copy.write(COPY_BEGIN + to_copy([row], now, monotonic_ns()) + COPY_END)
        buffer._writer._doubtful = {(1, 1, 1)}
        with pytest.raises(Unanswered):
            await buffer.run_once()
        other.commit()
    await buffer.run_once()
    assert len(lines(engine)) == 1
    assert not buffer._rows


# In a worker.


async def test_the_end_of_an_attempt_is_enough(make_app: MakeApp, engine: Engine) -> None:
    """With an hour between flushes, and one line only."""
    app = make_app(**{"logs.flush_seconds": 3600.0})

    @app.job
    async def work(ctx: rota.Context) -> None:
        ctx.log.info("done")

    async with app.worker():
        run = await work.enqueue()
        await run.wait(20)

        async def readable() -> None:
            assert [line.message for line in (await app.logs.show(run.id)).lines] == ["done"]

        await eventually(readable)


async def test_a_hundred_lines_do_not_wait_for_the_end(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**{"logs.flush_seconds": 3600.0})
    seen = asyncio.Event()

    @app.job
    async def work(ctx: rota.Context) -> None:
        for n in range(100):
            ctx.log.info("line", n=n)
        await seen.wait()

    async with app.worker():
        run = await work.enqueue()

        async def readable() -> None:
            assert len((await app.logs.show(run.id)).lines) == 100

        await eventually(readable)
        seen.set()
        await run.wait(20)


async def test_no_line_of_an_ended_attempt_is_lost_by_a_shutdown(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**{"logs.flush_seconds": 3600.0})

    @app.job
    async def work(ctx: rota.Context, n: int) -> None:
        ctx.log.info("line", n=n)
        ctx.log.info("and another")

    async with app.worker():
        runs = await app.enqueue_many(work.call(n=n) for n in range(500))
        for run in runs:
            await run.wait(30)
    assert engine.one("SELECT count(*) FROM rota.logs") == 1000
    assert engine.one("SELECT count(DISTINCT (run_id, attempt, seq)) FROM rota.logs") == 1000


async def test_a_lost_database_costs_lines_only_beyond_the_buffer(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**{"logs.buffer_lines": 100, "logs.flush_seconds": 3600.0})

    @app.job
    async def work(ctx: rota.Context) -> None:
        for n in range(150):
            ctx.log.info(f"line {n}")

    async with app.worker():
        run = await work.enqueue()
        await run.wait(20)
    found = (await app.logs.show(run.id)).lines
    assert [line.seq for line in found] == list(range(1, 102))
    assert found[-1].fields == {"dropped": 50}
    assert found[-1].level == "warning"


# Levels.


async def test_a_job_may_store_more_or_less_than_the_rest(app: rota.App, engine: Engine) -> None:
    def talk(ctx: rota.Context) -> None:
        for level in ("debug", "info", "warning", "error", "critical"):
            getattr(ctx.log, level)(level)

    @app.job(log_level="debug")
    async def loud(ctx: rota.Context) -> None:
        talk(ctx)

    @app.job(log_level="error")
    async def quiet(ctx: rota.Context) -> None:
        talk(ctx)

    @app.job()
    async def usual(ctx: rota.Context) -> None:
        talk(ctx)

    async with app.worker():
        for job, count in ((loud, 5), (quiet, 2), (usual, 4)):
            run = await job.enqueue()
            await run.wait(20)
            await eventually(lambda: _count(app, run.id, count))  # noqa: B023
    assert (await app.jobs.get("loud")).log_level == "debug"
    assert (await app.jobs.get("usual")).log_level is None


async def _count(app: rota.App, run_id: int, count: int) -> None:
    assert len((await app.logs.show(run_id)).lines) == count


async def test_an_operator_changes_the_level_while_workers_run(app: rota.App) -> None:
    @app.job()
    async def work(ctx: rota.Context) -> None:
        ctx.log.debug("fine detail")
        ctx.log.error("bad")

    async with app.worker():
        await app.jobs.by("ada").update("work", log_level="debug")
        assert "log_level" in (await app.jobs.get("work")).edited

        async def both() -> None:
            run = await work.enqueue()
            await run.wait(20)
            await _count(app, run.id, 2)

        await eventually(both, 30)
        await app.jobs.update("work", reset=["log_level"])
        assert (await app.jobs.get("work")).log_level is None
    with pytest.raises(rota.JobError, match=r"log_level .loud. is not a choice"):
        await app.jobs.update("work", log_level="loud")
    with pytest.raises(rota.JobError, match=r"log_level .loud. is not a choice"):

        @app.job(log_level="loud")  # type: ignore[typeddict-item]
        async def bad() -> None: ...


async def test_the_level_of_an_sql_job(app: rota.App, engine: Engine) -> None:
    engine.conn.execute(
        "CREATE FUNCTION public.talk() RETURNS jsonb LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE DEBUG 'fine %', repeat('x', 50000); RAISE NOTICE 'so so'; RAISE WARNING 'bad';"
        """ RETURN '{"success": true, "message": ""}'; END $$"""
    )
    engine.conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, log_level)"
        " VALUES ('talk', 'sql', 'public.talk', 'debug')"
    )
    async with app.worker():
        run = await app.runs.enqueue("talk")
        await run.wait(20)
        await eventually(lambda: _count(app, run.id, 3))
    found = (await app.logs.show(run.id)).lines
    assert [line.level for line in found] == ["debug", "info", "warning"]
    assert "… [cut, " in found[0].message
    with pytest.raises(psycopg.DatabaseError, match="log_level must be one of"):
        engine.conn.execute("UPDATE rota.jobs SET log_level = 'loud' WHERE name = 'talk'")
