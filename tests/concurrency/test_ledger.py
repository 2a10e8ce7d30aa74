"""Schedules against a model in Python: whatever is done to them, and whatever the clock does, every
nominal time is in exactly one row of the ledger, and no run is without its row."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

import rota
from tests.conftest import load_config
from tests.database import Server
from tests.depth import examples
from tests.scheduling import START, Schedules
from tests.sql_engine import Engine

MINUTE = timedelta(minutes=1)
STEPS = 30
FORTH = 400  # the most that the clock goes on in a step, in minutes
# Wall clocks in UTC, every so many minutes of the hour, as cron and by arithmetic.
EVERY = (5, 7, 10, 30)
CRON = {every: f"*/{every} * * * *" for every in EVERY}


@dataclass
class Model:
    """What must be in the ledger: by definition, not by the way the tick goes about it."""

    every: int
    cursor: datetime
    # Until when which timing was in force, as it was when the cursor had not come so far.
    past: list[tuple[datetime, int]] = field(default_factory=list)
    moved_to: datetime | None = None
    owed: set[datetime] = field(default_factory=set)

    def goes_on(self, clock: datetime) -> None:
        """From now on times count again. An instant that was set still holds."""
        if clock > self.cursor:
            self.past.append((clock, self.every))

    def changed(self, clock: datetime, every: int) -> None:
        """From now on times come by another timing."""
        self.goes_on(clock)
        self.every = every
        self.moved_to = None

    def ticked(self, clock: datetime) -> None:
        if self.moved_to is not None and self.moved_to > clock:
            # Nothing but what was in force before is decided until then.
            self._decide(min(clock, max([self.cursor, *[until for until, _ in self.past]])))
        else:
            if self.moved_to is not None:
                self.owed.add(self.moved_to)
            self._decide(clock)
            self.moved_to = None
        self.past = []

    def _decide(self, until: datetime) -> None:
        minute = self.cursor.replace(second=0, microsecond=0) + MINUTE
        while minute <= until:
            in_force = next((every for end, every in self.past if end >= minute), self.every)
            if minute.minute % in_force == 0:
                self.owed.add(minute)
            minute += MINUTE
        self.cursor = max(self.cursor, until)


class Ledger(RuleBasedStateMachine):
    schedules: ClassVar[Schedules]
    runner: ClassVar[asyncio.Runner]

    @initialize(
        every=st.sampled_from(EVERY),
        catch_up=st.sampled_from(["none", "latest", "all"]),
        overlap=st.sampled_from(["skip", "queue_one", "queue_all", "allow"]),
    )
    def begin(self, every: int, catch_up: str, overlap: str) -> None:
        # Not TRUNCATE: it writes new files for every partition that the clock has made.
        for table in ("open_runs", "ended_runs", "ledger", "audit"):
            self.schedules.engine.rows(f"DELETE FROM rota.{table}")
        self.schedules.engine.rows("DELETE FROM rota.schedules WHERE NOT is_system")
        self.at = START + timedelta(seconds=30)
        self.put_clock()
        self.schedules.add(
            cron=CRON[every], catch_up=catch_up, overlap=overlap, catch_up_limit=5,
            catch_up_window_seconds=7200,
        )  # fmt: skip
        self.model = Model(every, self.at)
        self.is_enabled = True
        self.paused_until: datetime | None = None
        self.is_paused = False

    def put_clock(self) -> None:
        """Half past a minute, so that the time a call takes does not matter."""
        self.schedules.set_clock(self.at)

    # The clock.

    @rule(minutes=st.integers(1, FORTH))
    def go_on(self, minutes: int) -> None:
        self.at += minutes * MINUTE
        self.put_clock()

    @rule(minutes=st.integers(1, 90))
    def step_back(self, minutes: int) -> None:
        self.at = max(self.at - minutes * MINUTE, START + timedelta(seconds=30))
        self.put_clock()

    @rule()
    def tick(self) -> None:
        self.put_clock()
        self.runner.run(self.schedules.tick())
        if not self.is_enabled:
            return
        if self.is_paused:
            if self.paused_until is None or self.paused_until > self.at:
                return
            # The stretch of the pause is decided, also where the next time was moved meanwhile.
            if self.paused_until > self.model.cursor:
                self.model.past.append((self.paused_until, self.model.every))
            self.is_paused, self.paused_until = False, None
        self.model.ticked(self.at)

    # What people do.

    @rule(every=st.sampled_from(EVERY))
    def edit(self, every: int) -> None:
        self.put_clock()
        self.schedules.update(cron=CRON[every])
        if every != self.model.every:
            self.model.changed(self.at, every)

    @rule()
    def edit_something_else(self) -> None:
        self.schedules.update(payload='{"a": 1}')

    @rule()
    def disable(self) -> None:
        self.schedules.call("disable_schedule", "s")
        self.is_enabled = False

    @precondition(lambda self: not self.is_enabled)
    @rule()
    def enable(self) -> None:
        self.put_clock()
        self.schedules.call("enable_schedule", "s")
        self.is_enabled = True
        self.model.goes_on(self.at)

    @rule(minutes=st.one_of(st.none(), st.integers(1, 120)))
    def pause(self, minutes: int | None) -> None:
        self.put_clock()
        self.paused_until = None if minutes is None else self.at + minutes * MINUTE
        self.schedules.call("pause_schedule", "s", until=self.paused_until)
        self.is_paused = True

    @precondition(lambda self: self.is_paused)
    @rule(catch_up=st.booleans())
    def resume(self, catch_up: bool) -> None:
        self.put_clock()
        self.schedules.call("resume_schedule", "s", catch_up)
        self.is_paused, self.paused_until = False, None
        if not catch_up:
            self.model.goes_on(self.at)

    @rule()
    def trigger(self) -> None:
        self.schedules.call("trigger_schedule", "s")

    @rule(minutes=st.integers(0, 60), by_hand=st.booleans())
    def reschedule(self, minutes: int, by_hand: bool) -> None:
        """Also while it is paused or disabled; a plain UPDATE says the same."""
        self.put_clock()
        # Off the minute: an instant of its own.
        wanted = self.at + minutes * MINUTE + timedelta(seconds=15)
        if by_hand:
            self.schedules.update(next_run_at=wanted)
        else:
            self.schedules.call("reschedule", "s", wanted)
        self.model.moved_to = self.schedules.row()["moved_to"]
        assert self.model.moved_to is not None

    @rule()
    def compute_anew(self) -> None:
        self.schedules.update(next_run_at=None)
        self.model.moved_to = None

    @rule(count=st.integers(1, 5))
    def run(self, count: int) -> None:
        worker = self.schedules.engine.worker()
        claims = self.schedules.engine.claim(worker, count)
        if claims:
            self.schedules.engine.succeed(worker, *claims)

    # What holds at all times.

    @invariant()
    def every_time_is_decided_once(self) -> None:
        if not hasattr(self, "model"):
            return
        rows = self.schedules.ledger()
        times = self.times_of(rows)
        assert len(times) == len(set(times)), "a time has two decisions"
        assert set(times) == self.model.owed

    def times_of(self, rows: list[dict[str, Any]]) -> list[datetime]:
        """Each time of each row: a span holds those of the model between its ends."""
        found: list[datetime] = []
        for row in rows:
            first, last = row["nominal_at"].astimezone(UTC), row["through_at"].astimezone(UTC)
            inside = [at for at in self.model.owed if first <= at <= last]
            if row["count"] == 1:
                found.append(first)
                continue
            # A rescheduled instant that lies within has a row of its own.
            regular = [at for at in inside if at.second == 0]
            assert len(regular) == row["count"], row
            found += regular
        return found

    @invariant()
    def runs_and_rows_belong_together(self) -> None:
        engine = self.schedules.engine
        assert not engine.one(
            "SELECT count(*) FROM rota.ledger l FULL JOIN"
            " (SELECT * FROM rota.runs WHERE scheduled_for IS NOT NULL) r ON r.id = l.run_id"
            " AND r.scheduled_for = l.nominal_at"
            " WHERE (l.run_id IS NULL AND l.decision IN ('ran', 'caught_up'))"
            " OR (r.id IS NULL AND l.run_id IS NOT NULL) OR (l.schedule_id IS NULL)"
        )
        assert not engine.one(
            "SELECT count(*) FROM rota.schedule_state WHERE parked_at IS NOT NULL"
        )

    @invariant()
    def what_is_held_has_something_to_wait_for(self) -> None:
        engine = self.schedules.engine
        held = engine.one("SELECT count(*) FROM rota.open_runs WHERE held_by IS NOT NULL")
        free = engine.one(
            "SELECT count(*) FROM rota.open_runs WHERE held_by IS NULL AND schedule_id IS NOT NULL"
        )
        assert not held or free


@pytest.fixture
def machine(server: Server) -> Iterator[type[Ledger]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        engine.job("work")
        app = rota.App(config=load_config(url, {}))
        with asyncio.Runner() as runner:
            runner.run(app.database.open())
            Ledger.schedules, Ledger.runner = Schedules(engine, app.database), runner
            farthest = START + STEPS * FORTH * MINUTE
            engine.one("SELECT rota.ensure_partitions(%s, %s)", START, farthest)
            yield Ledger
            runner.run(app.close())


@pytest.mark.slow
def test_the_ledger_is_gapless_and_single(machine: type[Ledger]) -> None:
    test = machine.TestCase()
    test.settings = settings(
        max_examples=examples(usual=50, deep=200),
        stateful_step_count=STEPS,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
