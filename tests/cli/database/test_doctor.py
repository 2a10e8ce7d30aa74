"""`rota doctor`."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.cli.conftest import Cli
from tests.sql_engine import Engine


def test_what_needs_action_with_what_to_type(cli: Cli) -> None:
    found = cli("doctor")

    assert found.code == 1, "something needs action"
    assert " need action, " in found.out.splitlines()[0]
    assert "NEEDS ACTION: No worker is live: 0\n" in found.out
    assert "    Do: start a worker.\n        rota worker\n" in found.out
    assert "FINE" not in found.out


def test_what_is_fine_when_asked_for(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    Engine(conn).worker()
    assert "The schema fits this release" in cli("doctor", "--all").out


def test_json(cli: Cli) -> None:
    found = cli("doctor", "--json").json
    assert found["bad"] == sum(it["verdict"] == "bad" for it in found["findings"])
    assert {"check", "verdict", "title", "figure", "limit", "detail", "advice", "commands"} == set(
        found["findings"][0]
    )
