"""`app.limits`, and limits that code declares."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.errors import JobError, LimitError, LimitNotFound, WrongState
from tests.conftest import MakeApp
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


def admit(engine: Engine) -> None:
    engine.one("SELECT admitted FROM rota.admit_runs()")


async def test_one_is_made_changed_looked_at_and_removed(app: rota.App, engine: Engine) -> None:
    limits = app.limits.by("grace")
    made = await limits.set("mail", queue="mail", cap=2, key="{to}", reason="they asked for it")
    assert (made.scope, made.rule) == ("queue mail", "2 at once for each {to}")
    for to in "aaab":
        engine.enqueue(payload={"to": to}, queue="mail")
    admit(engine)
    details = await limits.get("mail")
    assert (details.limit.in_use, details.limit.waiting, details.limit.full) == (3, 1, 1)
    assert [(key.value, key.in_use, key.waiting) for key in details.keys] == [
        ("a", 2, 1),
        ("b", 1, 0),
    ]
    assert [run.value for run in details.holders] == ["a", "a", "b"]
    assert [run.value for run in details.waiters] == ["a"]
    changed = await limits.set("mail", cap=3)
    assert (changed.cap, changed.queue, changed.updated_by) == (3, "mail", "grace")
    assert await limits.remove("mail", reason="enough") == "removed"
    assert await limits.list() == []
    deeds = [(row["action"], row["actor"], row["reason"]) for row in engine.audit("mail")]
    assert deeds == [
        ("limit.created", "grace", "they asked for it"),
        ("limit.updated", "grace", None),
        ("limit.removed", "grace", "enough"),
    ]


async def test_what_there_is_not(app: rota.App, engine: Engine) -> None:
    await app.limits.set("mail", cap=1)
    with pytest.raises(LimitNotFound, match='no limit "male"') as caught:
        await app.limits.get("male")
    assert "did you mean mail?" in str(caught.value.hint)
    with pytest.raises(LimitNotFound):
        await app.limits.remove("nothing")
    with pytest.raises(LimitError, match="cap must be from 0"):
        await app.limits.set("mail", cap=-1)
    with pytest.raises(LimitError, match="unknown argument 'colour'"):
        await app.limits.set("mail", colour="red")  # type: ignore[call-arg]
    with pytest.raises(WrongState, match="is not blocked"):
        await app.limits.unblock("mail")


async def test_lists_are_in_order_and_in_pages(app: rota.App, engine: Engine) -> None:
    await app.limits.set("a", jobs=["work"], cap=1)
    await app.limits.set("b", queue="mail", kind="rate", cap=1, period_seconds=60)
    await app.limits.set("c", cap=9, tenant="acme")
    for _ in range(3):
        engine.enqueue()
    admit(engine)
    names = [one.name for one in await app.limits.list(order="longest")]
    assert names == ["a", "b", "c"]
    assert [one.name for one in await app.limits.list(kind="rate")] == ["b"]
    assert [one.name for one in await app.limits.list(tenant="acme")] == ["c"]
    assert [one.name for one in await app.limits.list(job="work")] == ["a"]
    page = await app.limits.page(limit=2)
    assert [one.name for one in page.items] == ["a", "b"]
    rest = await app.limits.page(limit=2, cursor=page.cursor)
    assert [one.name for one in rest.items] == ["c"]


async def test_limits_follow_the_code_until_somebody_edits_them(
    make_app: MakeApp, engine: Engine
) -> None:
    def declare(cap: int | None) -> rota.App:
        app = make_app()
        limits = None if cap is None else rota.concurrency(cap, key="{user}")

        @app.job(name="send", limits=limits)
        async def send(user: int) -> None: ...

        return app

    app = declare(5)
    (made,) = await app.limits.list()
    assert (made.name, made.cap, made.jobs) == ("send/concurrency/user", 5, ["send"])
    assert made.is_declared
    with pytest.raises(WrongState, match="is declared by the code of send"):
        await app.limits.remove(made.name)
    (made,) = await declare(6).limits.list()
    assert made.cap == 6
    await app.limits.by("grace").set(made.name, cap=2)
    (made,) = await declare(7).limits.list()
    assert (made.cap, made.is_edited) == (2, True)
    assert await app.limits.remove(made.name) == "reset"
    (made,) = await app.limits.list()
    assert (made.cap, made.is_edited) == (7, False)
    assert await declare(None).limits.list() == []


async def test_jobs_that_name_one_limit_share_it(make_app: MakeApp, engine: Engine) -> None:
    app = make_app()
    stripe = rota.concurrency(1, name="stripe")

    @app.job(limits=[stripe, rota.rate(100, per=60, burst=10, cost="n")])
    async def charge(n: int) -> None: ...

    @app.job(limits=stripe)
    async def refund() -> None: ...

    await charge.enqueue(n=1)
    await refund.enqueue()
    admit(engine)
    stripe_, rate = sorted(await app.limits.list(), key=lambda one: one.kind)
    assert (stripe_.name, stripe_.jobs, stripe_.in_use) == ("stripe", ["charge", "refund"], 1)
    assert (rate.name, rate.rule) == ("charge/rate", "100 in 1 min, burst 10")


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: rota.concurrency(-1), "cap must be a whole number"),
        (lambda: rota.concurrency(1, key="a{"), "is not a template"),
        (lambda: rota.rate(5, per=0), "per must be a duration"),
        (lambda: rota.rate(5, per=1, burst=6), "burst must be a whole number from 1 to 5"),
        (lambda: rota.rate(5, per=1, on_full="cancel_running"), "on_full must be one of"),
        (lambda: rota.sequence(after="never"), "after must be one of"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_in_code(make: Any, match: str) -> None:
    with pytest.raises(JobError, match=match):
        make()


def test_a_job_says_each_limit_once(make_app: MakeApp) -> None:
    app = make_app()
    with pytest.raises(JobError, match="declares limit"):

        @app.job(limits=[rota.concurrency(1), rota.concurrency(2)])
        async def send() -> None: ...

    with pytest.raises(JobError, match="must be made with rota"):

        @app.job(limits=[5])  # type: ignore[list-item]
        async def send() -> None: ...


def test_sync_is_the_same(app: rota.App, engine: Engine) -> None:
    app.limits.sync.set("mail", cap=1)
    assert app.limits.sync.get("mail").limit.cap == 1
