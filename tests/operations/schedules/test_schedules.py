from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import Clock

Connection = psycopg.Connection[tuple[Any, ...]]
NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)  # a Monday


@pytest.fixture
def app(make_app: Any, conn: Connection) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    @app.job
    async def other() -> None: ...

    return app


@pytest.fixture
async def frozen(app: rota.App, conn: Connection) -> None:
    conn.execute("SELECT rota.set_clock(%s)", [NOW])


def audit(conn: Connection) -> list[tuple[Any, ...]]:
    """Of all but Rota's own."""
    query = """
        SELECT actor, action, object_id FROM rota.audit
        WHERE object_id NOT LIKE 'rota.%' ORDER BY id
    """
    return conn.execute(query).fetchall()


async def test_create_and_get(app: rota.App, conn: Connection) -> None:
    made = await app.schedules.by("ada").create(
        "digest", "send", cron="0 8 * * 1-5", timezone="America/New_York", payload={"user_id": 7},
        tags=["mail"], every_from="start", timeout=timedelta(seconds=30),
    )  # fmt: skip
    assert made == await app.schedules.get("digest")
    assert made.timing == "every weekday at 08:00 (America/New_York)"
    assert (made.state, made.overlap) == ("active", "skip")
    assert made.next_run_at is not None
    assert (made.payload, made.timeout_seconds, made.total_runs) == ({"user_id": 7}, 30, 0)
    assert audit(conn)[-1] == ("ada", "schedule.created", "digest")
    with pytest.raises(rota.WrongState, match="already exists"):
        await app.schedules.create("digest", "send", every=60)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, None),
        ({"cron": "* * * * *", "every": 60}, "interval_seconds"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 * * * *"}, "cron"),
        ({"cron": "@reboot"}, "cron"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "timezone"),
        ({"every": 0.5}, "interval_seconds"),
        ({"every": -5}, "interval_seconds"),
        ({"at": NOW.replace(tzinfo=None)}, "run_at"),
        ({"every": 60, "overlap": "never"}, "overlap"),
        ({"every": 60, "priority": 10}, "priority"),
        ({"every": 60, "jitter": float("nan")}, "jitter_seconds"),
        ({"every": 60, "enabled": "yes"}, "is_enabled"),
        ({"cron": "* * * * *", "every_from": "end"}, "every_from"),
        ({"every": 60, "with_seconds": True}, "has_seconds"),
        ({"every": 60, "gap": "skip"}, "gap"),
        ({"at": NOW + timedelta(days=1), "fold": "both"}, "fold"),
        ({"init": "once", "fold": "second"}, "fold"),
        ({"cron": "@every 90s", "gap": "skip"}, "gap"),
        ({"every": 60, "colour": "red"}, "colour"),
        ({"every": 60, "requires": ["nobody"]}, "requires"),
        ({"every": 60, "requires": [{"within_seconds": 60}]}, "requires"),
        ({"every": 60, "start_at": NOW, "end_at": NOW - timedelta(days=1)}, "end_at"),
        ({"template": "Dialy"}, None),
        ({"template": "Hourly", "every": 5}, "template"),
    ],
)
async def test_bad_input_leaves_no_trace(
    app: rota.App, conn: Connection, arguments: Any, field: str | None
) -> None:
    with pytest.raises(rota.TimingError) as caught:
        await app.schedules.create("bad", "send", **arguments)
    assert caught.value.field == field
    assert await app.schedules.list() == []


