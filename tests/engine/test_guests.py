"""ctx.transaction(…) on what users have: effect and completion in one commit of theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from psycopg.conninfo import make_conninfo
from sqlalchemy.orm import Session

import rota
from rota.engine.executors import thread
from rota.testing import eventually
from tests.engine import sources
from tests.engine.sources import ASYNC, SYNC, Effect, Open, OpenAsync, execute, execute_async
from tests.sql_engine import Engine

Then = Callable[[rota.Context, Any], Any]
AGAIN = rota.Backoff("fixed", base=0.01, jitter=0)
SPOILT = "SET LOCAL search_path = evil", "SET LOCAL array_nulls = off", "SET LOCAL ROLE narrow"


@pytest.fixture(autouse=True)
def tables(engine: Engine) -> None:
    engine.conn.execute("CREATE TABLE effects (n int PRIMARY KEY)")
    engine.conn.execute(
        "CREATE TABLE deferred (n int UNIQUE DEFERRABLE INITIALLY DEFERRED); "
        "INSERT INTO deferred VALUES (1)"
    )
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        engine.conn.execute("CREATE ROLE narrow")


def count(engine: Engine) -> int:
    return int(engine.one("SELECT count(*) FROM effects"))


@asynccontextmanager
async def source_of(opened: OpenAsync | Open, url: str) -> AsyncIterator[Any]:
    if opened in ASYNC:
        async with opened(url) as source:  # type: ignore[union-attr]
            yield source
    else:
        with opened(url) as source:  # type: ignore[union-attr]
            yield source


def declare(app: rota.App, source: Any, is_async: bool, then: Then, **options: Any) -> Any:
    """Writes its attempt in a block, and then does what it is told, with what it was given."""
    if is_async:

        @app.job(**options)
        async def write(ctx: rota.Context) -> int:
            async with ctx.transaction(source) as given:
                await sources.write_async(given, ctx.attempt)
            await then(ctx, given)
            return ctx.attempt

        return write

    @app.job(executor="thread", **options)
    def write_sync(ctx: rota.Context) -> int:
        with ctx.transaction_sync(source) as given:
            sources.write(given, ctx.attempt)
        then(ctx, given)
        return ctx.attempt

    return write_sync


class Everything:
    """A job that does what it is told, on one kind of source."""

    def __init__(self, app: rota.App, engine: Engine, source: Any, is_async: bool) -> None:
        self._engine = engine
        self._source = source
        self.seen: list[int] = []

        @app.job(max_attempts=2, backoff=AGAIN)
        async def write(ctx: rota.Context, what: str) -> int:
            await self._write_async(ctx, what)
            return self.end(ctx, what)

        @app.job(max_attempts=2, backoff=AGAIN, executor="thread")
        def write_sync(ctx: rota.Context, what: str) -> int:
            self._write(ctx, what)
            return self.end(ctx, what)

        self.job = write if is_async else write_sync

    async def _write_async(self, ctx: rota.Context, what: str) -> None:
        for n in (1, 2, 3):
            with suppress(KeyError):
                async with ctx.transaction(self._source) as given:
                    await sources.write_async(given, n)
                    if n == 2:
                        raise KeyError
        for sql in self._said(ctx, what):
            await execute_async(given, sql)

    def _write(self, ctx: rota.Context, what: str) -> None:
        for n in (1, 2, 3):
            with suppress(KeyError), ctx.transaction_sync(self._source) as given:
                sources.write(given, n)
                if n == 2:
                    raise KeyError
        for sql in self._said(ctx, what):
            execute(given, sql)

    def _said(self, ctx: rota.Context, what: str) -> Sequence[str]:
        if what == "defer" and ctx.attempt == 1:
            return ["INSERT INTO deferred VALUES (1)"]
        return SPOILT if what == "spoil" else ()

    def end(self, ctx: rota.Context, what: str) -> int:
        self.seen.append(count(self._engine))
        if what == "raise" and ctx.attempt == 1:
            raise LookupError
        if what == "lose":
            self._engine.conn.execute(
                "UPDATE rota.open_runs SET attempt = attempt + 1, worker = %s WHERE id = %s",
                [self._engine.worker("other"), ctx.run_id],
            )
        return ctx.attempt

    def take(self) -> list[int]:
        """What is there."""
        rows = self._engine.rows("DELETE FROM effects RETURNING n")
        return sorted(row["n"] for row in rows)


@pytest.mark.parametrize("opened", [*ASYNC, *SYNC], ids=lambda it: it.__name__)
async def test_effect_and_completion_are_one_commit(
    app: rota.App, engine: Engine, database_url: str, opened: Any
) -> None:
    async with AsyncExitStack() as opening:
        source = await opening.enter_async_context(source_of(opened, database_url))
        does = Everything(app, engine, source, opened in ASYNC)
        worker = await opening.enter_async_context(app.worker())
        for what in ("return", "spoil", "return"):
            run = await does.job.enqueue(what=what)
            assert await run.wait(20) == 1, what
            assert does.take() == [1, 3], f"{what}: blocks are savepoints"
        for what, error in (("raise", "LookupError"), ("defer", "deferred_n_key")):
            run = await does.job.enqueue(what=what)
            assert await run.wait(20) == 2
            first, second = engine.attempts(run.id)
            assert (first["state"], second["state"]) == ("failed", "succeeded")
            assert error in f"{first['error_type']} {first['error']}"
            assert does.take() == [1, 3]
        # The run is somebody else's at the moment when the handler returns.
        run = await does.job.enqueue(what="lose")
        await eventually(lambda: len(does.seen) == 8 and worker.is_idle)
        assert does.take() == []
        assert engine.one("SELECT attempt FROM rota.open_runs WHERE id = %s", run.id) == 2
    assert does.seen == [0] * 8, "nobody sees anything before the handler has returned"


@pytest.mark.parametrize(
    "opened",
    [sources.psycopg_pool_async, sources.alchemy_session_async, sources.django_connection],
    ids=lambda it: it.__name__,
)
async def test_another_database_is_refused(
    app: rota.App, engine: Engine, server: Any, opened: Any
) -> None:
    """Although it has a schema of the same name, with the same runs."""
    with server.fresh_database() as elsewhere, psycopg.connect(elsewhere) as conn:
        conn.autocommit = True
        conn.execute("CREATE TABLE effects (n int PRIMARY KEY)")
        async with source_of(opened, elsewhere) as source:
            job = declare(app, source, opened in ASYNC, lambda *_: None, max_attempts=1)
            async with app.worker():
                with pytest.raises(rota.RunFailed, match="a different database than Rota's"):
                    await (await job.enqueue()).wait(20)
        assert conn.execute("SELECT FROM effects").fetchone() is None


# What only some have.


@pytest.mark.parametrize("opened", [sources.alchemy_engine_async, sources.alchemy_engine])
@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_an_engines_connection_is_not_the_handlers_to_end(
    app: rota.App, engine: Engine, database_url: str, opened: Any, verb: str
) -> None:
    async with source_of(opened, database_url) as source:

        async def then(_: rota.Context, given: Any) -> None:
            await getattr(given, verb)()

        def then_sync(_: rota.Context, given: Any) -> None:
            getattr(given, verb)()

        chosen = then if opened in ASYNC else then_sync
        job = declare(app, source, opened in ASYNC, chosen, max_attempts=1)
        async with app.worker():
            with pytest.raises(rota.RunFailed, match=r"its attempt|handler ended"):
                await (await job.enqueue()).wait(20)
    assert count(engine) == 0


@pytest.mark.parametrize(
    "opened",
    [sources.alchemy_session_async, sources.alchemy_session, sources.alchemy_factory],
)
async def test_a_sessions_own_commit_ends_nothing(
    app: rota.App, engine: Engine, database_url: str, opened: Any
) -> None:
    """Whoever writes for SQLAlchemy says it out of habit; so does a session that is closed."""

    async def then(_: rota.Context, session: Any) -> None:
        session.add(Effect(n=7))
        await session.commit()
        session.add(Effect(n=8))
        await session.rollback()
        await session.close()

    def then_sync(_: rota.Context, session: Any) -> None:
        session.add(Effect(n=7))
        session.commit()
        session.add(Effect(n=8))
        session.rollback()
        session.close()
        assert count(engine) == 0

    async with source_of(opened, database_url) as source:
        chosen = then if opened in ASYNC else then_sync
        job = declare(app, source, opened in ASYNC, chosen)
        async with app.worker():
            await (await job.enqueue()).wait(20)
    assert [row["n"] for row in engine.rows("SELECT n FROM effects ORDER BY n")] == [1, 7]


async def test_a_session_that_ends_before_the_handler(
    app: rota.App, engine: Engine, database_url: str
) -> None:
    with sources.alchemy_engine(database_url) as source:

        @app.job(executor="thread")
        def write(ctx: rota.Context) -> int:
            with Session(source) as session, ctx.transaction_sync(session):
                effect = Effect(n=5)
                session.add(effect)
            assert count(engine) == 0
            return effect.n

        async with app.worker():
            assert await (await write.enqueue()).wait(20) == 5
    assert count(engine) == 1


async def test_a_session_in_a_transaction_is_refused(app: rota.App, database_url: str) -> None:
    with sources.alchemy_engine(database_url) as source:

        @app.job(executor="thread", max_attempts=1)
        def write(ctx: rota.Context) -> None:
            with Session(source) as session:
                session.execute(sa.text("SELECT 1"))
                with ctx.transaction_sync(session):
                    pass

        async with app.worker():
            with pytest.raises(rota.RunFailed, match="already in a transaction"):
                await (await write.enqueue()).wait(20)


async def test_an_engine_in_autocommit_is_refused(
    app: rota.App, engine: Engine, database_url: str
) -> None:
    with sources.alchemy_engine(database_url) as source:
        autocommitting = source.execution_options(isolation_level="AUTOCOMMIT")
        job = declare(app, autocommitting, False, lambda *_: None, max_attempts=1)
        async with app.worker():
            with pytest.raises(rota.RunFailed, match="commits each statement by itself"):
                await (await job.enqueue()).wait(20)
    assert count(engine) == 0


async def test_a_role_that_may_not_end_runs_is_named(
    app: rota.App, engine: Engine, database_url: str
) -> None:
    with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        engine.conn.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    url = make_conninfo(database_url, user="reader", password="reader")
    with sources.psycopg_pool_sync(url) as source:
        job = declare(app, source, False, lambda *_: None, max_attempts=1)
        async with app.worker():
            with pytest.raises(rota.RunFailed, match="role reader of this connection cannot"):
                await (await job.enqueue()).wait(20)


async def test_one_attempt_has_one_transaction(app: rota.App, database_url: str) -> None:
    with sources.alchemy_engine(database_url) as source:

        @app.job(executor="thread", max_attempts=1)
        def write(ctx: rota.Context) -> None:
            with ctx.transaction_sync(source), ctx.transaction_sync():
                pass

        async with app.worker():
            with pytest.raises(rota.RunFailed, match="it can have only one"):
                await (await write.enqueue()).wait(20)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("sync", "is sync: use ctx.transaction_sync"),
        ("async", "is async: use ctx.transaction()"),
        ("connection", "does not take a psycopg.Connection"),
    ],
)
async def test_the_wrong_kind_says_what_to_use(
    app: rota.App, database_url: str, conn: Any, kind: str, words: str
) -> None:
    @app.job(max_attempts=1)
    async def write(ctx: rota.Context) -> None:
        async with sources.alchemy_engine_async(database_url) as theirs:
            if kind == "async":
                with ctx.transaction_sync(theirs):
                    pass
            async with ctx.transaction(conn if kind == "connection" else theirs.sync_engine):
                pass

    async with app.worker():
        with pytest.raises(rota.RunFailed) as failed:
            await (await write.enqueue()).wait(20)
    assert words in str(failed.value)


async def test_djangos_callbacks_run_after_the_commit(
    app: rota.App, engine: Engine, database_url: str
) -> None:
    """One that fails does not take the success back."""
    seen: list[int] = []

    def then(_: rota.Context, connection: Any) -> None:
        connection.on_commit(lambda: seen.append(count(engine)))
        connection.on_commit(lambda: 1 / 0)

    with sources.django_connection(database_url) as source:
        job = declare(app, source, False, then, max_attempts=1)
        async with app.worker():
            run = await job.enqueue()
            assert await run.wait(20) == 1
    assert seen == [1]


async def test_django_in_atomic_is_refused(app: rota.App, database_url: str) -> None:
    from django.db import transaction

    with sources.django_connection(database_url) as source:

        @app.job(executor="thread", max_attempts=1)
        def write(ctx: rota.Context) -> None:
            with transaction.atomic(), ctx.transaction_sync(source):
                pass

        @app.job(executor="thread", max_attempts=1)
        def undo(ctx: rota.Context) -> None:
            with ctx.transaction_sync(source):
                pass
            transaction.set_rollback(True)

        async with app.worker():
            with pytest.raises(rota.RunFailed, match="already in a transaction"):
                await (await write.enqueue()).wait(20)
            with pytest.raises(rota.RunFailed, match="made Django roll back"):
                await (await undo.enqueue()).wait(20)


@pytest.mark.parametrize(
    "opened",
    [sources.psycopg_pool_sync, sources.alchemy_session, sources.django_connection],
    ids=lambda it: it.__name__,
)
async def test_a_thread_left_behind_commits_nothing(
    app: rota.App,
    engine: Engine,
    database_url: str,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(thread, "_GRACE", 0.1)
    over = threading.Event()

    def then(_: rota.Context, given: Any) -> None:
        try:
            execute(given, "SELECT pg_sleep(60)")
        finally:
            over.set()

    with opened(database_url) as source:
        job = declare(app, source, False, then, max_attempts=1, timeout=1)
        async with app.worker():
            with pytest.raises(rota.RunFailed, match="timeout"):
                await (await job.enqueue()).wait(20)
            assert await asyncio.to_thread(over.wait, 20)
            await eventually(lambda: count(engine) == 0)


STRICT = {"options": "-c default_transaction_isolation=serializable"}


@pytest.mark.parametrize("executor", ["async", "thread"])
async def test_progress_does_not_end_a_strict_transaction(
    app: rota.App, engine: Engine, database_url: str, executor: str
) -> None:
    """Said just before it, and while it is open: the first word is written, or was before."""
    board: list[float] = []

    async def say(ctx: rota.Context, given: Any) -> None:
        for _ in range(3):
            ctx.progress(0.6, "in it")
            turns = len(board)
            await eventually(lambda turns=turns: len(board) > turns + 1)  # type: ignore[misc]

    async with AsyncExitStack() as stack:
        url = make_conninfo(database_url, **STRICT)
        opened = sources.psycopg_pool_async if executor == "async" else sources.psycopg_pool_sync
        source = await stack.enter_async_context(source_of(opened, url))
        loop = asyncio.get_running_loop()

        @app.job(max_attempts=1)
        async def write(ctx: rota.Context) -> int:
            ctx.progress(0.4, "before it")
            async with ctx.transaction(source) as given:
                await sources.write_async(given, 1)
            await say(ctx, given)
            return 7

        @app.job(max_attempts=1, executor="thread")
        def write_sync(ctx: rota.Context) -> int:
            ctx.progress(0.4, "before it")
            with ctx.transaction_sync(source) as given:
                sources.write(given, 1)
            asyncio.run_coroutine_threadsafe(say(ctx, given), loop).result()
            return 7

        worker = await stack.enter_async_context(app.worker())
        real = worker._parts.background.progress._write

        async def write_down(latest: Any) -> None:
            await real(latest)
            board.append(1)

        worker._parts.background.progress._write = write_down  # type: ignore[method-assign]
        run = await (write if executor == "async" else write_sync).enqueue()
        assert await run.wait(60) == 7
    assert engine.attempt_states(run.id) == ["succeeded"]
    assert count(engine) == 1
