"""A call reaches one worker that can serve it, and is not lost when that one does not answer.

With a poll of a minute, only a call, or whoever watches over it, can explain that a run starts now.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.claiming import calls
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp, load_config
from tests.proxy import Proxy
from tests.sql_engine import Engine, listen_to_all
from tests.workers import WorkerProcess

Connect = Callable[..., psycopg.Connection[Any]]
Start = Callable[..., WorkerProcess]
SLOW_POLL = {"worker.poll_seconds": 60.0, "worker.lease_seconds": 60.0}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_SETTLE_LIMIT", 600.0)


# Whom SQL calls.


class Fleet:
    """Workers that are only rows, and what each of them hears."""

    def __init__(self, engine: Engine, hearing: psycopg.Connection[Any]) -> None:
        self._engine = engine
        self._hearing = hearing
        self.common = listen_to_all(hearing)

    def add(self, channel: str | None, **columns: Any) -> int:
        values: dict[str, Any] = {
            "name": "w", "host": "h", "pid": 1, "concurrency": 1, "lease_seconds": 60,
            "is_waiting": True, "channel": channel, "jobs": ["work"],
        }  # fmt: skip
        values |= columns
        if channel is not None:
            self._hearing.execute(f"LISTEN {channel}".encode())
        names, places = ", ".join(values), ", ".join(["%s"] * len(values))
        return int(
            self._engine.one(
                f"INSERT INTO rota.workers ({names}, lease_expires_at)"
                f" VALUES ({places}, now() + interval '1 minute') RETURNING id",
                *values.values(),
            )
        )

    def heard(self, statement: str, *params: Any) -> list[tuple[str, str]]:
        self._engine.one(statement, *params)
        self._engine.one("SELECT rota.call_workers('end')")
        found = []
        for call in self._hearing.notifies(timeout=20):
            if call.payload == "end":
                break
            found.append((call.channel, call.payload))
        return sorted(found)


@pytest.fixture
def fleet(engine: Engine, connect: Connect) -> Fleet:
    engine.job("work")
    return Fleet(engine, connect())


WAKE = "SELECT rota.wake(ARRAY['default'])"


def test_one_is_called_and_one_watches(fleet: Fleet) -> None:
    for channel in ("a", "b", "c"):
        fleet.add(channel)
    calls = [("a", "queue default"), ("b", "watch default")]
    assert fleet.heard(WAKE) == calls
    assert fleet.heard("SELECT rota.enqueue('work')") == calls


def test_one_of_each_kind_is_called(fleet: Fleet) -> None:
    """Whoever enqueues does not say for which job, so that one is called who knows it."""
    fleet.add("a", jobs=["work"])
    fleet.add("b", jobs=["other"])
    fleet.add("c", jobs=["third"])
    fleet.add("d", jobs=["work"])
    called = {channel for channel, words in fleet.heard(WAKE) if words == "queue default"}
    assert called == {"a", "b", "c"}


def test_those_who_cannot_serve_it_are_left_alone(fleet: Fleet, engine: Engine) -> None:
    fleet.add("mail", queues=["mail"])
    fleet.add("busy", is_waiting=False)
    draining, silent = fleet.add("draining"), fleet.add("silent")
    engine.rows("UPDATE rota.workers SET drain_requested_at = now() WHERE id = %s", draining)
    engine.rows(
        "UPDATE rota.workers SET lease_expires_at = now() - interval '1 s' WHERE id = %s", silent
    )
    fleet.add("one", queues=["mail", "default"])
    assert fleet.heard(WAKE) == [("one", "queue default")]


def test_nobody_is_called_where_one_polls(fleet: Fleet) -> None:
    fleet.add("a")
    fleet.add("b", is_looking=True)
    fleet.add("c", jobs=["other"])
    assert fleet.heard(WAKE) == [("c", "queue default")]


def test_an_older_release_is_called_where_it_listens(fleet: Fleet) -> None:
    fleet.add(None)
    assert fleet.heard(WAKE) == [(fleet.common, "queue default")]


def test_who_does_not_answer_is_passed_over(fleet: Fleet, engine: Engine) -> None:
    first, second = fleet.add("a"), fleet.add("b")
    fleet.add("c")
    passed = fleet.heard("SELECT rota.pass_over_silent(%s, ARRAY['default'])", second)
    assert passed == [("a", "passed")]
    assert engine.one("SELECT is_waiting FROM rota.workers WHERE id = %s", first) is False
    assert fleet.heard(WAKE) == [("b", "queue default"), ("c", "watch default")]


def test_who_has_enough_calls_two_others(fleet: Fleet, engine: Engine) -> None:
    first = fleet.add("a")
    for channel in ("b", "c"):
        fleet.add(channel)
    assert fleet.heard("SELECT rota.pass_on(%s, ARRAY['default'])", first) == []
    engine.rows("UPDATE rota.workers SET is_waiting = true")
    engine.enqueue("work")
    calls = fleet.heard("SELECT rota.pass_on(%s, ARRAY['default'])", first)
    assert ("b", "queue default") in calls
    assert ("c", "queue default") in calls


# What workers do about it.


def until_waiting(engine: Engine, count: int) -> Callable[[], bool]:
    query = "SELECT count(*) FROM rota.workers WHERE is_waiting AND NOT is_looking"
    return lambda: bool(engine.one(query) == count)


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_a_called_worker_that_is_stopped_or_killed(
    how: signal.Signals, worker_process: Start, engine: Engine
) -> None:
    first = worker_process("tests.apps.basic:app", **SLOW_POLL)
    second = worker_process("tests.apps.basic:app", **SLOW_POLL)
    eventually_sync(until_waiting(engine, 2))
    first.send(how)
    waits = "SELECT is_waiting FROM rota.workers WHERE id = %s"

    def is_passed_over() -> bool:
        """Not necessarily by the first run: a busy machine's second may find it before its call."""
        run = engine.enqueue("add", {"a": 1, "b": 2})
        eventually_sync(lambda: engine.state(run) == "succeeded", 60)
        return engine.one(waits, first.id) is False

    eventually_sync(is_passed_over, 60)
    eventually_sync(lambda: engine.one(waits, second.id) is True)
    first.send(signal.SIGCONT)


