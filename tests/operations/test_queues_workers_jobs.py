from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually

Connection = psycopg.Connection[tuple[Any, ...]]


async def test_queues_count_by_state_and_say_who_paused(app: rota.App) -> None:
    @app.job(queue="mail")
    async def send() -> None: ...

    await app.runs.enqueue("send")
    await app.runs.enqueue("send", delay=60)
    await app.runs.enqueue("send", queue="other")
    await app.queues.by("alice").pause("mail", "smtp down")
    mail, other = await app.queues.list()
    assert (mail.name, mail.queued, mail.scheduled, mail.running, mail.held) == ("mail", 1, 1, 0, 0)
    assert mail.oldest_seconds is not None
    assert mail.oldest_seconds >= 0
    assert (mail.is_paused, mail.paused_by, mail.pause_reason) == (True, "alice", "smtp down")
    assert (other.name, other.queued, other.is_paused, other.workers) == ("other", 1, False, 0)


async def test_a_held_run_is_queued_but_not_the_oldest(app: rota.App, conn: Connection) -> None:
    @app.job
    async def send() -> None: ...

    run = await app.runs.enqueue("send")
    conn.execute("UPDATE rota.open_runs SET held_by = 'test' WHERE id = %s", [run.id])
    (queue,) = await app.queues.list()
    assert (queue.queued, queue.held, queue.oldest_seconds) == (1, 1, None)


async def test_workers_show_what_they_hold_and_leave(app: rota.App) -> None:
    import asyncio

    release = asyncio.Event()

    @app.job(queue="mail")
    async def hold() -> None:
        await release.wait()

    await app.runs.enqueue("hold")
    async with app.worker() as worker:

        async def runs_one() -> None:
            (found,) = await app.workers.list()
            assert (found.id, found.state, found.running) == (worker.id, "live", 1)
            assert found.jobs == ["hold", "rota.cleanup", "rota.prune_logs", "rota.prune_runs"]
            assert not found.is_stuck
            assert not found.is_silent

        await eventually(runs_one)
        (queue,) = await app.queues.list()
        assert (queue.running, queue.workers) == (1, 1)
        assert (await app.jobs.get("hold")).workers == 1
        release.set()
    assert await app.workers.list() == []
    (gone,) = await app.workers.list(include_gone=True)
    assert gone.state == "gone"


async def test_a_silent_worker_serves_nobody(app: rota.App, conn: Connection) -> None:
    @app.job
    async def send() -> None: ...

    await app.runs.enqueue("send")
    conn.execute("SELECT rota.register_worker('w', 'h', 1, '', '{}', '{send}', 1, 30)")
    conn.execute("UPDATE rota.workers SET lease_expires_at = clock_timestamp()")
    (worker,) = await app.workers.list()
    assert (worker.state, worker.is_silent) == ("live", True)
    assert (await app.queues.list())[0].workers == 0
    assert (await app.jobs.get("send")).workers == 0


async def test_jobs_are_what_was_registered(app: rota.App) -> None:
    @app.job(queue="mail", timeout=30, tags=["a"], description="Greets.")
    async def send(user_id: int) -> None: ...

    await app.database.open()
    (job,) = await app.jobs.list()
    assert job == await app.jobs.get("send")
    assert (job.queue, job.timeout_seconds, job.tags) == ("mail", 30, ["a"])
    assert job.payload_schema["required"] == ["user_id"]
    with pytest.raises(rota.UnknownJob) as caught:
        await app.jobs.get("sned")
    assert caught.value.hint == "did you mean send?"
