"""One schedule for each of many tenants, put by code."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import MakeApp

MANY = 10_000


def stored(conn: psycopg.Connection[Any]) -> list[Any]:
    return conn.execute(
        "SELECT count(*), count(DISTINCT tenant), count(t.next_run_at), max(version)"
        " FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id"
        " WHERE name = 'sync'"
    ).fetchall()


@pytest.mark.slow
def test_ten_thousand_tenants(make_app: MakeApp, conn: psycopg.Connection[Any]) -> None:
    tenants = [f"tenant-{n:05}" for n in range(MANY)]

    def start(every: int) -> float:
        app = make_app()

        @app.job
        async def fetch() -> None: ...

        app.schedule("sync", fetch, every=every, tenants=tenants)
        began = time.monotonic()
        app.database.open_sync()
        took = time.monotonic() - began
        app.close_sync()
        return took

    first, again, other = start(300), start(300), start(600)
    print(f"{MANY:,} schedules: {first:.2f} s first, {again:.2f} s unchanged, {other:.2f} s edited")
    assert stored(conn) == [(MANY, MANY, MANY, 2)]
    written = conn.execute("SELECT action, count(*) FROM rota.audit GROUP BY 1 ORDER BY 1")
    assert dict(written.fetchall())["schedule.created"] == MANY


async def test_equal_and_different_ones(app: rota.App, conn: psycopg.Connection[Any]) -> None:
    @app.job
    async def fetch(n: int = 0) -> None: ...

    app.schedule("sync", fetch, cron="@daily", tenants=["acme", "blue"])
    app.schedule("sync", fetch, cron="@hourly", payload={"n": 1})
    app.tenant("red").schedule("sync", fetch, every=60)
    await app.database.open()
    found = conn.execute("SELECT tenant, cron FROM rota.schedules WHERE name = 'sync' ORDER BY 1")
    assert found.fetchall() == [
        ("", "@hourly"), ("acme", "@daily"), ("blue", "@daily"), ("red", None),
    ]  # fmt: skip
    assert stored(conn) == [(4, 4, 4, 1)]
    app.schedule("sync", fetch, cron="@weekly", tenants=["acme", "new"])
    rows = {one.tenant: one for one in await app.schedules.list(text="sync")}
    assert {name for name, one in rows.items() if one.cron == "@weekly"} == {"acme", "new"}
    assert all(one.next_run_at for one in rows.values())


async def test_what_an_operator_changed_stays(app: rota.App) -> None:
    @app.job
    async def fetch() -> None: ...

    app.schedule("sync", fetch, every=300, tenants=["acme", "blue"])
    await app.schedules.update("sync", tenant="acme", every=900)
    app.schedule("sync", fetch, every=300, description="ours", tenants=["acme", "blue"])
    acme, blue = await app.schedules.list(text="sync")
    assert (acme.interval_seconds, acme.description) == (900, "ours")
    assert (blue.interval_seconds, blue.description) == (300, "ours")


def test_refusals(app: rota.App) -> None:
    @app.job
    async def fetch() -> None: ...

    with pytest.raises(rota.TimingError, match="tenant and tenants cannot be combined"):
        app.schedule("sync", fetch, every=300, tenant="a", tenants=["b"])
    with pytest.raises(rota.InputError, match="must not contain a slash"):
        app.schedule("sync", fetch, every=300, tenants=["a/b"])
