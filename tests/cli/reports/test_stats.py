from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.engine.metrics.rollups import Rollups
from tests.cli.conftest import Cli
from tests.sql_engine import Engine

Conn = psycopg.Connection[Any]


@pytest.fixture
async def busy(make_app: Any, conn: Conn) -> rota.App:
    """One job that has run and waits again."""
    app: rota.App = make_app()
    Engine(conn).job("mail", queue="out")
    Engine(conn).enqueue("mail")
    rollups = Rollups(app.database)
    for duration, outcome in ((2.0, "succeeded"), (2.0, "succeeded"), (40.0, "failed")):
        rollups.count("mail", "out", outcome, duration)
    rollups.worker = 1
    await rollups.run_once()
    return app


def test_states_queues_and_jobs(cli: Cli, busy: rota.App) -> None:
    lines = [line.split() for line in cli.done("stats").out.splitlines()]
    assert ["open", "1", "queued,", "0", "running,", "0", "scheduled,", "0", "blocked"] in lines
    assert ["failed", "1", "(33.3", "%)"] in lines
    assert any(line[:2] == ["out", "1"] for line in lines)
    assert any(line[:2] == ["mail", "3"] for line in lines)
    assert not any(line[:1] == ["Steps"] for line in lines)


def test_steps_when_asked_for(cli: Cli, busy: rota.App) -> None:
    assert "By interval of 5m" in cli.done("stats", "--step", "5m", "--since", "2h").out


def test_json_has_everything(cli: Cli, busy: rota.App) -> None:
    found = cli.done("stats", "--json", "--job", "mail", "--queue", "out").json
    assert found["states"]["queued"] == 1
    assert [step["activity"]["attempts"] for step in found["series"]] == [3]
    assert found["total"]["failure_rate"] == pytest.approx(1 / 3)


def test_an_empty_system(cli: Cli) -> None:
    assert "0 queued" in cli.done("stats").out
