"""Creates the shop's tables, its SQL jobs, its schedules, and some days of history.

It can be repeated safely; the history is created only if Rota has no runs yet. With `--ready N`,
it writes to file descriptor N when everything is ready.
"""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import history
from app import CUSTOMERS, app, import_prices, open_shop, send_newsletter, start_sale

import rota

HERE = Path(__file__).parent
HOLIDAYS = {
    "timezone": "Europe/Berlin",
    "weekends": True,
    "holidays": ["2026-12-25", "2026-12-26", "2027-01-01", "2027-12-25", "2027-12-26"],
}


async def main() -> None:
    server = app.config.server
    token = os.environ.get("ROTA_DEV_TOKEN")
    link = f"/?token={token}" if token and server.token is None else ""
    print(f"dashboard: http://{server.host}:{server.port}{link} (in a few seconds)", flush=True)
    app.migrate()
    async with app, app.database.connection() as conn:
        is_new = await _is_new(conn)
        for name in ("schema.sql", "sql_jobs.sql"):
            await conn.execute((HERE / name).read_text())
        if is_new:
            await _plan()
            await history.make(app, conn)
            await _leave_work()
        run = await open_shop.options(key="shop").enqueue()
        print(f"the shop opens with run {run.id}" + (" (already open)" * run.is_duplicate))
        # While the database is still open, so that `rota dev` finds the server running.
        _tell()


def _tell() -> None:
    if "--ready" in sys.argv:
        os.write(int(sys.argv[-1]), b"!")


async def _is_new(conn: Any) -> bool:
    cursor = await conn.execute("SELECT NOT EXISTS (SELECT FROM rota.runs)")
    (is_new,) = await cursor.fetchone()
    return bool(is_new)


async def _plan() -> None:
    """Creates the schedules that need a calendar or a date, and are therefore not in the code."""
    now = await app.clock.now()
    grace = app.schedules.by("grace")
    tenants = app.tenants.by("grace")
    await tenants.set("north", weight=2, description="The branch in Vienna, twice as large.")
    await tenants.set("south", description="The branch in Graz.")
    await app.calendars.by("grace").create("shop-days", HOLIDAYS, "When the shop is open.")
    await grace.create(
        "newsletter",
        send_newsletter.name,
        cron="30 8 * * *",
        timezone="America/New_York",
        calendar="shop-days",
        payload={"to": "everybody"},
        description="Only on days when the shop is open.",
        tags=["marketing"],
    )
    await grace.create(
        "spring-sale", start_sale.name, at=now + timedelta(days=2), payload={"percent": 25}
    )
    await grace.create(
        "autumn-prices", import_prices.name, cron="0 6 * * 1", payload={"feed": "autumn"}
    )
    await grace.pause("autumn-prices", "the supplier has no autumn list yet")


async def _leave_work() -> None:
    """Leaves a running report, and a paused queue with waiting runs that needs attention."""
    await app.schedules.by("grace").trigger("sales-so-far", reason="for the meeting")
    await app.queues.by("grace").pause("newsletter", "the mail provider is down, back at noon")
    await app.enqueue_many(
        send_newsletter.options(tenant="north").call(to=name) for name in CUSTOMERS
    )


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except rota.RotaError as error:
        raise SystemExit(f"the shop cannot open: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