async def test_what_only_cron_can_follow_goes_with_it(app: rota.App, conn: Connection) -> None:
    given: Any = {"timezone": "Europe/Paris", "gap": "skip", "fold": "both"}
    await app.schedules.create("s", "send", cron="0 30 2 * * *", with_seconds=True, **given)
    with pytest.raises(rota.TimingError, match="gap requires cron"):
        await app.schedules.update("s", every=60, gap="skip")
    found = await app.schedules.update("s", every=60)
    assert (found.gap, found.fold, found.has_seconds) == ("run_after", "first", False)
    for arguments in ({"fold": "both"}, {"with_seconds": True}):
        with pytest.raises(rota.TimingError, match="requires cron"):
            await app.schedules.update("s", **arguments)  # type: ignore[arg-type]
    await app.schedules.update("s", gap="run_after", fold=None)  # as it is anyway
    conn.execute("UPDATE rota.schedules SET gap = 'skip' WHERE name = 's'")
    assert (await app.schedules.update("s", description="mine")).description == "mine"
    found = await app.schedules.update("s", cron="30 2 * * *", fold="second")
    assert (found.gap, found.fold) == ("skip", "second")


async def test_neither_timings_nor_previews_take_what_only_cron_can_follow(app: rota.App) -> None:
    options: list[Any] = [{"gap": "skip"}, {"fold": "both"}, {"with_seconds": True}]
    for given in options:
        with pytest.raises(rota.JobError, match=r"invalid schedule: .* requires cron"):
            rota.every(60, **given)
        with pytest.raises(rota.JobError, match="requires cron"):
            rota.on_start(**given)
        with pytest.raises(rota.TimingError, match="requires cron"):
            await app.schedules.preview(every=60, **given)
        with pytest.raises(rota.TimingError, match="requires cron"):
            app.schedule("s", "send", every=60, **given)
        given_too = {"with_seconds": None} | given
        assert len(await app.schedules.preview(cron="@daily", count=2, **given_too)) == 2


async def test_the_payload_is_held_to_the_job(app: rota.App) -> None:
    with pytest.raises(rota.PayloadError):
        await app.schedules.create("bad", "send", every=60, payload={"user_id": "x"})
    with pytest.raises(rota.UnknownJob):
        await app.schedules.create("bad", "sned", every=60)
    with pytest.raises(rota.RotaError, match="calendar"):
        await app.schedules.create("bad", "send", every=60, calendar="none")
    await app.schedules.create("good", "send", every=60)
    with pytest.raises(rota.PayloadError):
        await app.schedules.update("good", payload={"user_id": "x"})
    with pytest.raises(rota.PayloadError):
        await app.schedules.trigger("good", {"user_id": "x"})


async def test_put_writes_only_what_differs(app: rota.App, conn: Connection) -> None:
    assert await app.schedules.put("s", "send", every=60)
    before = await app.schedules.get("s")
    assert not await app.schedules.put("s", "send", every=timedelta(minutes=1))
    assert (await app.schedules.get("s")).version == before.version
    assert await app.schedules.put("s", "send", cron="@every 90s", tags=["a"])
    after = await app.schedules.get("s")
    assert (after.interval_seconds, after.tags, after.id) == (90, ["a"], before.id)
    await app.schedules.disable("s")
    assert not await app.schedules.put("s", "send", every=90, tags=["a"])
    assert not (await app.schedules.get("s")).is_enabled
    assert await app.schedules.put("s", "send", every=90, tags=["a"], enabled=True)


async def test_update(app: rota.App, conn: Connection) -> None:
    made = await app.schedules.create("s", "send", cron="0 8 * * *", queue="mail", max_runs=9)
    changed = await app.schedules.by("bob").update("s", every=300, queue=None, job="other")
    assert (changed.cron, changed.interval_seconds, changed.queue) == (None, 300, None)
    assert (changed.job, changed.max_runs) == ("other", 9)
    query = "SELECT actor, before, after FROM rota.audit WHERE action = 'schedule.updated'"
    (row,) = conn.execute(query).fetchall()
    assert (row[0], row[1]["cron"], row[2]["interval_seconds"]) == ("bob", "0 8 * * *", 300)
    with pytest.raises(rota.WrongState, match="has changed"):
        await app.schedules.update("s", every=60, version=made.version)
    again = await app.schedules.update("s", every=300, version=changed.version)
    assert again.version == changed.version
    with pytest.raises(rota.TimingError):
        await app.schedules.update("s", timezone="Nowhere")
    with pytest.raises(rota.ScheduleNotFound) as caught:
        await app.schedules.update("ss", every=60)
    assert caught.value.hint == "did you mean s?"


