"""Events that are kept: lists, filters, bindings that follow the code, retention."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import Clock
from tests.conftest import MakeApp

Connection = psycopg.Connection[tuple[Any, ...]]


def declare(app: rota.App) -> None:
    @app.job(events=[rota.on("order.*", where={"status": "paid"}), "user.created"])
    async def ship(status: str = "", city: str = "") -> None: ...

    @app.job(events="order.paid")
    async def book(status: str = "", city: str = "") -> None: ...


@pytest.fixture
async def some(app: rota.App) -> rota.App:
    declare(app)
    await app.emit("order.paid", {"status": "paid", "city": "Wien"}, tenant="acme", key="k")
    await app.emit("order.lost", {"status": "lost"}, hook="django")
    await app.emit("nobody.cares", {"why": "10%_off"})
    return app


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["nobody.cares", "order.lost", "order.paid"]),
        ({"order": "oldest"}, ["order.paid", "order.lost", "nobody.cares"]),
        ({"name": "order.*"}, ["order.lost", "order.paid"]),
        ({"name": "order.paid"}, ["order.paid"]),
        ({"name": "order"}, []),
        ({"tenant": "acme"}, ["order.paid"]),
        ({"tenant": ""}, ["nobody.cares", "order.lost"]),
        ({"job": "ship"}, ["order.lost", "order.paid"]),
        ({"job": "book"}, ["order.paid"]),
        ({"key": "k"}, ["order.paid"]),
        ({"outcome": "started"}, ["order.paid"]),
        ({"outcome": "filtered"}, ["order.lost"]),
        ({"outcome": "unbound"}, ["nobody.cares"]),
        ({"outcome": "duplicate"}, []),
        ({"text": "wien"}, ["order.paid"]),
        ({"text": "10%_off"}, ["nobody.cares"]),
        ({"text": "10_"}, []),
        ({"since": timedelta(hours=1)}, ["nobody.cares", "order.lost", "order.paid"]),
        ({"until": timedelta(hours=1)}, []),
        ({"limit": 1}, ["nobody.cares"]),
        ({"before_id": 2}, ["order.paid"]),
    ],
)
async def test_lists(some: rota.App, filters: Any, names: list[str]) -> None:
    assert [one.name for one in await some.events.list(**filters)] == names


async def test_one(some: rota.App) -> None:
    found = await some.events.get(1)
    assert [(it.job, it.word) for it in found.told] == [("book", "started"), ("ship", "started")]
    assert (found.tenant, found.key, found.outcome) == ("acme", "k", "started")
    assert (await some.events.get(2)).source == {"hook": "django"}
    with pytest.raises(rota.EventNotFound):
        await some.events.get(99)


async def test_a_page_goes_on(some: rota.App) -> None:
    first = await some.events.page(limit=2)
    rest = await some.events.page(limit=2, cursor=first.cursor)
    assert ([one.id for one in first.items], [one.id for one in rest.items]) == ([3, 2], [1])


@pytest.mark.parametrize("wrong", [{"outcome": "lost"}, {"order": "size"}, {"colour": "red"}])
async def test_bad_filters(some: rota.App, wrong: Any) -> None:
    with pytest.raises(rota.FilterError):
        await some.events.list(**wrong)


async def test_bindings(some: rota.App) -> None:
    found = await some.events.bindings()
    assert [(it.pattern, it.job, it.filter) for it in found] == [
        ("order.*", "ship", {"status": "paid"}),
        ("order.paid", "book", None),
        ("user.created", "ship", None),
    ]
    assert [it.job for it in await some.events.bindings("order.paid")] == ["ship", "book"]
    assert [it.pattern for it in await some.events.bindings(job="book")] == ["order.paid"]


@pytest.mark.parametrize("where", [7, "x", {"a": float("nan")}])
def test_a_bad_filter_is_refused_where_it_is_declared(where: Any) -> None:
    with pytest.raises(rota.JobError):
        rota.on("order.*", where=where)


def test_one_event_with_two_filters_is_refused(make_app: MakeApp) -> None:
    with pytest.raises(rota.JobError, match="twice"):

        @make_app().job(events=[rota.on("x", where={"a": 1}), rota.on("x", where={"a": 2})])
        def handler() -> None: ...


async def test_a_period_is_checked(app: rota.App) -> None:
    for options in ({"key_period": 5}, {"key": "k", "key_period": 5, "key_keep": 5},
                    {"key": "k", "key_period": 0}):  # fmt: skip
        with pytest.raises(rota.InputError, match="key_period"):
            await app.emit("order.paid", **options)  # type: ignore[arg-type]
    first = await app.emit("order.paid", key="k", key_period=timedelta(hours=1))
    await app.emit("order.paid", key="k", key_period=3600)
    assert [one.duplicate_of for one in await app.events.list()] == [first.event_id, None]


async def test_retention(app: rota.App, conn: Connection, clock: Clock) -> None:
    await app.emit("old.event", key="k", key_period=60)
    clock.advance(32 * 86_400)
    await app.emit("new.event")
    planned = await app.retention.plan()
    assert {"events", "event_keys"} <= {one.table for one in planned.items}
    await app.retention.run()
    assert [one.name for one in await app.events.list()] == ["new.event"]
    assert conn.execute("SELECT count(*) FROM rota.event_keys").fetchone() == (0,)


async def test_replay(some: rota.App, conn: Connection) -> None:
    @some.job
    async def late(status: str = "", city: str = "") -> None: ...

    await some.jobs.sync_definitions()
    events = some.events.by("ada")
    planned = await events.replay("late", event="order.*", dry_run=True)
    assert (planned.events, planned.started, planned.is_dry_run) == (2, 2, True)
    done = await events.replay("late", event="order.*", since=timedelta(hours=1), reason="new")
    assert (done.started, done.delivered_before) == (2, 0)
    again = await events.replay("late", ids=[1, 2])
    assert (again.started, again.delivered_before) == (0, 2)
    assert [it.word for it in (await some.events.get(2)).told][-1] == "replayed by ada"
    (run,) = [it.run for it in (await some.events.get(2)).told if it.job == "late"]
    assert run is not None
    by = (await some.runs.get(run)).triggered_by
    assert (by["replayed_by"], by["hook"], by["event_id"]) == ("ada", "django", 2)
    found = conn.execute(
        "SELECT actor, reason FROM rota.audit WHERE action = 'event.replayed' ORDER BY id"
    )
    assert found.fetchall()[0] == ("ada", "new")
    with pytest.raises(rota.UnknownJob):
        await events.replay("nobody", ids=[1])


async def test_a_condition_of_a_watch_is_not_sql(app: rota.App, conn: Connection) -> None:
    conn.execute("CREATE TABLE orders (id int, status text, data jsonb, seen timestamptz)")
    for when in (
        "pg_sleep(2) is null",
        "strpos(query_to_xml('select s from public.vault', true, true, '')::text, 's') > 0",
        "lo_export(424242, '/tmp/x') = 1",
        "new.id = (select 1)",
    ):
        with pytest.raises(rota.InputError, match="cannot be read"):
            await app.watches.add("orders", on="insert", when=when)
    with pytest.raises(rota.InputError, match=r"column new\.odd does not exist"):
        await app.watches.add("orders", on="insert", when="new.odd = 1")
    for n, when in enumerate(
        [
            "new.id in (1, 2) and new.status like 'p%' and not new.data ->> 'kind' = 'test'",
            "(new.seen > '2026-01-01' or new.seen is null) and new.status is distinct from 'gone'",
        ]
    ):
        await app.watches.add("orders", on="insert", when=when, event=f"e{n}")
    conn.execute("""INSERT INTO orders VALUES (1, 'paid', '{"kind": "real"}', '2026-02-01')""")
    conn.execute("""INSERT INTO orders VALUES (1, 'paid', '{"kind": "test"}', '2025-02-01')""")
    assert sorted(one.name for one in await app.events.list()) == ["e0.insert", "e1.insert"]


async def test_watches(app: rota.App, conn: Connection) -> None:
    conn.execute("CREATE TABLE orders (id int, status text)")
    watches = app.watches.by("ada")
    made = await watches.add("orders", on="insert, update[status]", when="new.id > 0")
    assert (made.table_name, made.watched) == ("public.orders", "insert, update[status]")
    assert (made.created_by, made.drift) == ("ada", [])
    conn.execute("INSERT INTO orders VALUES (1, 'open')")
    (event,) = await app.events.list()
    assert event.payload["new"] == {"id": 1, "status": "open"}
    conn.execute("DROP TABLE orders")
    assert [one.drift for one in await watches.list()] == [["the table was dropped"]]
    await watches.remove(made.id)
    with pytest.raises(rota.WatchNotFound):
        await watches.remove(made.id)
    with pytest.raises(rota.WatchNotFound):
        await watches.get(99)
    for wrong in ("truncate", "insert[id]", "", "insert,insert", "update[status", "a b"):
        with pytest.raises(rota.InputError):
            await watches.add("orders", on=wrong)
    actions = conn.execute("SELECT actor, action FROM rota.audit WHERE object_type = 'watch'")
    assert actions.fetchall() == [("ada", "watch.created"), ("ada", "watch.deleted")]
