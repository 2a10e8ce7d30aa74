"""Whoever triggers a schedule, and however: the run belongs to the schedule, and takes none of its
times. Backfills are shown beside the decision of then, with their state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.api import create_api
from rota.cli.main import run as run_command
from rota.testing import eventually
from rota.web import create_site
from tests.api.conftest import client_of
from tests.conftest import MakeApp
from tests.web.conftest import browser_of

Connection = psycopg.Connection[tuple[Any, ...]]
TOKEN = "a token for tests"
V1 = "/api/v1"


class Shop:
    """A schedule whose job tells what it saw."""

    def __init__(self, app: rota.App, conn: Connection) -> None:
        self.app, self.conn = app, conn
        self.seen: list[rota.Context] = []

    async def by_sql(self) -> None:
        self.conn.execute("SELECT rota.trigger_schedule('s')")

    async def by_python(self) -> None:
        await self.app.schedules.trigger("s")

    async def by_sync_python(self) -> None:
        await asyncio.to_thread(self.app.schedules.sync.trigger, "s")

    async def by_command(self) -> None:
        assert await asyncio.to_thread(run_command, ["schedules", "trigger", "s"]) == 0

    async def by_api(self) -> None:
        async with client_of(create_api(self.app), Authorization=f"Bearer {TOKEN}") as api:
            answer = await api.post(f"{V1}/schedules/s/trigger")
            assert answer.status_code == 201, answer.text

    async def by_page(self) -> None:
        web = browser_of(create_site(self.app))
        async with web.client:
            await web.get("/sign-in")
            await web.post("/sign-in", token=TOKEN, next="/queues")
            await web.get("/schedules/s/trigger")
            await web.post("/schedules/s/trigger", payload='{"n": 3}')

    async def by_retry(self) -> None:
        """Triggered, cancelled, and retried: still the schedule's."""
        done = await self.app.schedules.trigger("s")
        await self.app.runs.cancel(done.run_id)
        await self.app.runs.retry(done.run_id)


WAYS = [name for name in vars(Shop) if name.startswith("by_")]


@pytest.fixture
async def shop(
    make_app: MakeApp, conn: Connection, app_url: str, monkeypatch: pytest.MonkeyPatch
) -> Shop:
    monkeypatch.setenv("ROTA_DATABASE_URL", app_url)
    app = make_app(**{"server.token": TOKEN, "scheduler.enabled": False})
    shop = Shop(app, conn)

    @app.job
    async def work(ctx: rota.Context, n: int) -> None:
        shop.seen.append(ctx)

    await app.schedules.create("s", "work", every=86_400, payload={"n": 3})
    return shop


@pytest.mark.parametrize("way", WAYS)
async def test_the_run_belongs_to_the_schedule(shop: Shop, way: str) -> None:
    app = shop.app
    before = await app.schedules.get("s")
    call: Callable[[], Awaitable[None]] = getattr(shop, way)
    await call()
    (listed,) = await app.runs.list(schedule="s", states=["queued"])
    assert (listed.schedule, listed.scheduled_for) == ("s", None)
    unfinished = "SELECT count(*) FROM rota.open_runs WHERE schedule_id = %s"
    assert shop.conn.execute(unfinished, [before.id]).fetchone() == (1,), "overlap counts it"
    async with app.worker():
        await eventually(lambda: len(shop.seen) == 1)
        await eventually(lambda: _total(shop) >= 1)
    (ctx,) = shop.seen
    assert (ctx.schedule, ctx.scheduled_for, ctx.is_catch_up) == ("s", None, False)
    assert ctx.triggered_by["type"] == "manual"
    after = await app.schedules.get("s")
    assert (after.last_run_success, after.last_success_at is not None) == (True, True)
    assert (after.next_run_at, after.run_count) == (before.next_run_at, 0)
    assert await app.schedules.history("s") == [], "no nominal time was decided"
    manual = (await app.schedules.manual("s")).items
    assert [(one.kind, one.run_id, one.state) for one in manual] == [
        ("triggered", listed.id, "succeeded")
    ]


def _total(shop: Shop) -> int:
    query = "SELECT total_runs FROM rota.schedule_status WHERE name = 's' AND last_run_success"
    row = shop.conn.execute(query).fetchone()
    return row[0] if row else 0


async def test_every_list_shows_it(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    await shop.by_sql()
    (row,) = shop.conn.execute("SELECT id, schedule FROM rota.runs").fetchall()
    assert row[1] == "s"
    capsys.readouterr()
    await asyncio.to_thread(run_command, ["runs", "list", "--schedule", "s"])
    assert f"{row[0]} " in capsys.readouterr().out
    await asyncio.to_thread(run_command, ["schedules", "history", "s"])
    assert "triggered" in capsys.readouterr().out
    async with client_of(create_api(shop.app), Authorization=f"Bearer {TOKEN}") as api:
        found = (await api.get(f"{V1}/runs", params={"schedule": "s"})).json()["items"]
        assert [one["id"] for one in found] == [row[0]]
        manual = (await api.get(f"{V1}/schedules/s/manual")).json()["items"]
        assert [one["run_id"] for one in manual] == [row[0]]
    web = browser_of(create_site(shop.app))
    async with web.client:
        await web.get("/sign-in")
        await web.post("/sign-in", token=TOKEN, next="/queues")
        await web.get("/runs?schedule=s")
        assert f'href="/runs/{row[0]}"' in web.page
        await web.get("/schedules/s")
        assert f"ran it: {row[0]} queued" in web.text


async def test_a_backfill_is_shown_beside_the_decision_of_then(
    shop: Shop, capsys: pytest.CaptureFixture[str]
) -> None:
    app, conn = shop.app, shop.conn
    at = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)
    conn.execute("SELECT rota.ensure_ledger(ARRAY[%s])", [at])
    conn.execute(
        "INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, reason, tenant,"
        " schedule, claimed_at, decided_at)"
        " SELECT id, %(at)s, %(at)s, 'missed', 'window', '', 's', %(at)s, %(at)s"
        " FROM rota.schedules WHERE name = 's'",
        {"at": at},
    )
    await app.schedules.update("s", start_at=at)
    done = await app.schedules.backfill("s", at, at)
    (number,) = done.run_ids

    async def state() -> str | None:
        (one,) = await app.schedules.history("s")
        assert (one.decision, one.run_id, one.backfill_run_id) == ("missed", None, number)
        (same,) = await app.schedules.history("s", only="backfilled")
        (oldest,) = await app.schedules.history("s", order="oldest")
        assert same == oldest == one
        return one.backfill_state

    assert await state() == "queued"
    await app.runs.cancel(number)
    assert await state() == "cancelled"
    capsys.readouterr()
    await asyncio.to_thread(run_command, ["schedules", "history", "s"])
    assert f"backfilled by run {number} (cancelled)" in capsys.readouterr().out
    async with client_of(create_api(app), Authorization=f"Bearer {TOKEN}") as api:
        (one,) = (await api.get(f"{V1}/schedules/s/occurrences")).json()["items"]
        assert (one["backfill_run_id"], one["backfill_state"]) == (number, "cancelled")
    web = browser_of(create_site(app))
    async with web.client:
        await web.get("/sign-in")
        await web.post("/sign-in", token=TOKEN, next="/queues")
        await web.get("/schedules/s")
        assert f"{number} backfilled cancelled" in web.text
    await app.runs.delete(number)
    assert await state() is None, "retention deletes runs, and the ledger outlives them"