async def test_a_called_worker_whose_connection_is_half_open(
    proxy: Proxy, make_app: MakeApp, database_url: str, engine: Engine
) -> None:
    apps = [make_app(**SLOW_POLL), rota.App(config=load_config(database_url, SLOW_POLL))]

    for app in apps:

        @app.job(name="work")
        async def work() -> None: ...

    async with apps[0].worker():
        await eventually(until_waiting(engine, 1))
        async with apps[1].worker():
            await eventually(until_waiting(engine, 2))
            proxy.half_open()
            for _ in range(2):
                run = engine.enqueue("work")
                await eventually(lambda run=run: engine.state(run) == "succeeded", 60)
            proxy.reset_half_open()
    await apps[1].close()


async def test_each_queue_and_each_job_finds_its_worker(make_app: MakeApp, engine: Engine) -> None:
    mail = make_app(**SLOW_POLL, worker={"queues": ["mail"]})
    rest = make_app(**SLOW_POLL)

    @mail.job(queue="mail")
    async def send() -> None: ...

    @rest.job
    async def count() -> None: ...

    @rest.job(queue="mail")
    async def sort() -> None: ...

    async with mail.worker(), rest.worker():
        await eventually(until_waiting(engine, 2))
        for job, queue in (("send", "mail"), ("count", "default"), ("sort", "mail")) * 2:
            run = engine.one("SELECT rota.enqueue(%s)", job)
            await eventually(lambda run=run: engine.state(run) == "succeeded", 60)
            assert engine.one("SELECT queue FROM rota.runs WHERE id = %s", run) == queue


async def test_a_resumed_queue_calls(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**SLOW_POLL)

    @app.job
    async def work() -> None: ...

    async with app.worker(), app.worker():
        await eventually(until_waiting(engine, 2))
        engine.one("SELECT rota.pause_queue('default')")
        run = await work.enqueue()
        engine.one("SELECT rota.resume_queue('default')")
        await eventually(lambda: engine.state(run.id) == "succeeded")


async def test_one_that_is_full_is_not_called(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**SLOW_POLL, **{"worker.concurrency": 1})
    started: list[int] = []
    go_on = asyncio.Event()

    @app.job
    async def work(n: int) -> None:
        started.append(n)
        await go_on.wait()

    async with app.worker(), app.worker(), app.worker():
        await eventually(until_waiting(engine, 3))
        for n in range(3):
            await work.enqueue(n=n)
            await eventually(lambda n=n: len(started) == n + 1)
        go_on.set()
        await eventually(until_waiting(engine, 3))


async def test_many_at_once_wake_the_whole_fleet(make_app: MakeApp, engine: Engine) -> None:
    app = make_app(**SLOW_POLL, **{"worker.concurrency": 2})
    everybody = asyncio.Barrier(8)

    @app.job
    async def work(n: int) -> None:
        await everybody.wait()

    async with app.worker(), app.worker(), app.worker(), app.worker():
        await eventually(until_waiting(engine, 4))
        await app.enqueue_many(work.call(n=n) for n in range(8))
        await eventually(lambda: engine.one("SELECT count(*) = 0 FROM rota.open_runs"))
