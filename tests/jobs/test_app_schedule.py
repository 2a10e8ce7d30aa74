"""`app.schedule`: declared at the top of a module, or at run time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.operations.schedules import declared
from rota.testing import eventually

Connection = psycopg.Connection[tuple[Any, ...]]


def versions(conn: Connection) -> list[tuple[Any, ...]]:
    """Of all but Rota's own."""
    query = """
        SELECT tenant, name, job, version, payload FROM rota.schedules WHERE NOT is_system
        ORDER BY tenant, name
    """
    return conn.execute(query).fetchall()


def declare(app: rota.App) -> Any:
    @app.job
    async def send(user_id: int, locale: str = "en") -> None: ...

    return send


async def test_it_is_stored_when_the_database_opens(make_app: Any, conn: Connection) -> None:
    for _ in range(2):
        app: rota.App = make_app()
        send = declare(app)
        app.schedule(
            "digest", send, cron="0 8 * * 1-5", timezone="America/New_York",
            payload={"user_id": 7}, catch_up="latest", overlap="skip",
        )  # fmt: skip
        assert not app.database.is_open
        await app.database.open()
        assert versions(conn) == [("", "digest", "send", 1, {"user_id": 7})]
    (actor,) = conn.execute("SELECT actor FROM rota.audit WHERE object_id = 'digest'")
    assert actor == ("code",)


async def test_again_and_again_is_an_upsert(app: rota.App, conn: Connection) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    await app.database.open()
    send = declare(app)  # after the opening: it is registered on the way
    for minutes in (5, 5, 10, 10):
        app.schedule(
            "poll", send, tenant="acme", start_at=start, every=timedelta(minutes=minutes),
            payload={"user_id": 1},
        )  # fmt: skip
    assert [row[:4] for row in versions(conn)] == [("acme", "poll", "send", 2)]
    app.unschedule("poll", tenant="acme")
    assert versions(conn) == []
    with pytest.raises(rota.ScheduleNotFound):
        app.unschedule("poll", tenant="acme")


async def test_one_that_was_never_stored_can_be_taken_back(app: rota.App, conn: Connection) -> None:
    declare(app)
    app.schedule("a", "send", every=60, payload={"user_id": 1})
    app.unschedule("a")
    assert versions(conn) == []
    with pytest.raises(rota.ScheduleNotFound):
        app.unschedule("a")


def test_mistakes_are_found_where_they_are_written(app: rota.App) -> None:
    send = declare(app)
    bad: list[tuple[type[Exception], dict[str, Any]]] = [
        (rota.TimingError, {"cron": "61 * * * *"}),
        (rota.TimingError, {}),
        (rota.TimingError, {"cron": "* * * * *", "timezone": "Mars"}),
        (rota.TimingError, {"every": 0}),
        (rota.PayloadError, {"every": 60, "payload": {"user_id": "x"}}),
        (rota.PayloadError, {"every": 60, "payload": {"colour": 1}}),
    ]
    for error, arguments in bad:
        with pytest.raises(error):
            app.schedule("s", send, **arguments)
    with pytest.raises(rota.TimingError, match="name"):
        app.schedule("", send, every=60)
    assert not app.database.is_open


def test_two_that_differ_name_both_places(app: rota.App) -> None:
    send = declare(app)
    app.schedule("dup", send, every=60, payload={"user_id": 1})
    app.schedule("dup", send, every=60, payload={"user_id": 1})  # the same: fine
    app.schedule("dup", send, every=90, payload={"user_id": 1}, tenant="acme")  # another one's
    with pytest.raises(rota.JobError, match="declared twice") as caught:
        app.schedule("dup", send, every=61, payload={"user_id": 1})
    first, second = re.findall(r"test_app_schedule\.py:(\d+)", str(caught.value))
    assert int(second) - int(first) == 3, "the last that said it, and this one"
    assert caught.value.hint
    with pytest.raises(rota.JobError, match='of tenant "acme" is declared twice'):
        app.tenant("acme").schedule("dup", send, every=61, payload={"user_id": 1})
    assert not app.database.is_open


async def test_one_that_was_removed_from_the_code_shows_in_the_plan(
    make_app: Any, conn: Connection
) -> None:
    first: rota.App = make_app()
    send = declare(first)
    for name, tenants in (("stays", [""]), ("removed", ["", "acme"])):
        first.schedule(name, send, every=60, payload={"user_id": 1}, tenants=tenants)
    await first.database.open()
    await first.schedules.put("at run time", "send", every=60, payload={"user_id": 1})
    await first.close()
    second: rota.App = make_app()
    send = declare(second)
    second.schedule("stays", send, every=61, payload={"user_id": 1})
    second.schedule("added", send, every=60, payload={"user_id": 1})
    third: rota.App = make_app()
    jobs = third.jobs.of(second.registry, second.config)
    assert [(one.name, one.field, one.change) for one in await jobs.plan()] == [
        ("acme/removed", None, "left"), ("added", None, "new"), ("removed", None, "left"),
        ("stays", "interval_seconds", "follows"),
    ]  # fmt: skip
    await second.database.open()
    assert [(one.name, one.change) for one in await second.jobs.plan()] == [
        ("acme/removed", "left"), ("removed", "left"),
    ]  # fmt: skip
    await second.schedules.disable("removed")
    assert [one.stored for one in await second.jobs.plan()] == ["active", "disabled"]
    await second.schedules.by("ada").update("stays", every=300)
    await second.schedules.delete("removed")
    await second.schedules.delete("removed", tenant="acme")
    (kept,) = await second.jobs.plan()
    assert (kept.name, kept.change, kept.changed_by) == ("stays", "kept", "ada")
    await second.close()


