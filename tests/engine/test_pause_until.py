"""A queue that is paused until a time goes on by itself, for everybody at once."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.promoter import Promoter
from tests.sql_engine import Engine

HOUR = timedelta(hours=1)


def deeds(engine: Engine) -> list[Any]:
    return engine.conn.execute(
        "SELECT action, actor, reason FROM rota.audit WHERE object_type = 'queue' ORDER BY id"
    ).fetchall()


async def test_claims_go_on_without_anybody_acting(app: rota.App, engine: Engine) -> None:
    engine.job("send", queue="mail")
    run = engine.enqueue("send")
    await app.queues.pause("mail", "provider is down", HOUR)
    worker = engine.worker()
    assert engine.claim(worker, queues=["mail"], jobs=["send"]) == []
    engine.advance(3601)

    claimed = engine.claim(worker, queues=["mail"], jobs=["send"])
    assert [claim["id"] for claim in claimed] == [run]


async def test_every_reader_sees_it_open_at_once(app: rota.App, engine: Engine) -> None:
    await app.queues.by("ada").pause("mail", "provider is down", HOUR)
    (seen,) = await app.queues.list(paused=True)
    assert seen.paused_until is not None
    assert (seen.paused_until - await app.clock.now()) <= HOUR
    engine.advance(3601)

    assert await app.queues.list(paused=True) == []
    queue = (await app.queues.get("mail")).queue
    assert (queue.is_paused, queue.paused_by, queue.paused_until) == (False, None, None)
    (row,) = (await app.overview.get()).queues
    assert not row.queue.is_paused
    assert await app.queues.resume("mail") is False, "its pause is over"


async def test_what_needs_attention_follows_it(app: rota.App, engine: Engine) -> None:
    engine.job("send", queue="mail")
    engine.enqueue("send")
    await app.queues.by("ada").pause("mail", "provider is down", HOUR)
    kinds = [need.kind for need in (await app.attention.get()).needs]
    assert "paused_queue" in kinds
    engine.advance(3601)
    kinds = [need.kind for need in (await app.attention.get()).needs]
    assert "paused_queue" not in kinds


async def test_the_promoters_wake_up_for_it_and_write_it_down(
    app: rota.App, engine: Engine
) -> None:
    promoter = Promoter(app.database, poll_seconds=100_000)
    await app.queues.by("ada").pause("mail", "provider is down", HOUR)
    assert 3000 < await promoter.run_once() <= 3600
    engine.advance(3601)
    assert await promoter.run_once() == 100_000

    assert engine.one("SELECT is_paused FROM rota.queues") is False
    assert deeds(engine) == [
        ("queue.paused", "ada", "provider is down"),
        ("queue.resumed", "rota", "the pause ended"),
    ]


async def test_a_worker_that_waits_is_called_when_the_pause_ends(make_app: Any) -> None:
    """Its own looks are so far apart that only a call explains the run."""
    app: rota.App = make_app(**{"worker.poll_seconds": 60})

    @app.job(queue="mail")
    async def send() -> str:
        return "sent"

    await app.database.open()
    await app.queues.pause("mail", until=timedelta(seconds=0.5))
    run = await send.enqueue()
    async with app.worker():
        assert await run.wait(30) == "sent"


async def test_a_suspect_is_isolated_again_after_it(engine: Engine, app: rota.App) -> None:
    engine.job("send", queue="mail")
    run = engine.enqueue("send")
    engine.conn.execute("UPDATE rota.open_runs SET held_by = 'suspect', suspicion = 2")
    await app.queues.pause("mail", until=HOUR)
    worker = engine.worker()
    ask = "SELECT id FROM rota.claim_suspect(%s, '{}', '{send}')"
    assert engine.conn.execute(ask, [worker]).fetchall() == []
    engine.advance(3601)

    assert engine.conn.execute(ask, [worker]).fetchall() == [(run,)]


async def test_pausing_again_moves_the_end(app: rota.App, engine: Engine) -> None:
    await app.queues.by("ada").pause("mail", "provider is down", HOUR)
    first = (await app.queues.get("mail")).queue
    at = datetime.now(UTC) + timedelta(days=1)
    await app.queues.by("grace").pause("mail", until=at)

    queue = (await app.queues.get("mail")).queue
    assert (queue.paused_by, queue.pause_reason) == ("grace", "provider is down")
    assert (queue.paused_at, queue.paused_until) == (first.paused_at, at)
    assert await app.queues.pause("mail", until=at) is False
    await app.queues.pause("mail")
    assert (await app.queues.get("mail")).queue.paused_until is None


async def test_a_pause_that_is_over_can_be_made_anew(app: rota.App, engine: Engine) -> None:
    await app.queues.by("ada").pause("mail", "provider is down", HOUR)
    engine.advance(3601)
    await app.queues.by("grace").pause("mail")

    queue = (await app.queues.get("mail")).queue
    assert (queue.paused_by, queue.pause_reason, queue.paused_until) == ("grace", None, None)


async def test_a_pause_ends_in_the_future(app: rota.App, engine: Engine) -> None:
    for until in (timedelta(0), timedelta(seconds=-5), datetime(2020, 1, 1, tzinfo=UTC)):
        with pytest.raises(rota.InputError, match="in the future"):
            await app.queues.pause("mail", until=until)
    with pytest.raises(rota.InputError, match="years 1 to 9999"):
        await app.queues.pause("mail", until=timedelta.max)
    with pytest.raises(psycopg.Error, match="in the future"):
        engine.conn.execute("SELECT rota.pause_queue('mail', until => now() - interval '1 s')")
    with pytest.raises(psycopg.Error, match="cannot be infinity"):
        engine.conn.execute("SELECT rota.pause_queue('mail', until => 'infinity')")
    assert await app.queues.list() == []
