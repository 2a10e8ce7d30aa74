"""Several promoters: one works, the others stay behind and are there when it does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops import promoter
from rota.engine.loops.promoter import Promoter
from tests.sql_engine import Engine

POLL = 1000.0
# Far more than a slow machine may take between two calls.
BEHIND = 20.0


class Times:
    """Business time and the workers' own, together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def pass_(self, seconds: float) -> None:
        self._engine.advance(seconds)
        self.now += seconds


@pytest.fixture
def times(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> Times:
    """Runs are due in 100, 200, 300 and 400 seconds."""
    engine.job("later")
    for seconds in (100, 200, 300, 400):
        engine.enqueue("later", delay=f"{seconds} seconds")
    times = Times(engine)
    monkeypatch.setattr(promoter, "time", times)
    monkeypatch.setattr(promoter, "_BEHIND_SECONDS", (BEHIND, BEHIND))
    return times


@pytest.fixture
def make(app: rota.App) -> Callable[[], Promoter]:
    return lambda: Promoter(app.database, poll_seconds=POLL)


def is_at(wait: float, seconds: float) -> bool:
    """Up to the time that the test itself has taken."""
    return seconds - 10 < wait <= seconds


async def test_who_came_too_late_stays_behind_until_it_is_needed(
    times: Times, make: Callable[[], Promoter], engine: Engine
) -> None:
    promoter, other = make(), make()
    for _ in range(2):
        assert is_at(await promoter.run_once(), 100)
        assert is_at(await other.run_once(), 100)
        times.pass_(100)
    assert is_at(await promoter.run_once(), 100)
    assert is_at(await other.run_once(), 100 + BEHIND)
    times.pass_(100 + BEHIND)
    # The first promoter does not come.
    assert is_at(await other.run_once(), 100 - BEHIND)
    times.pass_(100 - BEHIND)
    assert await other.run_once() == POLL
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_ready") == 4


async def test_a_run_that_went_away_makes_nobody_late(
    times: Times, make: Callable[[], Promoter], engine: Engine
) -> None:
    promoter = make()
    assert is_at(await promoter.run_once(), 100)
    engine.cancel(engine.one("SELECT id FROM rota.open_runs ORDER BY run_at LIMIT 1"))
    times.pass_(100)
    assert is_at(await promoter.run_once(), 100)
    times.pass_(100)
    assert is_at(await promoter.run_once(), 100)
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_ready") == 1


async def test_one_that_is_called_before_the_time_is_not_late(
    times: Times, make: Callable[[], Promoter]
) -> None:
    promoter = make()
    assert is_at(await promoter.run_once(), 100)
    times.pass_(50)
    assert is_at(await promoter.run_once(), 50)


async def test_what_somebody_holds_is_not_asked_for_at_once(
    times: Times,
    make: Callable[[], Promoter],
    engine: Engine,
    connect: Callable[..., psycopg.Connection[Any]],
) -> None:
    promoter = make()
    times.pass_(100)
    with connect().transaction() as held:
        held.connection.execute("SELECT FROM rota.open_runs ORDER BY run_at LIMIT 1 FOR UPDATE")
        assert await promoter.run_once() == 0.25
        assert await promoter.run_once() == 0.25
    assert is_at(await promoter.run_once(), 100)
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_ready") == 1
