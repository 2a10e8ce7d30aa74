"""`rota limits`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work")
    return engine


def admit(engine: Engine) -> None:
    engine.one("SELECT admitted FROM rota.admit_runs()")


def test_nothing_to_list(cli: Cli) -> None:
    assert cli.done("limits", "list").err.startswith("no limits; ")
    assert cli.done("limits", "list", "--json").json == []


def test_one_is_set_shown_and_removed(cli: Cli, engine: Engine) -> None:
    made = cli.done("limits", "set", "few", "--jobs", "work", "--cap", 1, "--key", "{c}")
    assert made.out == 'limit "few" set for job work: 1 at once for each {c}\n'
    runs = [engine.enqueue(payload={"c": "a"}) for _ in range(2)]
    admit(engine)
    line = cli.done("limits", "list").out.splitlines()[1]
    assert "1 at once for each {c}" in line
    assert "1 of 1" in line
    shown = cli.done("limits", "show", "few").out
    for part in ("holding a slot", "waiting", str(runs[0]), str(runs[1]), "job work"):
        assert part in shown
    assert cli.done("limits", "show", "few", "--json").json["limit"]["waiting"] == 1
    assert "2 at once" in cli.done("limits", "set", "few", "--cap", 2, "--reason", "more").out
    assert engine.audit("few")[-1]["reason"] == "more"
    assert engine.audit("few")[-1]["actor"] == "cli:alice"
    assert cli.done("limits", "remove", "few").out == 'limit "few" removed\n'


def test_a_rate_and_a_sequence(cli: Cli, engine: Engine) -> None:
    rate = cli.done("limits", "set", "api", "--cap", 100, "--period", "1m", "--burst", 10)
    assert rate.out == 'limit "api" set for all runs: 100 in 1 min, burst 10\n'
    line = cli.done(
        "limits", "set", "line", "--kind", "sequence", "--next-after", "success", "--jobs", "work"
    )
    assert (
        line.out
        == 'limit "line" set for job work: one at a time, after the success of the previous run\n'
    )
    anew = cli.done("limits", "set", "line", "--jobs", "any", "--queue", "mail", "--json").json[0][
        "result"
    ]
    assert (anew["jobs"], anew["queue"]) == (None, "mail")
    assert cli("limits", "unblock", "line").code == 1
