"""A command that fails suggests commands and flags, never a call of Python or SQL."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from rota.cli.terminal.wording import typed
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
CALL = re.compile(r"=>|\brota\.[a-z_]+|\bapp\.[a-z]+|[a-z]_seconds\b|\bNULL\b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jobs", "delete", "work"), "--cascade"),
        (("jobs", "delete", "busy"), "--cancel-open"),
        (("jobs", "show", "none"), "`rota jobs list`"),
        (("runs", "enqueue", "none"), "`rota jobs list` lists them"),
        (("schedules", "trigger", "none"), "`rota schedules list`"),
        (("queues", "set", "default", "--max-waiting", "-1"), "`none` removes the limit"),
        (("jobs", "update", "work", "--timeout", "0"), "a duration, from 0.001 to 31536000 s"),
        (("runs", "enqueue", "work", "--attempt-timeout", "0"), "must be a duration"),
        (("limits", "set", "calm", "--cap", "1", "--per", "0s"), "--per 0"),
        (("events", "emit", "paid", "--key", "k", "--key-keep", "1h", "--key-period", "1h"),
         "--key-period or --key-keep"),
    ],
)  # fmt: skip
def test_a_refusal_speaks_of_flags(
    cli: Cli, conn: Connection, arguments: tuple[str, ...], said: str
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work'), ('busy')")
    conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('often', 'work', 60)"
    )
    conn.execute("SELECT rota.enqueue('busy')")
    code, _, err = cli(*arguments)
    assert code in (1, 2)
    assert said in err
    assert not CALL.search(err)


def test_only_flags_of_the_command_are_named() -> None:
    text = "timeout_seconds 0 is too little; period_seconds too"
    assert typed(text, {"--timeout"}) == "--timeout 0 is too little; period_seconds too"
    assert typed(text, {"--per"}) == "timeout_seconds 0 is too little; --per too"
    assert typed('field "timeout_seconds"', {"--timeout"}) == 'field "timeout_seconds"'
