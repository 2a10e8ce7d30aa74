"""Tickers that die in the middle, and hosts whose clocks are wrong. Real processes."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from rota.testing import eventually_sync
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

pytestmark = pytest.mark.chaos

APP = "tests.apps.ticking:app"
StartWorker = Callable[..., WorkerProcess]


def add(engine: Engine, **columns: object) -> None:
    cursor_at = columns.pop("cursor_at", None)
    engine._insert("schedules", {"name": "s", "job": "work", **columns})
    if cursor_at is not None:
        engine.set_schedule_state("s", cursor_at=cursor_at)


def rows(engine: Engine) -> list[dict[str, object]]:
    return engine.rows("SELECT * FROM rota.occurrences WHERE schedule = 's' ORDER BY nominal_at")


def test_a_worker_killed_between_what_the_tick_reads_and_what_it_writes(
    engine: Engine, worker_process: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.job("work")
    add(engine, cron="0 0 1 1 *", cursor_at="2020-06-01 00:00Z", catch_up_window_seconds=1e9)
    monkeypatch.setenv("ROTA_CHAOS", "before the write")
    victim = worker_process(APP, wait=False)
    assert victim.wait() == -signal.SIGKILL
    # It held the schedule for a moment, and wrote nothing.
    assert engine.one(
        "SELECT count(*) = 1 FROM rota.schedule_holds h JOIN rota.schedule_state t"
        " ON t.due_at BETWEEN h.first_due AND h.last_due JOIN rota.schedules s"
        " ON s.id = t.schedule_id WHERE s.name = 's' AND h.until > now()"
    )
    assert rows(engine) == []
    assert engine.rows("SELECT 1 FROM rota.runs WHERE schedule = 's'") == []
    monkeypatch.delenv("ROTA_CHAOS")
    # The next worker waits for the end of the hold and decides it.
    worker_process(APP)
    eventually_sync(lambda: [row["decision"] for row in rows(engine)] == ["skipped", "caught_up"])
    assert len(engine.rows("SELECT 1 FROM rota.runs WHERE schedule = 's'")) == 1


def test_a_host_whose_clock_is_an_hour_off_changes_nothing(
    engine: Engine, worker_process: StartWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its own clock the second schedule is due, by the database's it is not."""
    engine.job("work")
    monkeypatch.setenv("ROTA_CHAOS", "an hour ahead")
    worker = worker_process(APP)
    add(engine, interval_seconds=1)
    engine._insert("schedules", {"name": "later", "job": "work", "interval_seconds": 1800})
    eventually_sync(lambda: len([row for row in rows(engine) if row["success"]]) >= 3)
    assert engine.rows("SELECT 1 FROM rota.ledger WHERE schedule = 'later'") == []
    found = rows(engine)
    assert {row["decision"] for row in found} <= {"ran", "skipped"}
    assert all(abs(float(str(row["lateness_ms"] or 0))) < 60_000 for row in found)
    assert engine.one(
        "SELECT bool_and(o.decided_at BETWEEN o.nominal_at AND now()) FROM rota.occurrences o"
        " WHERE o.schedule = 's'"
    )
    worker.kill()
