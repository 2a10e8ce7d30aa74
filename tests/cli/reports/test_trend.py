"""`rota trend`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.metrics.rollups import Rollups
from tests.cli.conftest import Cli
from tests.sql_engine import Engine


@pytest.fixture
async def busy(make_app: Any, conn: psycopg.Connection[Any]) -> rota.App:
    """Three attempts in this step, and two at the same time of the day before."""
    app: rota.App = make_app()
    engine = Engine(conn)
    engine.job("mail", queue="out")
    rollups = Rollups(app.database)
    rollups.worker = 1
    for moment, outcomes in (
        ("2026-06-02T12:00:10Z", ("succeeded", "failed")),
        ("2026-06-03T12:00:20Z", ("succeeded", "succeeded", "failed")),
    ):
        engine.one("SELECT rota.set_clock(%s)", moment)
        for outcome in outcomes:
            rollups.count("mail", "out", outcome, 40.0)
        await rollups.run_once()
    return app


def test_steps_beside_the_day_before(cli: Cli, busy: rota.App) -> None:
    said = cli.done("trend", "--absolute", "--display-timezone", "UTC")
    lines = [line.split() for line in said.out.splitlines()]
    assert ["ended", "2", "succeeded,", "1", "failed"] in lines
    assert ["the", "day", "before", "1", "succeeded,", "1", "failed"] in lines
    assert "By interval of 1m" in said.out
    last = " ".join(lines[-1])
    assert last.startswith("2026-06-03 12:00:00")
    assert "3 2 1 1" in last
    assert "30 earlier intervals not shown" in said.err


def test_json_has_every_step(cli: Cli, busy: rota.App) -> None:
    found = cli.done("trend", "--json", "--span", "7d", "--job", "mail").json
    assert (found["steps"], found["step_seconds"]) == (84, 7200)
    assert (sum(found["now"]["succeeded"]), sum(found["before"]["succeeded"])) == (3, 1)


def test_an_empty_system(cli: Cli) -> None:
    assert "0 succeeded, 0 failed" in cli.done("trend").out