async def test_an_unknown_job_is_an_error(app: rota.App) -> None:
    await app.database.open()
    with pytest.raises(rota.UnknownJob):
        app.schedule("s", "nobody", every=60)


async def test_it_runs(app: rota.App) -> None:
    import asyncio

    seen: asyncio.Future[rota.Context] = asyncio.get_running_loop().create_future()

    @app.job
    async def note(ctx: rota.Context) -> None:
        if not seen.done():
            seen.set_result(ctx)

    app.schedule("now", note, at=datetime.now(UTC))
    async with app.worker():
        ctx = await asyncio.wait_for(seen, 20)
    assert (ctx.schedule, ctx.is_catch_up) == ("now", False)


async def test_a_process_without_the_function_tracks_and_does_not_run_it(
    app: rota.App, conn: Connection
) -> None:
    ran: list[str] = []

    @app.job
    async def note() -> None:
        ran.append("note")

    def states() -> list[tuple[Any, ...]]:
        query = (
            "SELECT o.decision, r.state FROM rota.occurrences o JOIN rota.runs r ON r.id = o.run_id"
        )
        return conn.execute(query).fetchall()

    app.schedule("now", note, at=datetime.now(UTC), tenant="acme")
    await app.database.open()
    other = rota.App(name="other", config=app.config)
    async with other.worker():
        await eventually(lambda: states() == [("ran", "queued")])
    await other.close()
    assert ran == []
    async with app.worker():
        await eventually(lambda: states() == [("ran", "succeeded")])
    assert ran == ["note"]


async def test_what_operators_changed_wins(app: rota.App, conn: Connection) -> None:
    declare(app)
    given: Any = {"payload": {"user_id": 1}, "overlap": "skip"}
    await app.schedules.put("s", "send", cron="0 8 * * *", **given)
    await app.schedules.by("ada").update("s", cron="0 9 * * *", queue="mail")
    assert not await app.schedules.put("s", "send", cron="0 8 * * *", **given)
    assert await app.schedules.put("s", "send", every=60, **given | {"overlap": "allow"})
    found = await app.schedules.get("s")
    assert (found.cron, found.interval_seconds) == ("0 9 * * *", None)
    assert (found.queue, found.overlap) == ("mail", "allow")
    # Set back to what the code says, it follows the code again.
    await app.schedules.update("s", every=60)
    assert await app.schedules.put("s", "send", every=90, **given)
    assert (await app.schedules.get("s")).interval_seconds == 90


async def test_a_schedule_that_a_job_declares_is_not_put(app: rota.App) -> None:
    @app.job(schedules=[rota.every(60, name="own")])
    async def tidy() -> None: ...

    with pytest.raises(rota.WrongState, match="declares"):
        await app.schedules.put("own", "tidy", every=60)


@pytest.mark.parametrize("portion", [1, 1000])
@pytest.mark.parametrize("order", ["abc", "cba"])
async def test_those_declared_together_may_require_each_other(
    app: rota.App, conn: Connection, monkeypatch: Any, order: str, portion: int
) -> None:
    monkeypatch.setattr(declared, "_PORTION", portion)
    send = declare(app)
    requires = {"a": ["b"], "b": ["c"], "c": []}
    for name in order:
        app.schedule(
            name, send, every=60, payload={"user_id": 1}, tenants=["", "acme"],
            requires=requires[name],
        )  # fmt: skip
    await app.database.open()
    assert [row[1] for row in versions(conn)] == ["a", "b", "c"] * 2


async def test_what_those_declared_together_require_is_checked(make_app: Any) -> None:
    given: Any = {"every": 60, "payload": {"user_id": 1}}
    cycle: rota.App = make_app()
    send = declare(cycle)
    cycle.schedule("a", send, requires=["b"], **given)
    cycle.schedule("b", send, requires=["a"], **given)
    with pytest.raises(rota.TimingError, match="cycle: a → b → a"):
        await cycle.database.open()
    unknown: rota.App = make_app()
    unknown.schedule("a", declare(unknown), requires=["c"], **given)
    unknown.schedule("b", "send", **given)
    with pytest.raises(rota.TimingError, match='schedule "a" requires "c": no schedule or job'):
        await unknown.database.open()


