"""`rota bench` runs on any server and leaves nothing behind. No one is asserted."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from rota.benchmark.results import Measurement, middle
from rota.cli.main import run


def test_it_measures_and_drops_its_schema(
    database_url: str,
    conn: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", database_url)
    assert run(["bench", "--runs", "200", "--rounds", "1", "--json"]) == 0

    measured = {load["name"]: load for load in json.loads(capsys.readouterr().out)}
    assert measured["throughput, one process"]["rota"] > 0
    assert measured["throughput, one process"]["floor"] > 0
    assert conn.execute("SELECT to_regnamespace('rota_bench')").fetchone() == (None,)


def test_the_median_of_the_rounds_counts() -> None:
    rounds = [[Measurement("throughput", "runs/s", rota, 10.0)] for rota in (1.0, 9.0, 5.0)]
    (figure,) = middle(rounds)
    assert (figure.rota, figure.ratio) == (5.0, 0.5)
