"""Caps of queues as Python says them, who is told, and what a tick makes of a full queue."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.errors import InputError, JobError, QueueFull, VersionConflict
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


def fill(app: rota.App, engine: Engine, when_full: Any = "refuse", most: int = 1) -> list[int]:
    """A queue with as many as may wait."""
    app.queues.sync.set("default", max_waiting=most, when_full=when_full)
    runs = [engine.enqueue() for _ in range(most)]
    tend(engine)
    return runs


def tend(engine: Engine) -> None:
    while engine.one("SELECT moved FROM rota.tend_caps()"):
        pass


async def test_a_cap_is_set_read_changed_and_taken_away(app: rota.App, engine: Engine) -> None:
    made = await app.queues.set("mail", "busy", max_waiting=10)
    assert (made.max_waiting, made.when_full, made.is_edited) == (10, "refuse", False)
    changed = await app.queues.set("mail", version=made.version, when_full="drop_lowest")
    assert (changed.max_waiting, changed.when_full) == (10, "drop_lowest")
    with pytest.raises(VersionConflict):
        await app.queues.set("mail", version=made.version, max_waiting=1)
    with pytest.raises(InputError, match="must be from 0") as caught:
        await app.queues.set("mail", max_waiting=-1)
    assert caught.value.field == "max_waiting"
    with pytest.raises(InputError, match="unknown argument 'cap'"):
        await app.queues.set("mail", cap=1)  # type: ignore[call-arg]
    gone = await app.queues.set("mail", max_waiting=None)
    assert gone.max_waiting is None
    assert (await app.queues.get("mail")).queue == gone


async def test_an_enqueue_is_refused_with_an_error_of_its_own(
    app: rota.App, engine: Engine
) -> None:
    @app.job
    async def send() -> None: ...

    await app.queues.set("default", max_waiting=0)
    with pytest.raises(QueueFull, match='queue "default" is full: 0 runs wait, and its cap is 0'):
        await send.enqueue()
    with pytest.raises(QueueFull, match="3 more do not fit"):
        await app.enqueue_many(send.call() for _ in range(3))
    await app.queues.set("default", max_waiting=None)
    await send.enqueue()


def test_code_declares_and_operators_change(make_app: MakeApp) -> None:
    app = make_app()
    app.queue("mail", max_waiting=100, when_full="drop_lowest")
    found = app.queues.sync.get("mail").queue
    assert (found.max_waiting, found.when_full) == (100, "drop_lowest")
    app.queues.by("anna").sync.set("mail", max_waiting=5)
    app.queue("mail", max_waiting=200)  # the database is open: at once
    found = app.queues.sync.get("mail").queue
    assert (found.max_waiting, found.is_edited) == (5, True)
    found = app.queues.sync.reset("mail")
    assert (found.max_waiting, found.when_full, found.is_edited) == (200, "refuse", False)
    actors = {entry.actor for entry in app.audit.sync.list(object_type="queue")}
    assert actors >= {"code", "anna"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"max_waiting": -1}, "max_waiting must be from 0"),
        ({"max_waiting": 1.5}, "max_waiting must be a whole number"),
        ({"when_full": "wait"}, "when_full 'wait' is not a choice"),
    ],
)
def test_a_wrong_declaration_is_found_where_it_is_written(
    app: rota.App, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(JobError, match=words):
        app.queue("mail", **arguments)


async def test_a_worker_counts_and_drops(app: rota.App, engine: Engine) -> None:
    """Its jobs are others: nothing of the queue is taken."""

    @app.job(queue="other")
    async def elsewhere() -> None: ...

    await app.queues.set("default", max_waiting=2, when_full="drop_lowest")
    async with app.worker():
        for priority in (9, 5, 1):
            engine.enqueue(priority=priority)
        await eventually(
            lambda: engine.one("SELECT count(*) FROM rota.open_runs WHERE queue = 'default'") == 2
        )
        await eventually(lambda: engine.one("SELECT full_since FROM rota.queue_caps") is not None)
    rows = engine.rows("SELECT priority FROM rota.open_runs WHERE queue = 'default'")
    assert sorted(row["priority"] for row in rows) == [1, 5]


# Who is told.


async def test_what_needs_attention(app: rota.App, engine: Engine) -> None:
    fill(app, engine, most=3)
    (need,) = [one for one in (await app.attention.get()).needs if one.kind == "full_queue"]
    assert (need.name, need.says) == ("default", "is full: 3 runs wait, the cap is 3")
    assert need.reason == "new runs are refused"
    assert need.since is not None
    await app.queues.set("default", when_full="drop_lowest")
    (need,) = [one for one in (await app.attention.get()).needs if one.kind == "full_queue"]
    assert need.reason == "the runs with the lowest priority are dropped"


# Ticks.


async def test_a_tick_skips_what_would_be_refused(app: rota.App, engine: Engine) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    fill(app, engine)
    schedules.add()
    schedules.add("elsewhere", queue="mail")
    schedules.add("shadow", is_shadow=True)
    await schedules.tick(seconds=61)
    assert schedules.words() == [("skipped", "queue_full", 1)]
    assert schedules.words("elsewhere") == [("ran", None, 1)]
    assert schedules.words("shadow") == [("skipped", "shadow", 1)]
    app.queues.sync.set("default", max_waiting=5)
    await schedules.tick(seconds=121)
    assert schedules.words()[-1] == ("ran", None, 1)
    assert engine.one("SELECT is_capped FROM rota.open_runs WHERE schedule = 's'") is True


async def test_equal_skips_are_one_row(app: rota.App, engine: Engine) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    fill(app, engine)
    schedules.add(interval_seconds=1, anchor_at=START)
    await schedules.tick(seconds=30)
    rows = schedules.ledger()
    assert {(row["decision"], row["reason"]) for row in rows} == {("skipped", "queue_full")}
    assert sum(row["count"] for row in rows) == 30
    assert len(rows) == 1


async def test_what_a_tick_enqueued_and_was_dropped_reads_skipped(
    app: rota.App, engine: Engine
) -> None:
    await app.database.open()
    schedules = Schedules(engine, app.database)
    fill(app, engine, "drop_lowest")
    schedules.add(priority=9)
    await schedules.tick(seconds=61)
    assert schedules.words() == [("ran", None, 1)]
    tend(engine)
    assert schedules.words() == [("skipped", "queue_full", 1)]
    assert schedules.row()["failures_in_a_row"] == 0


async def test_a_start_finds_the_queue_full(app: rota.App, engine: Engine) -> None:
    @app.job(schedules=[rota.on_start("start")], queue="mail")
    async def warm_up() -> None: ...

    await app.queues.set("mail", max_waiting=0)
    tend(engine)
    async with app.worker():
        await eventually(lambda: engine.one("SELECT count(*) FROM rota.ledger") == 1)
    (row,) = engine.rows("SELECT decision, reason FROM rota.ledger")
    assert row == {"decision": "skipped", "reason": "queue_full"}
    assert engine.one("SELECT count(*) FROM rota.runs") == 0
