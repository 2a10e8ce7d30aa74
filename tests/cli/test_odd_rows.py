"""An odd row is a line with an odd word in it, and never the end of a list."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.cli.conftest import Cli
from tests.odd_values import ODD, columns
from tests.odd_world import fill, put_constraints_aside

_COMMANDS = {
    "open_runs": ["runs list", "runs show 3", "queues list", "stats"],
    "ended_runs": ["runs list", "runs show 1"],
    "past_attempts": ["runs show 1"],
    "logs": ["logs search", "runs show 1"],
    "jobs": ["jobs list", "jobs show work"],
    "queues": ["queues list"],
    "workers": ["workers list"],
    "calendars": ["calendars list", "calendars show holidays", "schedules simulate"],
    "schedules": ["schedules list", "schedules show nightly", "schedules simulate"],
    "ledger": ["schedules history nightly"],
    "audit": ["audit list"],
}
_KINDS = ("timestamptz", "float4", "float8", "jsonb", "_text")


@pytest.mark.parametrize("table", _COMMANDS)
def test_no_odd_value_breaks_a_command(conn: psycopg.Connection[Any], cli: Cli, table: str) -> None:
    fill(conn)
    put_constraints_aside(conn)
    for turn in (0, 1, 2):
        for column in columns(conn, table):
            if column.kind in _KINDS:
                value = ODD[column.kind][turn]
                _write(conn, table, column.name, value)
        for command in _COMMANDS[table]:
            for words in (command.split(), [*command.split(), "--json"]):
                result = cli(*words)
                assert result.code == 0, (turn, words, result)
                assert "is the database there" not in result.err


def _write(conn: psycopg.Connection[Any], table: str, name: str, value: str) -> None:
    query = sql.SQL("UPDATE rota.{} SET {} = {}").format(
        sql.Identifier(table), sql.Identifier(name), sql.Literal(value)
    )
    try:
        conn.execute(query)
    except psycopg.Error:
        return
