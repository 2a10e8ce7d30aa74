"""An enqueue on the caller's connection commits and rolls back with the caller."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import asyncpg
import psycopg
import pytest
import sqlalchemy as sa

from rota.errors import DuplicateKey, InputError
from rota.jobs.batch import Call
from rota.jobs.decorator import Job
from rota.postgres.statements import convert
from tests.jobs.conftest import Setting
from tests.jobs.drivers import ASYNC, SYNC, AsyncOpen, Open, psycopg_async, psycopg_sync

each_async = pytest.mark.parametrize("opened", ASYNC, ids=lambda it: it.__name__)
each_sync = pytest.mark.parametrize("opened", SYNC, ids=lambda it: it.__name__)
TEXT = 'a "quoted" : 100% %s name'
OPTIONS: dict[str, Any] = {
    "delay": 60,
    "tags": ["a", "b"],
    "metadata": {"x": 1},
    "key": "k",
    "key_keep": "forever",
    "timeout": 1.5,
    "priority": 2,
    "backoff": "fixed",
    "tenant": "t",
}


class Undo(Exception):
    """Raised by a test inside the caller's transaction."""


@pytest.fixture
def job(setting: Setting) -> Job[Any]:
    @setting.job
    async def greet(name: str) -> None: ...

    return greet


def _many(job: Job[Any]) -> list[Call]:
    last = {name: value for name, value in OPTIONS.items() if name != "delay"}
    soon = datetime(2099, 1, 1, tzinfo=UTC)
    return [
        *(job.call(name=f"n{n}") for n in range(50)),
        job.options(delay=60, tags=["x"]).call("later"),
        job.options(run_at=soon, expires_at=soon, **last).call("last"),
    ]


@each_async
async def test_commit_leaves_the_run(setting: Setting, job: Job[Any], opened: AsyncOpen) -> None:
    async with opened(setting.url) as conn:
        run = await job.options(connection=conn, **OPTIONS).enqueue(name=TEXT)
        assert setting.runs() == [], "nobody else sees it before the commit"
    (row,) = setting.runs()
    assert (row["id"], row["payload"]) == (run.id, {"name": TEXT})
    assert (row["tags"], row["metadata"], row["priority"]) == (["a", "b"], {"x": 1}, 2)


@each_async
async def test_rollback_leaves_none(setting: Setting, job: Job[Any], opened: AsyncOpen) -> None:
    with suppress(Undo):
        async with opened(setting.url) as conn:
            await job.options(connection=conn).enqueue(name="a")
            raise Undo
    assert setting.runs() == []


@each_async
async def test_many_in_the_callers_transaction(
    setting: Setting, job: Job[Any], opened: AsyncOpen
) -> None:
    async with opened(setting.url) as conn:
        runs = await setting.enqueuer.send_many(_many(job), connection=conn)
        assert setting.runs() == []
    assert [row["id"] for row in setting.runs()] == sorted(run.id for run in runs)


@each_async
async def test_errors_are_ours(setting: Setting, job: Job[Any], opened: AsyncOpen) -> None:
    first = await job.options(key="k").enqueue(name="a")
    with pytest.raises(DuplicateKey, match=f"held by run {first.id}"):
        async with opened(setting.url) as conn:
            await job.options(connection=conn, key="k", on_conflict="raise").enqueue(name="b")


@each_sync
def test_sync_commit_leaves_the_run(setting: Setting, job: Job[Any], opened: Open) -> None:
    with opened(setting.url) as conn:
        run = job.options(connection=conn, **OPTIONS).enqueue_sync(name=TEXT)
        assert setting.runs() == [], "nobody else sees it before the commit"
    (row,) = setting.runs()
    assert (row["id"], row["payload"]) == (run.id, {"name": TEXT})
    assert (row["tags"], row["metadata"], row["priority"]) == (["a", "b"], {"x": 1}, 2)


@each_sync
def test_sync_rollback_leaves_none(setting: Setting, job: Job[Any], opened: Open) -> None:
    with suppress(Undo), opened(setting.url) as conn:
        job.options(connection=conn).enqueue_sync(name="a")
        raise Undo
    assert setting.runs() == []


