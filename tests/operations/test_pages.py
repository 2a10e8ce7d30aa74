"""Lists in every order, whole and page by page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, get_args

import psycopg
import pytest

import rota
from rota.model import list_filters as orders
from rota.model.calendar import CalendarOrder
from rota.model.job import JobOrder
from rota.model.queue import QueueOrder
from rota.model.states import WorkerStatus
from rota.testing import Clock
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]


@pytest.fixture
async def app(make_app: Callable[..., rota.App], conn: Connection, clock: Clock) -> rota.App:
    """Three of everything, made at different times and named against that order."""
    found = make_app()
    for number, name in enumerate("cba"):
        found.job(name=name, queue=f"q-{name}", metadata={"team": "x", "n": number})(_work)
    await found.database.open()
    for number, name in enumerate("cba"):
        conn.execute(
            "UPDATE rota.jobs SET created_at = rota.now() + %s * interval '1 s' WHERE name = %s",
            [number, name],
        )
        clock.advance(1)
        await found.schedules.create(
            f"s-{name}", name, every=3600 * (number + 1), metadata={"team": name}
        )
        await found.calendars.create(name, {"weekends": True})
        for _ in range(number):
            await found.runs.enqueue(name)
    Engine(conn).worker("a")
    lost = Engine(conn).worker("b")
    Engine(conn).lose(lost)
    conn.execute(
        "UPDATE rota.workers SET state = 'gone', ended_at = now() WHERE id = %s",
        [Engine(conn).worker()],
    )
    return found


def _work() -> None: ...


async def read(page: Any, order: str, **filters: Any) -> list[Any]:
    """One by one."""
    items: list[Any] = []
    cursor = None
    while True:
        part = await page(order=order, cursor=cursor, limit=1, **filters)
        items += part.items
        cursor = part.cursor
        if cursor is None:
            return items


async def test_pages_are_the_whole_list(app: rota.App) -> None:
    for face, kind in (
        (app.jobs, JobOrder), (app.schedules, orders.ScheduleOrder),
        (app.queues, QueueOrder), (app.calendars, CalendarOrder),
        (app.workers, orders.TimeOrder),
    ):  # fmt: skip
        for order in get_args(kind):
            whole = await face.list(order=order)  # type: ignore[attr-defined]
            keys = [getattr(one, "id", None) or one.name for one in whole]
            paged = await read(face.page, order)  # type: ignore[attr-defined]
            assert [getattr(one, "id", None) or one.name for one in paged] == keys, (face, order)
            assert len(set(keys)) == len(keys) > 1, (face, order)
    for order in ("newest", "oldest"):
        found = await read(app.audit.page, order)
        assert [one.id for one in found] == [
            one.id
            for one in await app.audit.list(order=order, limit=1000)  # type: ignore[arg-type]
        ]
    assert len((await app.templates.page(limit=2)).items) == 2


async def test_what_the_orders_mean(app: rota.App, conn: Connection) -> None:
    async def jobs(order: Any) -> list[str]:
        return [one.name for one in await app.jobs.list(order=order)]

    assert await jobs("name") == ["a", "b", "c"]
    assert await jobs("newest") == ["a", "b", "c"]
    await app.jobs.update("b", priority=1)
    assert (await jobs("changed"))[0] == "b"
    assert [one.name for one in await app.queues.list(order="longest")] == ["q-a", "q-b", "q-c"]
    oldest = [one.name for one in await app.queues.list(order="oldest")]
    assert oldest == ["q-b", "q-a", "q-c"]
    times = {"a": 3, "b": 1}
    for name, hour in times.items():
        conn.execute(
            "UPDATE rota.schedule_state SET next_run_at = %s, last_run_at = %s WHERE schedule_id"
            " = (SELECT id FROM rota.schedules WHERE name = %s)",
            [datetime(2030, 1, 1, hour, tzinfo=UTC), datetime(2020, 1, 1, hour, tzinfo=UTC),
             f"s-{name}"],
        )  # fmt: skip
    found = {
        order: [one.name for one in await app.schedules.list(order=order)]
        for order in get_args(orders.ScheduleOrder)
    }
    assert found["name"] == ["s-a", "s-b", "s-c"]
    assert found["next"] == ["s-c", "s-b", "s-a"]
    assert found["last"] == ["s-a", "s-b", "s-c"]
    assert found["newest"] == ["s-a", "s-b", "s-c"]


async def test_filters(app: rota.App) -> None:
    await app.jobs.disable("c")
    assert [one.name for one in await app.jobs.list(enabled=False)] == ["c"]
    assert [one.name for one in await app.jobs.list(queue="q-a")] == ["a"]
    assert [one.name for one in await app.jobs.list(metadata={"team": "x", "n": 1})] == ["b"]
    assert [one.name for one in await app.schedules.list(metadata={"team": "b"})] == ["s-b"]
    await app.queues.pause("q-b")
    assert [one.name for one in await app.queues.list(paused=True)] == ["q-b"]
    states = {
        status: len(await app.workers.list(status=status)) for status in get_args(WorkerStatus)
    }
    assert {key for key, count in states.items() if count} == {"live", "lost", "gone"}
    assert await app.workers.list(host="elsewhere") == []


async def test_a_cursor_outlives_what_it_was_taken_from(app: rota.App) -> None:
    first = await app.schedules.page(limit=1)
    await app.schedules.delete("s-a")
    rest = await app.schedules.page(cursor=first.cursor)
    assert [one.name for one in rest.items] == ["s-b", "s-c"]
    with pytest.raises(rota.FilterError, match="no longer exists"):
        await app.schedules.page(after_id=first.items[0].id)


async def test_what_cannot_be_asked_for(app: rota.App) -> None:
    with pytest.raises(rota.FilterError, match="unknown order"):
        await app.jobs.list(order="size")  # type: ignore[arg-type]
    for face in (app.jobs, app.workers, app.schedules):
        with pytest.raises(rota.FilterError, match="unknown filter"):
            await face.list(colour="red")  # type: ignore[attr-defined]
    with pytest.raises(rota.FilterError, match="at least 1"):
        await app.queues.page(limit=0)
    with pytest.raises(rota.FilterError, match="after_id"):
        await app.schedules.page(after_id=1, order="next")


async def test_events_say_who(app: rota.App, conn: Connection) -> None:
    await app.jobs.update("a", events=["order.paid"])
    (run,) = await app.events.by("ada").emit("order.paid", {"n": 1}, key="7")
    found = await app.runs.get(run.id)
    by = found.triggered_by
    assert (by["type"], by["event"], by["actor"]) == ("event", "order.paid", "ada")
    (entry,) = await app.audit.list(action="event.emitted")
    assert (entry.actor, entry.object_id) == ("ada", "order.paid")
    told = {"event_id": by["event_id"], "payload": {"n": 1}, "key": "7", "runs": [run.id]}
    assert entry.after == told
    (again,) = app.events.by("bob").sync.emit("order.paid", {"n": 1}, key="7")
    assert (again.id, again.is_duplicate) == (run.id, True)
    with pytest.raises(rota.InputError):
        await app.events.emit("two words")


async def test_reasons_reach_the_audit(app: rota.App) -> None:
    acting = app.schedules.by("ada")
    await acting.pause("s-a", "migration")
    await acting.update("s-a", priority=1, reason="urgent")
    await acting.update("s-a", priority=2)
    await acting.resume("s-a", "done")
    await acting.delete("s-a", reason="no longer needed")
    entries = await app.audit.list(object_type="schedule", object_id="s-a", order="oldest")
    assert [(one.action, one.reason) for one in entries] == [
        ("schedule.created", None), ("schedule.paused", "migration"),
        ("schedule.updated", "urgent"), ("schedule.updated", None), ("schedule.resumed", "done"),
        ("schedule.deleted", "no longer needed"),
    ]  # fmt: skip


async def test_lists_filter_by_one_state_or_several_under_either_name(app: rota.App) -> None:
    @app.job
    async def mine() -> None: ...

    for name in ("active", "disabled", "paused"):
        await app.schedules.create(name, "mine", every=60, enabled=name != "disabled")
    await app.schedules.pause("paused")
    waiting, ended = await mine.enqueue(), await mine.enqueue()
    await ended.cancel()
    action = await app.bulk.start("cancel", job="mine")

    async def schedules(**filters: Any) -> list[Any]:
        return [one.name for one in await app.schedules.list(job="mine", **filters)]

    async def runs(**filters: Any) -> list[Any]:
        return [one.id for one in await app.runs.list(job="mine", order="oldest", **filters)]

    async def actions(**filters: Any) -> list[Any]:
        return [one.id for one in (await app.bulk.page(**filters)).items]

    lists: list[tuple[Any, list[str], list[Any]]] = [
        (schedules, ["disabled", "paused"], ["disabled", "paused"]),
        (runs, ["queued", "cancelled"], [waiting.id, ended.id]),
        (actions, ["stopped", "running"], [action.id]),
    ]
    for read, states, found in lists:
        assert await read(states=states) == await read(state=tuple(states)) == found
        assert await read(state=states[1]) == await read(states=[states[1]]) == found[-1:]
        assert await read(states=[]) == []
        for wrong in ({"state": states[0], "states": states}, {"states": [states[0], "odd"]}):
            with pytest.raises(rota.FilterError, match=r"pass only one of them|'odd'"):
                await read(**wrong)
    assert (await app.schedules.counts(job="mine", states=["paused"]))["active"] == 1
