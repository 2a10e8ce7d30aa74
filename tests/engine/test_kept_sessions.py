"""Sessions of ctx.transaction() are kept, and nothing of one attempt is there for the next."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.rows import dict_row

import rota
from rota.engine.executors import own, thread
from rota.engine.executors.attempt_session import AttemptSession
from rota.engine.executors.own import OwnAsync, OwnSync
from rota.errors import DatabaseError, JobError
from rota.model.run import Claim
from rota.postgres.sessions import connection, session_cache
from rota.postgres.sessions.session_cache import SessionCache
from rota.postgres.statements import Statements
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.proxy import Proxy
from tests.sql_engine import Engine

ResultOf = Callable[[rota.Run[Any]], Awaitable[Any]]
OURS = (
    "SELECT array_agg(pid ORDER BY pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND application_name LIKE 'rota run %'"
)
DIRTY = """
SET search_path = elsewhere;
SET statement_timeout = '12345';
SET my.tenant = 'seven';
SET ROLE narrow;
CREATE TEMP TABLE leftover (n int);
PREPARE asked AS SELECT 1;
DECLARE held CURSOR WITH HOLD FOR SELECT 1;
LISTEN somewhere;
SELECT pg_advisory_lock(4711);
RESET ROLE;
SELECT nextval('public.numbers');
SET ROLE narrow
"""
CLEAN = """
SELECT current_setting('search_path') = '"$user", public'
       AND current_setting('statement_timeout') = '0'
       AND coalesce(current_setting('my.tenant', true), '') = '',
       current_user = session_user,
       to_regclass('pg_temp.leftover') IS NULL,
       NOT EXISTS (SELECT FROM pg_prepared_statements),
       NOT EXISTS (SELECT FROM pg_cursors WHERE is_holdable),
       NOT EXISTS (SELECT FROM pg_listening_channels()),
       NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid())
