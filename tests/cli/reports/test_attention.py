"""`rota attention`."""

from __future__ import annotations

from typing import Any

import psycopg

from tests.cli.conftest import Cli
from tests.sql_engine import Engine


def test_nothing(cli: Cli) -> None:
    assert cli.done("attention").out == "nothing needs attention\n"


def test_what_why_since_when_and_what_to_type(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    Engine(conn).job("send", queue="mail")
    cli.done("queues", "pause", "mail", "--reason", "provider is down")
    lines = cli.done("attention").out.splitlines()

    assert lines[0] == "1 thing needs attention"
    assert lines[2].startswith("Queue mail is paused: nothing waits (since ")
    assert "“provider is down”" in lines[3]
    assert lines[4] == "    rota queues resume mail"


def test_json_and_a_limit(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    for name in ("a", "b", "c"):
        cli.done("queues", "pause", name, "--reason", "x")
    found = cli.done("attention", "--json", "--limit", "2").json
    assert (found["total"], len(found["needs"])) == (3, 2)
    said = cli.done("attention", "--limit", "2")
    assert "1 more; raise --limit to see them" in said.err


def test_names_cannot_steer_the_terminal(cli: Cli, conn: psycopg.Connection[Any]) -> None:
    conn.execute("SELECT rota.pause_queue(%s, 'x')", ["a\x1b[2J"])
    assert "\x1b" not in cli.done("attention").out
