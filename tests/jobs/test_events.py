"""An event starts every job that is bound to it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.scheduler import Scheduler
from rota.testing import Clock
from tests.conftest import MakeApp
from tests.jobs.conftest import MakeCode

Connection = psycopg.Connection[tuple[Any, ...]]


def declare(app: rota.App) -> None:
    @app.job(events=["order.paid"])
    async def ship(order_id: int) -> int:
        return order_id

    @app.job(events=("order.paid", "order.refunded"))
    async def book(order_id: int) -> int:
        return -order_id

    @app.job
    async def other(order_id: int) -> None: ...


async def test_each_bound_job_gets_one_run(app: rota.App, conn: Connection) -> None:
    declare(app)
    runs = await app.emit("order.paid", {"order_id": 7}, tenant="acme")
    assert [one.job for one in runs] == ["book", "ship"]
    rows = conn.execute("SELECT id, job, payload, tenant, triggered_by FROM rota.runs ORDER BY job")
    assert runs.event_id is not None
    role = conn.execute("SELECT current_user").fetchone()[0]  # type: ignore[index]
    by = {"type": "event", "event": "order.paid", "event_id": runs.event_id, "role": role}
    assert rows.fetchall() == [
        (runs[0].id, "book", {"order_id": 7}, "acme", by),
        (runs[1].id, "ship", {"order_id": 7}, "acme", by),
    ]
    assert [one.job for one in await app.emit("order.refunded", {"order_id": 7})] == ["book"]
    assert await app.emit("order.lost") == []


async def test_they_run(app: rota.App) -> None:
    declare(app)
    async with app.worker():
        runs = await app.emit("order.paid", {"order_id": 7})
        assert [await run.wait(timeout=30) for run in runs] == [-7, 7]
        by = (await runs[0].info()).triggered_by
        assert (by["event"], by["event_id"]) == ("order.paid", runs.event_id)


async def test_a_key_makes_it_once_for_each_job(app: rota.App) -> None:
    declare(app)
    first = await app.emit("order.paid", {"order_id": 7}, key="7")
    again = await app.emit("order.paid", {"order_id": 7}, key="7")
    assert [one.id for one in again] == [one.id for one in first]
    assert [one.is_duplicate for one in again] == [True, True]


async def test_a_run_of_a_disabled_job_waits_and_one_gone_from_the_code_is_left_out(
    app: rota.App, conn: Connection
) -> None:
    declare(app)
    await app.database.open()
    await app.jobs.disable("ship")
    async with app.worker():
        book, ship = await app.emit("order.paid", {"order_id": 7})
        assert await book.wait(timeout=30) == -7
        assert await ship.state() == "queued"
        await app.jobs.enable("ship")
        assert await ship.wait(timeout=30) == 7
    conn.execute("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = 'book'")
    assert [one.job for one in await app.emit("order.paid", {"order_id": 7})] == ["ship"]


async def test_what_a_disabled_job_does_with_what_is_asked_of_it(
    app: rota.App, conn: Connection
) -> None:
    """Who asks gets a run that waits; what a clock asks is written into the ledger."""

    @app.job(events=["paid"])
    async def work() -> None: ...

    await app.database.open()
    await app.schedules.put("s", "work", every=3600)
    await app.jobs.disable("work")
    asked = [await work.enqueue(), *await app.emit("paid"), await app.schedules.trigger("s")]
    assert len(asked) == 3
    conn.execute("UPDATE rota.schedules SET is_enabled = false WHERE is_system")
    conn.execute("SELECT rota.set_clock(rota.now() + interval '1 hour 1 minute')")
    scheduler = Scheduler(app.database, tick_seconds=15)
    while await scheduler.tick():
        pass
    ledger = conn.execute("SELECT decision, reason FROM rota.occurrences WHERE schedule = 's'")
    assert ledger.fetchall() == [("skipped", "job_disabled")]
    states = conn.execute("SELECT state FROM rota.runs").fetchall()
    assert states == [("queued",)] * 3


async def test_a_key_that_is_kept_holds_after_the_end(app: rota.App, clock: Clock) -> None:
    declare(app)
    async with app.worker():
        first = await app.emit("order.refunded", {"order_id": 7}, key="7", key_keep=600)
        await first[0].wait(timeout=30)
        again = await app.emit("order.refunded", {"order_id": 7}, key="7", key_keep=600)
        assert (again[0].id, again[0].is_duplicate) == (first[0].id, True)
        clock.advance(601)
        (later,) = await app.emit("order.refunded", {"order_id": 7}, key="7", key_keep="forever")
        assert later.id != first[0].id
        await later.wait(timeout=30)
        clock.advance(10**7)
        sent = app.emit_sync("order.refunded", {"order_id": 7}, key="7")
        assert [one.id for one in sent] == [later.id]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key_keep": 5}, "key_keep needs a key"),
        ({"key": "k", "key_keep": -1}, "key_keep|key_seconds"),
        ({"key": "k", "key_keep": float("nan")}, "key_keep|key_seconds"),
        ({"key": "k" * 401}, "key"),
        ({"tenant": "t" * 201}, "tenant"),
    ],
)
async def test_keys_are_checked_as_those_of_enqueues(
    app: rota.App, options: dict[str, Any], words: str
) -> None:
    for emit in (app.emit, app.events.emit):
        with pytest.raises(rota.InputError, match=words):
            await emit("order.paid", **options)
    for emit_sync in (app.emit_sync, app.events.sync.emit):
        with pytest.raises(rota.InputError, match=words):
            emit_sync("order.paid", **options)


@pytest.mark.parametrize(
    ("key", "seconds", "words"),
    [
        (None, 5.0, "needs a key"),
        ("k", float("nan"), "key_seconds"),
        ("k", 1e300, "key_seconds"),
    ],
)
def test_sql_checks_them_too(
    app: rota.App, conn: Connection, key: str | None, seconds: float, words: str
) -> None:
    declare(app)
    app.database.open_sync()
    with pytest.raises(psycopg.Error, match=words) as refused:
        conn.execute("SELECT rota.emit('order.paid', key => %s, key_seconds => %s)", [key, seconds])
    assert refused.value.sqlstate == "RO002"


async def test_it_joins_the_callers_transaction(
    app: rota.App, aconn: psycopg.AsyncConnection[Any], conn: Connection
) -> None:
    declare(app)
    async with aconn.transaction(force_rollback=True):
        assert len(await app.emit("order.paid", {"order_id": 7}, connection=aconn)) == 2
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (0,)


def test_sync(app: rota.App, conn: Connection) -> None:
    declare(app)
    with conn.transaction():
        runs = app.emit_sync("order.refunded", {"order_id": 7}, connection=conn)
    assert [one.job for one in runs] == ["book"]
    assert len(app.emit_sync("order.paid", {"order_id": 7})) == 2
    app.close_sync()


async def test_jobs_declared_later_are_bound_too(app: rota.App) -> None:
    await app.database.open()
    declare(app)
    assert len(await app.emit("order.paid", {"order_id": 7})) == 2


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        ("", {}),
        ("order paid", {}),
        ("x" * 201, {}),
        (7, {}),
        ("a", [1]),
        ("a", {"x": float("nan")}),
    ],
)
async def test_bad_input_is_refused_before_anything_is_sent(
    app: rota.App, event: Any, payload: Any
) -> None:
    with pytest.raises(rota.InputError):
        await app.emit(event, payload)
    assert not app.database.is_open


def test_by_sql_alone(conn: Connection) -> None:
    conn.execute("CREATE FUNCTION public.ship(p jsonb) RETURNS jsonb LANGUAGE sql AS 'SELECT p'")
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name, events)"
        " VALUES ('ship', 'sql', 'public.ship', '{order.paid}')"
    )
    found = conn.execute("""SELECT job, run_id FROM rota.emit('order.paid', '{"a": 1}')""")
    ((job, run_id),) = found.fetchall()
    assert job == "ship"
    query = "SELECT payload FROM rota.runs WHERE id = %s"
    assert conn.execute(query, [run_id]).fetchone() == ({"a": 1},)
    for words in ("'a b'", "NULL", "''", "'a', '[]'", "'a', NULL"):
        with pytest.raises(psycopg.Error) as caught:
            conn.execute(f"SELECT rota.emit({words})".encode())
        assert caught.value.sqlstate == ("RO018" if "," in words else "RO002")
    with pytest.raises(psycopg.Error) as caught:
        conn.execute("UPDATE rota.jobs SET events = '{a b}' WHERE name = 'ship'")
    assert caught.value.sqlstate == "RO002"


@pytest.mark.parametrize("bad", [["a b"], [""], {"a": 1}, [7], 7])
def test_a_declaration_with_bad_events_is_refused(make_app: MakeApp, bad: Any) -> None:
    with pytest.raises(rota.JobError, match="events"):

        @make_app().job(events=bad)
        def handler() -> None: ...


def test_one_name_may_stand_alone_and_twice_is_once(make_app: MakeApp) -> None:
    app = make_app()

    @app.job(events="order.paid")
    def one() -> None: ...

    @app.job(events=["a", "a"])
    def two() -> None: ...

    assert app.registry.get("one").events == ("order.paid",)
    assert app.registry.get("two").events == ("a",)


def test_events_are_synced_like_other_fields(code: MakeCode) -> None:
    old = code(a={"events": ["x"]}, b={"events": ["x"]}).open()
    assert old.job("a")["events"] == ["x"]
    old.app.jobs.by("ada").sync.update("b", events=["mine"])
    new = code(a={"events": ["y", "z"]}, b={"events": ["y"]}).open()
    assert (new.job("a")["events"], new.job("b")["events"]) == (["y", "z"], ["mine"])
    assert new.job("b")["edited"]["events"]["by"] == "ada"
    assert new.app.jobs.sync.update("b", reset=["events"]).events == ["y"]
    assert code(a={}, b={}).open().job("a")["events"] == []


def test_a_release_that_knows_no_events_still_registers(conn: Connection) -> None:
    """The previous release's definitions name no events, on a schema that has them."""
    definition = (
        '[{"name": "a", "hash": "h", "source": "s", "executor": "thread", "payload_schema": {},'
        ' "defaults": {"description": "", "queue": "q", "priority": 5, "max_attempts": 3,'
        ' "timeout_seconds": null, "backoff": null, "tags": [], "metadata": {},'
        ' "default_payload": null, "is_enabled": true}, "schedules": []}]'
    )
    conn.execute("SELECT rota.register_jobs('shop', 'b', %s::jsonb)", [definition])
    assert conn.execute("SELECT events FROM rota.jobs WHERE name = 'a'").fetchone() == ([],)