"""


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    engine.conn.execute("CREATE TABLE effects (n int)")
    engine.conn.execute("CREATE SEQUENCE numbers")
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        engine.conn.execute("CREATE ROLE narrow")


@pytest.fixture
def kept_sessions(monkeypatch: pytest.MonkeyPatch) -> list[SessionCache]:
    """Those of the workers of this test."""
    made: list[SessionCache] = []
    init = SessionCache.__init__

    def note(self: SessionCache, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        made.append(self)

    monkeypatch.setattr(SessionCache, "__init__", note)
    return made


@pytest.fixture
def result_of(kept_sessions: list[SessionCache]) -> ResultOf:
    """What a run returned, when its session rests again: that comes a moment after its end."""

    async def wait(run: rota.Run[Any]) -> Any:
        try:
            return await run.wait(20)
        finally:
            await eventually(
                lambda: all(session.open == len(session._resting) for session in kept_sessions)
            )

    return wait


@pytest.mark.parametrize("executor", ["async", "thread"])
@pytest.mark.parametrize("end", ["return", "raise"])
async def test_nothing_of_one_attempt_reaches_the_next(
    app: rota.App, result_of: ResultOf, executor: str, end: str
) -> None:
    if executor == "async":

        @app.job(max_attempts=1)
        async def spoil(ctx: rota.Context) -> int:
            async with ctx.transaction() as conn:
                conn.row_factory = dict_row  # type: ignore[assignment]
                conn.add_notify_handler(lambda _: None)
                await conn.execute(DIRTY)
                if end == "raise":
                    raise LookupError
                return conn.info.backend_pid

        @app.job
        async def look(ctx: rota.Context) -> list[Any]:
            async with ctx.transaction() as conn:
                row = await (await conn.execute(CLEAN)).fetchone()
                with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
                    async with conn.transaction():
                        await conn.execute("SELECT currval('numbers')")
                return [conn.info.backend_pid, *(row or ())]
    else:

        @app.job(max_attempts=1, executor="thread")
        def spoil(ctx: rota.Context) -> int:
            with ctx.transaction_sync() as conn:
                conn.row_factory = dict_row  # type: ignore[assignment]
                conn.execute(DIRTY)
                if end == "raise":
                    raise LookupError
                return conn.info.backend_pid

        @app.job(executor="thread")
        def look(ctx: rota.Context) -> list[Any]:
            with ctx.transaction_sync() as conn:
                row = conn.execute(CLEAN).fetchone()
                with (
                    pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState),
                    conn.transaction(),
                ):
                    conn.execute("SELECT currval('numbers')")
                return [conn.info.backend_pid, *(row or ())]

    async with app.worker():
        first, *clean = await result_of(await look.enqueue())
        if end == "raise":
            with pytest.raises(rota.RunFailed, match="LookupError"):
                await result_of(await spoil.enqueue())
        else:
            assert await result_of(await spoil.enqueue()) == first
        again, *clean_again = await result_of(await look.enqueue())
    assert again == first, "the session was kept"
    assert clean == clean_again == [True] * 7


async def test_async_and_sync_attempts_share_them(
    app: rota.App, engine: Engine, result_of: ResultOf
) -> None:
    @app.job
    async def first(ctx: rota.Context) -> int:
        async with ctx.transaction() as conn:
            return conn.info.backend_pid

    @app.job(executor="thread")
    def second(ctx: rota.Context) -> int:
        with ctx.transaction_sync() as conn:
            return conn.info.backend_pid

    async with app.worker():
        pids = {await result_of(await job.enqueue()) for job in (first, second, first)}
        assert engine.one(OURS) == list(pids)
    await eventually(lambda: engine.one(OURS) is None)


async def test_never_more_than_slots(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(worker={"concurrency": 2})
    most: list[int] = []

    @app.job
    async def write(ctx: rota.Context, n: int) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (%s)", [n])
            most.append(len(engine.one(OURS)))

    runs = [await write.enqueue(n=n) for n in range(12)]
    async with app.worker():
        for run in runs:
            await run.wait(30)
        assert len(engine.one(OURS)) <= 2
    assert max(most) <= 2
    assert engine.one("SELECT count(*) FROM effects") == 12


async def test_one_that_ended_while_it_rested_is_dropped(
    app: rota.App, engine: Engine, result_of: ResultOf
) -> None:
    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> int:
        async with ctx.transaction() as conn:
            return conn.info.backend_pid

    async with app.worker():
        first = await result_of(await write.enqueue())
        engine.one("SELECT pg_terminate_backend(%s, 5000)", first)
        assert await (await write.enqueue()).wait(20) != first


@pytest.mark.both_loops
async def test_one_that_is_half_open_is_dropped(
    database_url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks alive, but nobody answers: another one is opened."""
    monkeypatch.setattr(own, "_SOON", 0.2)
    monkeypatch.setattr(connection, "CALL_OFF_SECONDS", 0.2)
    sessions = SessionCache(lambda: proxy.url, worker=1, size=2)
    statements = Statements("rota")
    lending = AttemptSession(statements, Claim._make([1] * len(Claim._fields)), 1, 4.5)

    async def open_one() -> int:
        way = OwnAsync(sessions, statements, lending)
        await way.begin()
        async with way.block() as conn:
            pid = conn.info.backend_pid
        await way.close()
        return pid

    def open_one_sync() -> int:
        way = OwnSync(sessions, statements, lending)
        way.begin()
        with way.block() as conn:
            pid = conn.info.backend_pid
        way.close()
        return pid

    first = await open_one()
    assert await asyncio.to_thread(open_one_sync) == first
    proxy.half_open()
    second = await open_one()
    proxy.half_open()
    assert await asyncio.to_thread(open_one_sync) not in (first, second)
    assert second != first
    assert sessions.open == 1
    sessions.close()


