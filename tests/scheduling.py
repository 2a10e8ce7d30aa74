"""Schedules as short calls: written by plain SQL, ticked by the real scheduler."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from rota.engine.loops.scheduler import Scheduler
from rota.postgres.sessions.pool import Database
from tests.sql_engine import Engine, Row

START = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)  # a Monday


class Interrupted(Scheduler):
    """Lets something happen between what a tick reads and what it writes."""

    between: Callable[[], object] | None = None

    async def _write(self, conn: Any, ticks: Any) -> None:
        if self.between is not None:
            between, self.between = self.between, None
            between()
        await super()._write(conn, ticks)


class Schedules:
    """The clock stands at START when it begins, and goes on from where it is put."""

    def __init__(self, engine: Engine, database: Database) -> None:
        self.engine = engine
        self.ticker = Interrupted(database, tick_seconds=15, random_number=lambda: 0.5)
        self.set_clock(START)
        engine.rows("UPDATE rota.schedules SET is_enabled = false WHERE is_system")
        # As upkeep does in time that passes by itself.
        engine.one("SELECT rota.ensure_partitions(%s, %s)", START, START)

    def set_clock(self, at: datetime) -> None:
        self.engine.one("SELECT rota.set_clock(%s)", at)

    def add(self, name: str = "s", job: str = "work", **columns: Any) -> str:
        """Every minute from START on, unless said otherwise."""
        if not {"cron", "run_at", "interval_seconds"} & columns.keys():
            columns |= {"interval_seconds": 60, "anchor_at": START}
        cursor_at = columns.pop("cursor_at", None)
        self.engine._insert("schedules", {"name": name, "job": job, **columns})
        if cursor_at is not None:
            self.set_state(name, cursor_at=cursor_at)
        return name

    def set_state(self, name: str = "s", **columns: Any) -> None:
        """As a tick or the end of a run would; everything else is an edit."""
        self.engine.set_schedule_state(name, **columns)

    def update(self, name: str = "s", **columns: Any) -> None:
        named = ", ".join(f"{column} = %s" for column in columns)
        self.engine.rows(
            f"UPDATE rota.schedules SET {named} WHERE name = %s", *columns.values(), name
        )

    def call(self, function: str, *args: Any, **named: Any) -> Any:
        given = ["%s"] * len(args) + [f"{name} => %s" for name in named]
        query = f"SELECT rota.{function}({', '.join(given)})"
        return self.engine.one(query, *args, *named.values())

    async def tick(self, *, seconds: float | None = None) -> None:
        """At so many seconds after START; goes on while there is something due."""
        if seconds is not None:
            self.set_clock(START + timedelta(seconds=seconds))
        while await self.ticker.tick():
            pass

    def row(self, name: str = "s") -> Row:
        """What it says and where it stands: next_run_at is the one of the state."""
        (row,) = self.engine.rows(
            "SELECT s.*, t.* FROM rota.schedules s JOIN rota.schedule_state t"
            " ON t.schedule_id = s.id WHERE s.name = %s", name,
        )  # fmt: skip
        return row

    def ledger(self, name: str = "s") -> list[Row]:
        return self.engine.rows(
            "SELECT * FROM rota.occurrences WHERE schedule = %s ORDER BY nominal_at", name
        )

    def words(self, name: str = "s") -> list[tuple[str, str | None, int]]:
        return [(row["decision"], row["reason"], row["count"]) for row in self.ledger(name)]

    def times(self, name: str = "s") -> list[float]:
        """The nominal times of the ledger in seconds after START."""
        return [(row["nominal_at"] - START).total_seconds() for row in self.ledger(name)]

    def runs(self, name: str = "s") -> list[Row]:
        """By their numbers, that is in the order in which they were enqueued."""
        return self.engine.rows("SELECT * FROM rota.runs WHERE schedule = %s ORDER BY id", name)