async def test_list_filters(app: rota.App, conn: Connection) -> None:
    await app.schedules.create("a", "send", every=60, tags=["x"])
    await app.schedules.create("b", "other", every=60, tenant="acme", enabled=False)
    await app.schedules.create("c", "other", init="once")
    conn.execute("UPDATE rota.schedules SET is_system = true WHERE name = 'c'")
    found = app.schedules.list

    async def names(**filters: Any) -> list[str]:
        return [one.name for one in await found(**filters)]

    assert await names() == ["a", "b"]
    assert {"a", "b", "c"} < set(await names(system=True))
    assert await names(job="send") == ["a"]
    (first,) = (await app.schedules.page(limit=1)).items
    rest = await app.schedules.page(after_id=first.id, limit=1)
    assert [one.name for one in rest.items] == ["b"]
    assert await names(tag="x") == ["a"]
    assert await names(tenant="acme") == ["b"]
    assert await names(state="disabled") == ["b"]
    with pytest.raises(rota.WrongState, match="belongs to Rota"):
        await app.schedules.delete("c")


async def test_enable_disable_pause_resume(app: rota.App, conn: Connection) -> None:
    await app.schedules.create("s", "send", every=3600)
    assert await app.schedules.enable("s") is False
    assert await app.schedules.disable("s") is True
    assert await app.schedules.disable("s") is False
    assert (await app.schedules.get("s")).state == "disabled"
    await app.schedules.enable("s")
    await app.schedules.by("ada").pause("s", "migration", timedelta(hours=2))
    paused = await app.schedules.get("s")
    assert (paused.state, paused.paused_by, paused.pause_reason) == ("paused", "ada", "migration")
    assert paused.paused_until is not None
    with pytest.raises(rota.RotaError, match="future"):
        await app.schedules.pause("s", until=NOW - timedelta(days=400))
    assert await app.schedules.resume("s") is True
    assert await app.schedules.resume("s") is False
    await app.schedules.pause("s")
    await app.schedules.resume("s", catch_up=True)
    for command in (app.schedules.enable, app.schedules.pause, app.schedules.resume):
        with pytest.raises(rota.ScheduleNotFound):
            await command("none")
    actions = [action for _, action, _ in audit(conn)]
    assert actions[:4] == [
        "schedule.created", "schedule.disabled", "schedule.enabled", "schedule.paused"
    ]  # fmt: skip


async def test_trigger_and_reschedule(app: rota.App) -> None:
    await app.schedules.create("s", "send", cron="0 0 1 1 *", payload={"user_id": 5})
    await app.schedules.pause("s")
    before = await app.schedules.get("s")
    done = await app.schedules.by("ada").trigger("s")
    run = await app.runs.get(done.run_id)
    assert (run.payload, run.triggered_by["type"]) == ({"user_id": 5}, "manual")
    edited = await app.schedules.trigger("s", {"user_id": 6})
    assert (await app.runs.get(edited.run_id)).payload == {"user_id": 6}
    assert await app.schedules.get("s") == before
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.trigger("none")
    await app.schedules.resume("s")
    await app.schedules.reschedule("s", timedelta(minutes=30))
    moved = await app.schedules.get("s")
    assert moved.moved_to == moved.next_run_at is not None
    (first, second) = await app.schedules.preview("s", count=2)
    assert (first.at, first.note) == (moved.moved_to, "set by an operator")
    assert (second.at.month, second.at.day) == (1, 1)
    # Regular times before it are superseded, so they are not shown.
    await app.schedules.update("s", every=60)
    await app.schedules.reschedule("s", timedelta(minutes=30))
    instant = (await app.schedules.get("s")).moved_to
    assert instant is not None
    rows = await app.schedules.preview("s", count=3)
    assert rows[0].at == instant < rows[1].at
    assert rows[2].at - rows[1].at == timedelta(minutes=1)
    assert len(await app.schedules.preview("s", until=instant - timedelta(minutes=1))) == 0
    with pytest.raises(rota.RotaError, match="future"):
        await app.schedules.reschedule("s", NOW - timedelta(days=400))
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.reschedule("none", timedelta(hours=1))


