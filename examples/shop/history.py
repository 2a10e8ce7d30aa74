"""Generates the last three days of the shop's history, as its jobs would have left it.

It is busiest at this time of the day, so that a chart of the last hour looks like the next one.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from app import PRICES, REPORT_SECONDS, read_feed
from orders import Orders
from past import Book, Line, Passed, Past, Teller, Try, error_of

import rota

DAYS = 3
TICK = timedelta(milliseconds=1)
WORKERS = """
INSERT INTO rota.workers (name, host, pid, version, concurrency, state, lease_seconds, started_at,
                          heartbeat_at, lease_expires_at, ended_at, application)
SELECT 'shop-1:4711', 'shop-1', 4711, '0.1.0', 8, 'gone', 30, %(since)s, %(now)s, %(now)s, %(now)s,
       'shop'
RETURNING id
"""
AFTERWARDS = Path(__file__).with_name("history.sql")


async def make(app: rota.App, conn: Any) -> None:
    now = await app.clock.now()
    since = now - timedelta(days=DAYS)
    cursor = await conn.execute("SELECT name, id FROM rota.schedules")
    schedules = dict(await cursor.fetchall())
    async with conn.transaction():
        await conn.execute("SELECT rota.ensure_partitions(%s, %s)", [since, now])
        cursor = await conn.execute(WORKERS, {"since": since, "now": now})
        (worker,) = await cursor.fetchone()
        book = Book(worker, schedules)
        Orders(book, since, now).tell()
        await _keep_schedules(app, book, since, now)
        await book.write(conn)
        await conn.execute(AFTERWARDS.read_text())


async def _keep_schedules(app: rota.App, book: Book, since: datetime, now: datetime) -> None:
    ticks = Ticks(book, since, now)
    for seconds, name, tell in (
        (300, "sales-so-far", ticks.report),
        (300, "stock-check", ticks.stock_check),
    ):
        # Counted back from now, because the interval continues from now.
        for n in range(1, int((now - since).total_seconds() // seconds)):
            tell(name, now - timedelta(seconds=n * seconds))
    for name, tell in (
        ("evening-report", ticks.report),
        ("price-list", ticks.price_list),
        ("old-orders", ticks.old_orders),
        ("newsletter", ticks.newsletter),
    ):
        for row in await app.schedules.preview(name, after=since, until=now):
            if row.is_skipped:
                book.passed.append(Passed(name, row.at, "skipped", "calendar"))
            else:
                tell(name, row.at)


class Ticks(Teller):
    """Runs of schedules; each method takes the schedule's name and the nominal time."""

    def report(self, name: str, at: datetime) -> None:
        step = self.luck.uniform(0.7, 1.3) * REPORT_SECONDS / len(PRICES)
        lines = [
            Line(
                n * step,
                "info",
                "counted",
                {"product": product, "orders": self.luck.randint(50, 400)},
            )
            for n, product in enumerate(PRICES, start=1)
        ]
        self.add(
            Past(
                "nightly_report",
                "reports",
                at + TICK,
                {},
                [Try(self.soon(at), len(PRICES) * step + 0.01, lines=lines)],
                max_attempts=2,
                occurrence=(name, at),
                progress=1.0,
                message=f"counted {list(PRICES)[-1]}",
            )
        )

    def stock_check(self, name: str, at: datetime) -> None:
        low = self.luck.choice([0, 0, 0, 1, 2])
        lines = [
            Line(0.001, "warning", f"only {self.luck.randint(0, 4)} left of {product}")
            for product in self.luck.sample(list(PRICES), low)
        ]
        lines.append(Line(0.002, "info", "stock checked"))
        self.add(
            Past(
                "check_stock",
                "default",
                at + TICK,
                {"least": 5},
                [Try(self.soon(at), self.luck.uniform(0.003, 0.02), lines=lines)],
                occurrence=(name, at),
                message=f"{low} products are low",
                details={"low": low},
            )
        )

    def price_list(self, name: str, at: datetime) -> None:
        """The feed broke twelve hours ago; for one hour of the day before, no worker ran."""
        age = self.now - at
        if timedelta(hours=30) < age < timedelta(hours=31):
            self.book.passed.append(Passed(name, at, "missed", "policy none"))
            return
        is_bad = self.luck.random() < (0.6 if age < timedelta(hours=12) else 0.04)
        tries, started = [], self.soon(at)
        for _ in range(2 if is_bad else 1):
            error = error_of(read_feed, 0.0 if is_bad else 1.0)
            lines = [Line(0.001, "info", "price list asked for", {"feed": "spring"})]
            if error:
                lines.append(
                    Line(
                        0.2,
                        "error",
                        f"{error[0]}: {error[1]}",
                        {"error_type": error[0], "exception": error[2]},
                    )
                )
            tries.append(
                Try(
                    started,
                    self.luck.uniform(0.2, 0.6),
                    "failed" if error else "succeeded",
                    error,
                    lines,
                )
            )
            started = tries[-1].finished_at + timedelta(seconds=5)
        self.add(
            Past(
                "import_prices",
                "supplier",
                at + TICK,
                {"feed": "spring"},
                tries,
                max_attempts=2,
                tags=["warehouse"],
                occurrence=(name, at),
                end_reason="attempts used up" if is_bad else None,
            )
        )

    def old_orders(self, name: str, at: datetime) -> None:
        closed = self.luck.randint(3, 30)
        self.add(
            Past(
                "close_old_orders",
                "default",
                at + TICK,
                {"days": 30},
                [Try(self.soon(at), 0.05)],
                occurrence=(name, at),
                message=f"{closed} orders closed",
                details={"closed": closed},
            )
        )

    def newsletter(self, name: str, at: datetime) -> None:
        sent = Line(0.05, "info", "newsletter sent", {"to": "everybody"})
        self.add(
            Past(
                "send_newsletter",
                "newsletter",
                at + TICK,
                {"to": "everybody"},
                [Try(self.soon(at), 0.06, lines=[sent])],
                priority=8,
                tags=["marketing"],
                occurrence=(name, at),
            )
        )