@each_sync
def test_sync_many_in_the_callers_transaction(
    setting: Setting, job: Job[Any], opened: Open
) -> None:
    with opened(setting.url) as conn:
        runs = setting.enqueuer.send_many_sync(_many(job), connection=conn)
        assert setting.runs() == []
    assert [row["id"] for row in setting.runs()] == sorted(run.id for run in runs)


@each_sync
def test_sync_errors_are_ours(setting: Setting, job: Job[Any], opened: Open) -> None:
    first = job.options(key="k").enqueue_sync(name="a")
    with pytest.raises(DuplicateKey, match=f"held by run {first.id}"), opened(setting.url) as conn:
        job.options(connection=conn, key="k", on_conflict="raise").enqueue_sync(name="b")


async def test_the_callers_own_errors_stay_the_drivers(setting: Setting, job: Job[Any]) -> None:
    async with psycopg_async(setting.url) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await conn.execute("SELECT 1 / 0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            await job.options(connection=conn).enqueue(name="a")


async def test_a_cursor_of_the_caller_keeps_its_rows(setting: Setting, job: Job[Any]) -> None:
    async with await psycopg.AsyncConnection.connect(setting.url) as conn:
        cursor = await conn.execute("SELECT 41 UNION ALL SELECT 42")
        await job.options(connection=cursor).enqueue(name="a")
        assert await cursor.fetchall() == [(41,), (42,)]


async def test_the_wrong_kind_of_connection_says_which_method(
    setting: Setting, job: Job[Any]
) -> None:
    async with psycopg_async(setting.url) as conn:
        with pytest.raises(InputError, match="is async: use await enqueue"):
            job.options(connection=conn).enqueue_sync(name="a")
    with psycopg_sync(setting.url) as conn:
        bound = job.options(connection=conn)
        with pytest.raises(InputError, match="is sync: use enqueue_sync"):
            await bound.enqueue(name="a")


async def test_what_has_no_transaction_is_refused(setting: Setting, job: Job[Any]) -> None:
    pool = asyncpg.create_pool(setting.url)
    engine = sa.create_engine("postgresql+psycopg://")
    for connection in (pool, engine, setting.database, "postgresql://"):
        with pytest.raises(InputError, match="connection= does not take"):
            await job.options(connection=connection).enqueue(name="a")


async def test_calls_on_two_connections_are_not_one_batch(setting: Setting, job: Job[Any]) -> None:
    async with psycopg_async(setting.url) as one, psycopg_async(setting.url) as other:
        calls = [job.options(connection=conn).call("a") for conn in (one, other)]
        with pytest.raises(InputError, match="different connections"):
            await setting.enqueuer.send_many(calls)
        runs = await setting.enqueuer.send_many([calls[0], job.call("b")])
        assert (len(runs), setting.runs()) == (2, [])


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("numeric", "SELECT $1::text[]::jsonb[], f(x => $2::double precision), $3, $1::text"),
        (
            "named",
            "SELECT CAST(:a AS text[])::jsonb[], f(x => CAST(:b AS double precision)), "
            ":c, CAST(:a AS text)",
        ),
    ],
)
def test_parameters_in_the_drivers_style(style: Any, expected: str) -> None:
    sql = "SELECT %(a)s::text[]::jsonb[], f(x => %(b)s::double precision), %(c)s, %(a)s::text"
    assert convert(sql, style) == (expected, ("a", "b", "c"))


async def test_what_the_driver_had_prepared_may_vanish(
    job: Job[Any], database_url: str, setting: Setting
) -> None:
    """Outside of a transaction it is sent again."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as one:
        for _ in range(8):
            await job.options(connection=one).enqueue(name="a")
        await one.execute("DISCARD ALL")
        await job.options(connection=one).enqueue(name="b")
    with psycopg.connect(database_url, autocommit=True) as two:
        for _ in range(8):
            job.options(connection=two).enqueue_sync(name="a")
        two.execute("DISCARD ALL")
        job.options(connection=two).enqueue_sync(name="b")
