"""A job is deleted with nothing left hanging, or not at all."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def engine(conn: Connection) -> Engine:
    return Engine(conn)


@pytest.fixture
async def app(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send() -> None: ...

    await app.database.open()
    return app


def is_there(engine: Engine) -> bool:
    return bool(engine.one("SELECT count(*) FROM rota.jobs WHERE name = 'send'"))


async def test_it_goes_and_the_audit_says_who(app: rota.App, engine: Engine) -> None:
    assert await app.jobs.by("ada").delete("send", reason="old") == 0
    assert not is_there(engine)
    (row,) = engine.audit("send")
    assert (row["actor"], row["action"], row["reason"]) == ("ada", "job.deleted", "old")
    assert row["before"]["queue"] == "default"
    with pytest.raises(rota.UnknownJob):
        await app.jobs.delete("send")


async def test_schedules_keep_it_unless_they_go_too(app: rota.App, engine: Engine) -> None:
    await app.schedules.create("s", "send", every=60)
    await app.schedules.create("s", "send", every=60, tenant="acme")
    with pytest.raises(rota.WrongState, match='job "send" has schedules: 2'):
        await app.jobs.delete("send")
    assert is_there(engine)
    await app.jobs.by("ada").delete("send", cascade=True)
    assert not is_there(engine)
    assert await app.schedules.list() == []
    actions = [(row["actor"], row["action"]) for row in engine.audit("s")]
    assert actions[-2:] == [("ada", "schedule.deleted")] * 2


async def test_open_runs_keep_it_unless_they_are_cancelled(app: rota.App, engine: Engine) -> None:
    waiting = engine.enqueue("send")
    with pytest.raises(rota.WrongState, match="has runs that have not ended: 1"):
        await app.jobs.delete("send")
    assert is_there(engine)
    assert await app.jobs.delete("send", cancel_open=True) == 1
    run = engine.run(waiting)
    assert (run["state"], run["end_reason"]) == ("cancelled", "its job was deleted")


async def test_a_running_one_is_asked_to_stop(make_app: Any, engine: Engine) -> None:
    app: rota.App = make_app()
    started = asyncio.Event()

    @app.job
    async def hang() -> None:
        started.set()
        await asyncio.Event().wait()

    async with app.worker():
        run = await hang.enqueue()
        await asyncio.wait_for(started.wait(), 30)
        assert await app.jobs.delete("hang", cancel_open=True) == 1
        await eventually(lambda: engine.state(run.id) == "cancelled")


async def test_rotas_own_stay(app: rota.App) -> None:
    (name,) = [one.name for one in await app.jobs.list(system=True) if one.name != "send"][:1]
    with pytest.raises(rota.WrongState, match="belongs to Rota"):
        await app.jobs.delete(name, cascade=True)


async def test_code_that_declares_it_brings_it_back(make_app: Any, engine: Engine) -> None:
    for _ in range(2):
        app: rota.App = make_app()

        @app.job
        async def send() -> None: ...

        await app.database.open()
        assert is_there(engine)
        await app.jobs.delete("send")
        await app.close()


async def test_plain_sql_is_held_to_the_same(app: rota.App, engine: Engine) -> None:
    await app.schedules.create("s", "send", every=60)
    for statement, code in (
        ("DELETE FROM rota.jobs WHERE name = 'send'", "RO005"),
        ("SELECT rota.delete_job('send')", "RO005"),
        ("SELECT rota.delete_job('sent')", "RO001"),
        ("DELETE FROM rota.jobs WHERE is_system", "RO005"),
    ):
        with pytest.raises(psycopg.Error) as caught:
            engine.rows(statement)
        assert caught.value.sqlstate == code
    engine.rows("DELETE FROM rota.schedules WHERE name = 's'")
    run = engine.enqueue("send")
    with pytest.raises(psycopg.Error, match="have not ended"):
        engine.rows("DELETE FROM rota.jobs WHERE name = 'send'")
    engine.cancel(run)
    engine.rows("DELETE FROM rota.jobs WHERE name = 'send'")
    assert not is_there(engine)