async def test_strategies(app: rota.App) -> None:
    @app.job(events="e", schedules=[rota.cron("@daily"), rota.every(60), rota.on_start("start")])
    async def all_ways() -> None: ...

    @app.job
    async def plain() -> None: ...

    await app.database.open()
    found = {one.name: one.strategies for one in await app.jobs.list()}
    assert found["all_ways"] == ["on_demand", "cron", "interval", "init", "event"]
    assert found["plain"] == ["on_demand"]


def test_filters_follow_the_code_until_somebody_edits_them(code: MakeCode) -> None:
    old = code(a={"events": [rota.on("x", where={"n": 1})]}, b={"events": [rota.on("x")]}).open()
    assert old.job("a")["event_filters"] == {"x": {"n": 1}}
    old.app.jobs.by("ada").sync.update("b", event_filters={"x": {"n": {">": 2}}})
    new = code(a={"events": ["x"]}, b={"events": [rota.on("x", where={"n": 9})]}).open()
    assert new.job("a")["event_filters"] == {}
    assert new.job("b")["event_filters"] == {"x": {"n": {">": 2}}}
    assert new.job("b")["edited"]["event_filters"]["by"] == "ada"
    reset = new.app.jobs.sync.update("b", reset=["event_filters"])
    assert reset.event_filters == {"x": {"n": 9}}
    assert [it.filter for it in new.app.events.sync.bindings(job="b")] == [{"n": 9}]
    with pytest.raises(rota.RotaError, match="compares"):
        new.app.jobs.sync.update("b", event_filters={"x": {"n": {">": [1]}}})


@pytest.mark.parametrize("tenants", [3, 150])
async def test_a_name_is_found_among_few_and_many_tenants(
    app: rota.App, conn: Connection, tenants: int
) -> None:
    """Few are looked up one by one, many are looked through."""
    await app.emit("nobody.cares")
    conn.execute(
        "SELECT rota.emit_many('order.paid', array_agg(jsonb_build_object('n', n)),"
        " array_agg('t' || n)) FROM generate_series(1, %s) n",
        [tenants],
    )
    await app.emit("order.paid", {"n": 0})
    newest = [one.payload["n"] for one in await app.events.list(name="order.paid", limit=200)]
    assert newest == [0, *range(tenants, 0, -1)]
    oldest = await app.events.list(name="order.paid", order="oldest", limit=200)
    assert [one.payload["n"] for one in oldest] == newest[::-1]
    page = await app.events.page(name="order.paid", limit=2)
    after = await app.events.page(name="order.paid", limit=2, cursor=page.cursor)
    assert [one.payload["n"] for one in (*page.items, *after.items)][:3] == newest[:3]
    assert await app.events.list(name="order.paid", until=timedelta(days=1)) == []
    assert await app.events.list(name="none") == []
