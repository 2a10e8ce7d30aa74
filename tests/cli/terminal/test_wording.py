"""A command that fails suggests commands and flags, never a call of Python or SQL."""

from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

from rota.cli.terminal.wording import typed
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
CALL = re.compile(r"=>|\brota\.[a-z_]+|\bapp\.[a-z]+|[a-z]_seconds\b|\bNULL\b|\bcolumn\b")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("jobs", "delete", "work"), "--cascade"),
        (("jobs", "delete", "busy"), "--cancel-open"),
        (("jobs", "show", "none"), "`rota jobs list`"),
        (("runs", "enqueue", "none"), "`rota jobs list` lists them"),
        (("schedules", "trigger", "none"), "`rota schedules list`"),
        (("jobs", "update", "work", "--timeout", "0"), "'--timeout': must be from 0.001"),
        (("jobs", "update", "work", "--priority", "30"), "'--priority': must be from 0 to 9"),
        (("runs", "enqueue", "work", "--on-conflict", "raise"),
         "Pass a key, or declare one for the job"),
        (("events", "emit", "paid", "--key-period", "1h"), "--key-period needs a key"),
        (("events", "emit", "paid", "--metadata", "[1]"), "must be a JSON object, not [1]"),
        (("runs", "enqueue", "work", "[1]"), 'must be a JSON object, like {"user_id": 7}, not [1]'),
        (("runs", "enqueue", "work", "null"), 'like {"user_id": 7}, not null'),
        (("schedules", "create", "x", "--job", "work", "--every", "0.5s"),
         "--every must be at least 1s, not 0.5"),
        (("schedules", "create", "x", "--job", "work", "--every", "1m", "--cron", "@daily"),
         "exactly one of --cron, --every, --at and --init, found --cron and --every"),
        (("schedules", "create", "x", "--job", "strict", "--cron", "@daily"),
         "`rota jobs show` describes its arguments; without a payload, the default payload"),
        (("schedules", "create", "x", "--job", "work", "--cron", "0 0 9 * * *"),
         "or set --with-seconds"),
        (("schedules", "reschedule", "often", "--at", "1999-01-01"), "`rota schedules trigger`"),
        (("tenants", "set", "acme", "--weight", "-1"), "'--weight': must be from 0.01 to 1,000"),
        (("limits", "set", "calm", "--cap", "1", "--kind", "rate"), "--cap 100 --period 1m"),
        (("runs", "enqueue", "work", "--attempt-timeout", "0"), "must be a duration"),
        (("limits", "set", "calm", "--cap", "1", "--period", "0s"), "--period"),
        (("events", "emit", "paid", "--key", "k", "--key-keep", "1h", "--key-period", "1h"),
         "--key-period or --key-keep"),
    ],
)  # fmt: skip
def test_a_refusal_speaks_of_flags(
    cli: Cli, conn: Connection, arguments: tuple[str, ...], said: str
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work'), ('busy')")
    strict = '{"properties": {"n": {"type": "integer"}}, "required": ["n"]}'
    conn.execute("INSERT INTO rota.jobs (name, payload_schema) VALUES ('strict', %s)", [strict])
    conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('often', 'work', 60)"
    )
    conn.execute("SELECT rota.enqueue('busy')")
    code, _, err = cli(*arguments)
    assert code in (1, 2)
    assert said in err
    assert not CALL.search(err)


def test_arguments_of_a_job_are_no_flags() -> None:
    text = 'job "x": argument max_attempts is missing; the job takes max_attempts, key_keep'
    assert typed(text, {"--max-attempts", "--key-keep"}) == text
    text = "unknown job setting 'colour'; choose from queue, max_attempts"
    assert typed(text, {"--max-attempts"}) == text


def test_only_flags_of_the_command_are_named() -> None:
    text = "timeout_seconds 0 is too little; period_seconds too"
    assert typed(text, {"--timeout"}) == "--timeout 0 is too little; period_seconds too"
    assert typed(text, {"--period"}) == "timeout_seconds 0 is too little; --period too"
    assert typed('field "timeout_seconds"', {"--timeout"}) == 'field "timeout_seconds"'
