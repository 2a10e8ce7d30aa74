"""An odd row is a line with an odd word in it, and never the end of a list."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.odd_values import write_odd_turn
from tests.odd_world import fill, put_constraints_aside

_COMMANDS = {
    "open_runs": ["runs list", "runs show 3", "queues list", "stats", "why 3", "why 4", "why work"],
    "ended_runs": ["runs list", "runs show 1", "why 1", "why work"],
    "past_attempts": ["runs show 1", "why 3", "why 4"],
    "logs": ["logs search", "runs show 1"],
    "jobs": ["jobs list", "jobs show work", "why work"],
    "queues": ["queues list", "why mail"],
    "workers": ["workers list", "why 3", "why 4"],
    "calendars": ["calendars list", "calendars show holidays", "schedules simulate"],
    "schedules": [
        "schedules list",
        "schedules show nightly",
        "schedules simulate",
        "why nightly",
    ],
    "ledger": ["schedules history nightly", "why nightly"],
    "audit": ["audit list", "why 1", "why work"],
}


@pytest.mark.parametrize("table", _COMMANDS)
def test_no_odd_value_breaks_a_command(conn: psycopg.Connection[Any], cli: Cli, table: str) -> None:
    fill(conn)
    put_constraints_aside(conn)
    for turn in (0, 1, 2):
        write_odd_turn(conn, table, turn)
        for command in _COMMANDS[table]:
            for words in (command.split(), [*command.split(), "--json"]):
                result = cli(*words)
                assert result.code == 0, (turn, words, result)
                assert "is the database there" not in result.err