async def test_they_are_given_back_after_a_rest(
    app: rota.App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    @app.job
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            await conn.execute("INSERT INTO effects VALUES (1)")

    async with app.worker():
        await (await write.enqueue()).wait(20)
        assert engine.one(OURS) is not None
        monkeypatch.setattr(session_cache, "IDLE_SECONDS", 0.0)
        await eventually(lambda: engine.one(OURS) is None)


async def test_who_holds_on_to_a_connection_has_a_closed_one(
    app: rota.App, engine: Engine, result_of: ResultOf
) -> None:
    held: list[Any] = []

    @app.job
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            held.extend((conn, conn.cursor()))

    async with app.worker():
        await result_of(await write.enqueue())
        conn, cursor = held
        assert conn.closed
        for late in (conn, cursor):
            with pytest.raises(psycopg.OperationalError, match="closed"):
                await late.execute("INSERT INTO effects VALUES (1)")
    assert engine.one("SELECT count(*) FROM effects") == 0


@pytest.mark.parametrize(
    "statement", ["COMMIT", "ROLLBACK", "COMMIT; BEGIN; SAVEPOINT _pg3_1", "ROLLBACK; BEGIN"]
)
async def test_a_handler_that_ends_the_transaction_fails(
    app: rota.App, engine: Engine, statement: str
) -> None:
    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> None:
        async with ctx.transaction() as conn:
            pass
        await conn.execute(statement)

    async with app.worker():
        with pytest.raises(rota.RunFailed, match="the handler ended"):
            await (await write.enqueue()).wait(20)


async def test_a_connection_is_not_the_handlers_to_commit(app: rota.App) -> None:
    @app.job(max_attempts=1, executor="thread")
    def write(ctx: rota.Context) -> None:
        with ctx.transaction_sync() as conn:
            with pytest.raises(JobError, match="a handler cannot call"):
                conn.rollback()
            conn.commit()

    async with app.worker():
        with pytest.raises(rota.RunFailed, match="its transaction ends with its attempt"):
            await (await write.enqueue()).wait(20)


async def test_a_thread_left_behind_loses_its_session(
    app: rota.App, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread, "_GRACE", 0.1)
    over = threading.Event()

    @app.job(max_attempts=1, timeout=0.5, executor="thread")
    def write(ctx: rota.Context) -> None:
        try:
            with ctx.transaction_sync() as conn:
                conn.execute("INSERT INTO effects VALUES (1)")
                conn.execute("SELECT pg_sleep(60)")
        finally:
            over.set()

    async with app.worker():
        with pytest.raises(rota.RunFailed, match="timeout"):
            await (await write.enqueue()).wait(20)
        assert await asyncio.to_thread(over.wait, 20)
    assert engine.one("SELECT count(*) FROM effects") == 0


async def test_a_failure_of_serialization_is_tried_again(app: rota.App, engine: Engine) -> None:
    """It comes as late as in the statements that end the run."""
    engine.conn.execute("INSERT INTO effects VALUES (1)")
    database = engine.one("SELECT current_database()")
    engine.conn.execute(
        f"ALTER DATABASE {database} SET default_transaction_isolation = serializable"
    )

    @app.job(max_attempts=2, backoff=rota.Backoff("fixed", base=0.01, jitter=0))
    async def write(ctx: rota.Context) -> int:
        async with ctx.transaction() as conn:
            await conn.execute("SELECT sum(n) FROM effects")
            if ctx.attempt == 1:
                with psycopg.connect(app.database.url) as other:
                    other.execute("SELECT sum(n) FROM effects")
                    other.execute("INSERT INTO effects VALUES (2)")
            await conn.execute("INSERT INTO effects VALUES (3)")
        return ctx.attempt

    async with app.worker():
        run = await write.enqueue()
        assert await run.wait(20) == 2
    first, _ = engine.attempts(run.id)
    assert "SerializationFailure" in first["error_type"]
    assert engine.one("SELECT array_agg(n ORDER BY n) FROM effects") == [1, 2, 3]


@pytest.fixture
def narrow_url(database_url: str, conn: psycopg.Connection[Any]) -> str:
    """As a role that may have one connection; other test runners on this server have theirs."""
    role = f"single_{os.getpid()}"
    with suppress(psycopg.errors.DuplicateObject):
        conn.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'single' CONNECTION LIMIT 1".encode())
    return make_conninfo(database_url, user=role, password="single")


async def test_where_the_server_has_none_left_one_is_waited_for(narrow_url: str) -> None:
    sessions = SessionCache(lambda: narrow_url, worker=1, size=2)
    first = await sessions.get()
    second = asyncio.create_task(sessions.get())
    third = asyncio.create_task(asyncio.to_thread(sessions.get_sync))
    await asyncio.sleep(0)
    sessions.put(first)
    for got in asyncio.as_completed((second, third), timeout=20):
        assert await got is first
        sessions.put(first)
    sessions.close()
    assert sessions.open == 0


async def test_and_not_for_ever(narrow_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sessions = SessionCache(lambda: narrow_url, worker=1, size=2)
    first = await sessions.get()
    monkeypatch.setattr(session_cache, "WAIT_SECONDS", 0.1)
    for attempt in (sessions.get(), asyncio.to_thread(sessions.get_sync)):
        with pytest.raises(DatabaseError, match=r"got no connection within 0\.1 s.*too many"):
            await attempt
    sessions.drop(first)