async def test_delete_can_cancel_what_waits(app: rota.App, conn: Connection) -> None:
    made = await app.schedules.create("s", "send", every=60)
    run = await app.runs.enqueue("send", {"user_id": 1})
    conn.execute("UPDATE rota.open_runs SET schedule_id = %s WHERE id = %s", [made.id, run.id])
    assert await app.schedules.delete("s", cancel_waiting=True) == 1
    assert (await app.runs.get(run.id)).end_reason == "its schedule was deleted"
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.delete("s")


@pytest.mark.usefixtures("frozen")
async def test_preview_of_a_saved_and_an_unsaved_timing(app: rota.App) -> None:
    await app.schedules.create("s", "send", cron="30 2 * * *", timezone="America/New_York")
    after = datetime(2026, 3, 7, 12, tzinfo=UTC)
    rows = await app.schedules.preview("s", after=after, count=2, viewer_zone="Europe/Paris")
    assert "does not exist" in rows[0].note
    assert rows[0].viewer_local is not None
    unsaved = await app.schedules.preview(
        cron="30 2 * * *", timezone="America/New_York", gap="skip", after=after,
        until=after + timedelta(days=2),
    )  # fmt: skip
    assert len(unsaved) == 1
    assert "skipped" in unsaved[0].note
    assert len(await app.schedules.preview(every=60)) == 10
    with pytest.raises(rota.TimingError, match="not both"):
        await app.schedules.preview("s", cron="* * * * *")
    with pytest.raises(rota.TimingError):
        await app.schedules.preview()
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.preview("none")


@pytest.mark.usefixtures("frozen")
async def test_a_calendar_marks_the_preview(app: rota.App) -> None:
    await app.calendars.create("week", {"weekends": True})
    await app.schedules.create("s", "send", cron="0 9 * * *", calendar="week")
    rows = await app.schedules.preview("s", count=7)
    assert [row.is_skipped for row in rows] == [False] * 4 + [True] * 2 + [False]
    await app.schedules.update("s", on_closed="next_day")
    rows = await app.schedules.preview("s", count=7)
    assert "runs at 2026-03-09 09:00" in rows[4].note


@pytest.mark.usefixtures("frozen")
async def test_backfill(app: rota.App, conn: Connection) -> None:
    made = await app.schedules.create(
        "s", "send", cron="0 8 * * *", payload={"user_id": 3}, queue="mail"
    )
    start, end = NOW - timedelta(days=3), NOW
    plan = await app.schedules.backfill("s", start, end, dry_run=True)
    assert [at.day for at in plan.times] == [28, 1, 2]
    assert (plan.run_ids, plan.is_dry_run) == ([], True)
    assert await app.runs.list() == []
    done = await app.schedules.by("ada").backfill("s", start, end, rate=1, priority=9)
    runs = [await app.runs.get(run_id) for run_id in done.run_ids]
    assert [run.scheduled_for for run in runs] == done.times
    assert [run.run_at - runs[0].run_at for run in runs] == [timedelta(minutes=n) for n in range(3)]
    last = runs[-1]
    assert (last.priority, last.queue, last.schedule) == (9, "mail", "s")
    assert last.triggered_by["type"] == "backfill"
    assert last.triggered_by["since"].startswith("2026-03-01T08:00")
    again = await app.schedules.backfill("s", start, end)
    assert (again.times, again.left_out) == ([], 3)
    assert len((await app.schedules.backfill("s", start, end, again=True)).run_ids) == 3
    assert (await app.schedules.get("s")).last_enqueued_at == made.last_enqueued_at
    assert audit(conn)[-1][1] == "schedule.backfilled"