async def test_what_decorators_require_is_checked(make_app: Any, conn: Connection) -> None:
    unknown: rota.App = make_app()
    unknown.job(schedules=[rota.every(60, requires=["nothing"])])(tidy)
    with pytest.raises(rota.TimingError, match='"tidy" requires "nothing": no schedule or job'):
        await unknown.database.open()
    cycle: rota.App = make_app()
    cycle.job(schedules=[rota.every(60, requires=["late"])])(tidy)
    cycle.schedule("late", "tidy", every=60, requires=["tidy"])
    with pytest.raises(rota.TimingError, match="cycle: tidy → late → tidy"):
        await cycle.database.open()
    fine: rota.App = make_app()
    fine.job(schedules=[rota.every(60, requires=["send"])])(tidy)
    declare(fine)
    await fine.database.open()
    assert [row[1] for row in versions(conn)] == ["tidy"]


async def tidy() -> None: ...


async def test_a_release_may_reverse_what_is_required(make_app: Any) -> None:
    given: Any = {"every": 60, "payload": {"user_id": 1}}
    for requires in ({"a": ["b"], "b": []}, {"a": [], "b": ["a"]}):
        app: rota.App = make_app()
        send = declare(app)
        for name, required in requires.items():
            app.schedule(name, send, requires=required, **given)
        await app.database.open()
        found = {one.name: one.requires for one in await app.schedules.list()}
        assert found == {name: [{"name": one} for one in it] for name, it in requires.items()}
        await app.close()


def line_of(error: Exception) -> list[int]:
    return [int(it) for it in re.findall(r"test_app_schedule\.py:(\d+)", str(error))]


@pytest.mark.parametrize("payload", [{"n": "bad"}, {"colour": 1}, None])
def test_one_written_before_its_job_is_checked_when_the_job_is_declared(
    app: rota.App, payload: Any
) -> None:
    app.schedule("later", "lj", every=5, payload=payload, tenants=["", "acme"])
    with pytest.raises(rota.PayloadError, match='schedule "later": job "lj": ') as caught:

        @app.job(name="lj")
        async def refused(n: int) -> None: ...

    assert len(line_of(caught.value)) == 1, "where the schedule stands"
    assert "lj" not in app.registry


async def test_one_written_before_its_job_is_stored_as_the_types_say(
    app: rota.App, conn: Connection
) -> None:
    app.schedule("later", "lj", every=5, payload={"at": datetime(2026, 1, 2), "raw": b"\xff"})  # noqa: DTZ001

    @app.job(name="lj")
    async def later(at: datetime, raw: bytes) -> None: ...

    await app.database.open()
    (row,) = versions(conn)
    assert row[4] == {"at": "2026-01-02T00:00:00", "raw": "_w=="}


@pytest.mark.parametrize("is_early", [True, False])
def test_a_job_with_a_key_has_no_schedules(app: rota.App, is_early: bool) -> None:
    def declare_keyed() -> None:
        @app.job(key="one:{n}")
        async def keyed(n: int) -> None: ...

    def schedule() -> None:
        app.schedule("s", "keyed", every=60, payload={"n": 1})

    first, second = (schedule, declare_keyed) if is_early else (declare_keyed, schedule)
    first()
    with pytest.raises(rota.JobError, match=r'schedule "s": job "keyed" has the key "one:{n}"'):
        second()


def test_two_decorators_do_not_declare_one_schedule(app: rota.App) -> None:
    @app.job(schedules=[rota.every(60), rota.every(60, name="own")])
    async def first() -> None: ...

    with pytest.raises(rota.JobError, match='two jobs declare a schedule named "own"') as caught:

        @app.job(schedules=[rota.every(60), rota.every(90, name="own")])
        async def second() -> None: ...

    assert len(line_of(caught.value)) == 2
    with pytest.raises(rota.JobError, match='two jobs declare a schedule named "first"'):

        @app.job(schedules=[rota.every(60, name="first")])
        async def third() -> None: ...

    assert app.registry.names() == ["first"]


def test_nor_do_a_decorator_and_app_schedule(app: rota.App) -> None:
    @app.job(schedules=[rota.every(60, name="own")])
    async def first() -> None: ...

    with pytest.raises(rota.JobError, match='schedule "own" is declared twice') as caught:
        app.schedule("own", first, every=60)
    assert len(line_of(caught.value)) == 2
    app.schedule("own", first, every=60, tenant="acme")  # another one's
    app.schedule("mine", first, every=60)
    with pytest.raises(rota.JobError, match='schedule "mine" is declared twice') as caught:

        @app.job(schedules=[rota.every(60, name="mine")])
        async def second() -> None: ...

    assert len(line_of(caught.value)) == 2


def test_a_schedule_of_no_job_names_itself_and_its_line(make_app: Any) -> None:
    """Whoever opens the database may be enqueueing something else."""
    app: rota.App = make_app()
    declare(app)
    app.schedule("digest", "sned", every=60)
    with pytest.raises(
        rota.UnknownJob, match=r'schedule "digest" at .*test_app_schedule.py:\d+'
    ) as caught:
        app.database.open_sync()
    assert caught.value.hint == "did you mean send?"
