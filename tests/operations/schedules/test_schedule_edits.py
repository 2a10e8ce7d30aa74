"""Who changed what of a schedule, taking it back, and what was run beside its times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.errors import AuditEntryNotFound, TimingError, VersionConflict, WrongState
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
async def app(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    await app.schedules.by("grace").create("digest", "send", cron="0 3 * * *", tags=["night"])
    return app


async def test_edits_say_who_changed_what(app: rota.App) -> None:
    ada = app.schedules.by("ada")
    await ada.update("digest", cron="30 2 * * *", jitter=30, reason="the books close at two")
    await ada.pause("digest", "stocktaking")
    paused, updated, created = (await app.schedules.edits("digest")).items

    assert (created.actor, created.action, created.changes) == ("grace", "schedule.created", [])
    assert (updated.actor, updated.reason) == ("ada", "the books close at two")
    changed = {one.field: (one.before, one.after) for one in updated.changes}
    assert changed == {"cron": ("0 3 * * *", "30 2 * * *"), "jitter_seconds": (0, 30)}
    assert (paused.action, paused.can_revert) == ("schedule.paused", False)
    assert updated.can_revert


async def test_an_edit_is_taken_back_by_a_new_one(app: rota.App) -> None:
    ada = app.schedules.by("ada")
    await ada.update("digest", cron="30 2 * * *", jitter=30)
    await ada.update("digest", tags=["morning"])
    _, first, _ = (await app.schedules.edits("digest")).items
    version = (await app.schedules.get("digest")).version

    found = await app.schedules.by("grace").revert("digest", first.id, version=version)

    assert (found.cron, found.jitter_seconds, found.tags) == ("0 3 * * *", 0, ["morning"])
    assert found.version > version
    assert found.next_run_at is not None
    newest = (await app.schedules.edits("digest")).items[0]
    assert (newest.actor, newest.action) == ("grace", "schedule.updated")
    assert newest.reason == f"reverts edit {first.id} of ada"


async def test_a_revert_minds_versions_and_kinds(app: rota.App) -> None:
    await app.schedules.update("digest", every=60)
    edit, created = (await app.schedules.edits("digest")).items
    with pytest.raises(VersionConflict):
        await app.schedules.revert("digest", edit.id, version=1)
    with pytest.raises(WrongState, match="created"):
        await app.schedules.revert("digest", created.id)
    with pytest.raises(AuditEntryNotFound):
        await app.schedules.revert("digest", 999_999)
    # Back to a cron with what was changed since: the whole must still make sense.
    await app.schedules.update("digest", every_from="end")
    with pytest.raises(TimingError, match="every_from"):
        await app.schedules.revert("digest", edit.id)


async def test_what_was_run_by_hand(app: rota.App) -> None:
    now = await app.clock.now()
    triggered = await app.schedules.by("ada").trigger("digest", reason="asked for")
    start = datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(days=3)
    await app.schedules.backfill("digest", start, start + timedelta(days=2), reason="lost")
    backfill, run = (await app.schedules.manual("digest")).items

    assert (run.kind, run.run_id, run.state) == ("triggered", triggered.run_id, "queued")
    assert (run.actor, run.reason) == ("ada", "asked for")
    assert (backfill.kind, backfill.runs, backfill.from_at) == ("backfilled", 2, start)


async def test_a_backfill_names_what_ran_already(app: rota.App) -> None:
    now = await app.clock.now()
    start = datetime(now.year, now.month, now.day, tzinfo=UTC) - timedelta(days=3)
    end = start + timedelta(days=2)
    filled = await app.schedules.backfill("digest", start, start + timedelta(days=1))
    found = await app.schedules.backfill("digest", start, end, dry_run=True)

    assert found.ran == filled.times
    assert found.left_out == len(found.times) == 1
    history = await app.schedules.history("digest", only="backfilled")
    assert history == []


async def test_exceptions_of_the_ledger(app: rota.App, conn: Connection) -> None:
    conn.execute(
        """
        INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant, schedule,
                                 claimed_at, decided_at, run_id)
        SELECT s.id, at, at, CASE WHEN n % 3 = 0 THEN 'skipped' ELSE 'ran' END,
               CASE WHEN n % 3 = 0 THEN 'overlap' END, '', s.name, at, at, CASE WHEN n % 3 > 0 THEN n END
        FROM rota.schedules s, generate_series(1, 9) n, LATERAL (SELECT now() - n * interval '1 hour') AS t (at)
        WHERE s.name = 'digest'
        """  # noqa: E501
    )
    page = await app.schedules.history_page("digest", only="exceptions", limit=2)
    rest = await app.schedules.history_page(
        "digest", only="exceptions", limit=2, cursor=page.cursor
    )

    assert [one.decision for one in page.items] == ["skipped"] * 2
    assert (len(rest.items), rest.cursor) == (1, None)


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({"text": "DIG"}, ["digest"]),
        ({"text": "vienna"}, ["b"]),
        ({"calendar": "austria"}, ["b"]),
        ({"text": "100%"}, []),
        ({"queue": "mail"}, ["b"]),
        ({"queue": "default"}, ["digest"]),
        ({"attention": True}, ["b"]),
    ],
)
async def test_lists_by_text_and_calendar(
    app: rota.App, conn: Connection, filters: dict[str, Any], names: list[str]
) -> None:
    await app.calendars.create("austria", {"holidays": ["2026-10-26"]})
    await app.schedules.create(
        "b", "send", every=60, calendar="austria", timezone="Europe/Vienna", enabled=False,
        queue="mail",
    )  # fmt: skip
    Engine(conn).set_schedule_state("b", parked_at="now", error="x")
    assert [one.name for one in await app.schedules.list(**filters)] == names
    page = await app.schedules.page(order="next", **filters)
    assert [one.name for one in page.items] == names
    assert sum((await app.schedules.counts(**filters)).values()) == len(names)
    assert await app.schedules.counts() == {"active": 1, "parked": 1}