@pytest.mark.usefixtures("frozen")
async def test_a_long_backfill_tells_how_far_it_is(app: rota.App, conn: Connection) -> None:
    """In portions, but as one: all of them or none, one number, one entry in the audit."""
    await app.schedules.create("often", "other", every=60, start_at=NOW - timedelta(days=2))
    told: list[int] = []
    start = NOW - timedelta(minutes=1200) + timedelta(seconds=1)
    done = await app.schedules.backfill("often", start, NOW, rate=60, on_progress=told.append)
    assert (told, len(done.run_ids)) == ([500, 500, 200], 1200)
    rows = conn.execute(
        "SELECT scheduled_for, extract(epoch FROM run_at - min(run_at) OVER ()) FROM rota.runs"
        " ORDER BY id"
    ).fetchall()
    assert [row[0] for row in rows] == done.times
    assert [round(row[1]) for row in rows] == list(range(1200))
    assert conn.execute("SELECT id FROM rota.backfills").fetchall() == [(done.backfill_id,)]
    (entry,) = conn.execute(
        "SELECT after ->> 'runs' FROM rota.audit WHERE action = 'schedule.backfilled'"
    ).fetchall()
    assert entry == ("1200",)


@pytest.mark.usefixtures("frozen")
async def test_bad_backfills(app: rota.App) -> None:
    await app.schedules.create("s", "send", every=1)
    await app.schedules.create("e", "send", every=60, every_from="end")
    await app.schedules.create("i", "send", init="once")
    hour = timedelta(hours=1)
    fill = app.schedules.backfill
    for name, start, end, words in (
        ("s", NOW, NOW - hour, "before it starts"),
        ("s", NOW, NOW + hour, "past"),
        ("s", NOW - 9 * hour, NOW, "more than 10,000"),
        ("e", NOW - hour, NOW, "from the end"),
        ("i", NOW - hour, NOW, "when workers start"),
    ):
        with pytest.raises(rota.TimingError, match=words):
            await fill(name, start, end)
    with pytest.raises(rota.TimingError, match="rate"):
        await fill("s", NOW - hour, NOW, rate=0)
    with pytest.raises(rota.TimingError, match="priority"):
        await fill("s", NOW - hour, NOW, priority=10)
    with pytest.raises(rota.ScheduleNotFound):
        await fill("none", NOW - hour, NOW)
    assert await app.runs.list() == []


@pytest.mark.usefixtures("frozen")
async def test_history_status_and_paging(app: rota.App, clock: Clock, conn: Connection) -> None:
    await app.schedules.create("s", "send", every=60, overlap="allow", catch_up="all")
    async with app.worker():
        clock.advance(180)

        async def done() -> None:
            assert (await app.schedules.get("s")).total_runs == 3

        await rota.testing.eventually(done)
    page = await app.schedules.history("s", limit=2)
    assert [one.decision for one in page] == ["ran", "caught_up"]
    rest = await app.schedules.history("s", before=page[-1].nominal_at)
    assert len(rest) == 1
    assert await app.schedules.history("s", decision="missed") == []
    with pytest.raises(rota.TimingError, match="decision"):
        await app.schedules.history("s", decision="eaten")
    with pytest.raises(rota.ScheduleNotFound):
        await app.schedules.history("none")
    found = await app.schedules.get("s")
    assert (found.success_rate_percent, found.last_run_success) == (100, True)
    assert found.avg_duration_ms is not None
    assert found.max_duration_ms == found.max_duration_ms_7d
    row = conn.execute(
        "SELECT schedules, last_run_success, next_run_at FROM rota.job_status WHERE name = 'send'"
    ).fetchone()
    assert row is not None
    assert row[:2] == (1, True)


async def test_requirements_may_not_go_round(app: rota.App) -> None:
    await app.schedules.create("a", "send", every=60)
    await app.schedules.create("b", "other", every=60, requires=["a", ("send", 3600)])
    assert (await app.schedules.get("b")).requires[1] == {"name": "send", "within_seconds": 3600}
    with pytest.raises(rota.TimingError, match="a → b → a"):
        await app.schedules.update("a", requires=["b"])
    with pytest.raises(rota.TimingError, match="form a cycle"):
        await app.schedules.update("a", requires=["send"])


@pytest.mark.usefixtures("frozen")
async def test_simulate(app: rota.App, conn: Connection) -> None:
    for number in range(6):
        await app.schedules.create(f"n{number}", "send", cron="0 0 * * *")
    slow = await app.schedules.create("slow", "send", every=60)
    await app.schedules.create("fast", "send", every=1)
    await app.schedules.create("off", "send", every=1, enabled=False)
    conn.execute(
        "INSERT INTO rota.schedule_days VALUES (%s, '2026-03-01', 1, 0, 0, 1, 90000, 90000)",
        [slow.id],
    )
    load = await app.schedules.simulate(2)
    assert load.total == 2 * 86_400 + 2 * 1440 + 12
    assert [len(day.hours) for day in load.days] == [24, 24, 24]
    (pile_up,) = load.pile_ups
    assert (pile_up.at, pile_up.count, pile_up.days) == ("00:00", 7, 2)
    (overlap,) = load.overlaps
    assert (overlap.schedule, overlap.gap_seconds, overlap.is_usual) == ("slow", 60, True)
    assert load.suggestions[0].at == "00:00"
    with pytest.raises(rota.TimingError, match="days"):
        await app.schedules.simulate(0)
    with pytest.raises(rota.TimingError, match="Mars"):
        await app.schedules.simulate(1, timezone="Mars/Base")


async def test_templates(app: rota.App) -> None:
    names = {one.name for one in await app.templates.list()}
    assert {"Hourly", "Daily midnight", "Weekdays 9 AM", "Weekly Monday 8 AM"} <= names
    made = await app.schedules.create("s", "send", template="Weekdays 9 AM")
    assert made.cron == "0 9 * * 1-5"
    await app.templates.set("Teatime", "0 17 * * *", "tea")
    await app.templates.remove("Teatime")
    with pytest.raises(rota.TimingError):
        await app.templates.remove("Teatime")
    with pytest.raises(rota.TimingError):
        await app.templates.set("Bad", "17 * *")


async def test_calendars(app: rota.App, conn: Connection) -> None:
    definition = {"timezone": "Europe/Berlin", "holidays": ["2026-12-25"]}
    await app.calendars.by("ada").create("de", definition, "Germany")
    found = await app.calendars.get("de")
    assert found.definition["holidays"] == ["2026-12-25"]
    assert audit(conn)[-1] == ("ada", "calendar.created", "de")
    with pytest.raises(rota.WrongState, match="already exists"):
        await app.calendars.create("de", {})
    await app.calendars.update("de", definition={"weekends": True})
    changed = await app.calendars.get("de")
    assert (changed.definition["weekends"], changed.description) == (["SAT", "SUN"], "Germany")
    await app.schedules.create("s", "send", every=60, calendar="de")
    assert [one.schedules for one in await app.calendars.list()] == [1]
    with pytest.raises(rota.WrongState, match="used by 1 schedule"):
        await app.calendars.delete("de")
    await app.schedules.delete("s")
    await app.calendars.delete("de")
    for command in (app.calendars.get, app.calendars.update, app.calendars.delete):
        with pytest.raises(rota.CalendarNotFound):
            await command("de")
    bad: list[Any] = [{"holidays": ["soon"]}, {"colour": 1}, {"timezone": "Mars"}, []]
    for definition in bad:
        with pytest.raises(rota.TimingError):
            await app.calendars.create("bad", definition)
