"""A wrong value is wrong use (2), whoever finds it wrong: the command, the library or the database;
a thing that is not there, or in the wrong state, is a failure (1)."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.cli.conftest import Cli

CREATE = ("schedules", "create", "x", "send", "--cron", "@daily")
UPDATE = ("schedules", "update", "digest")
LIMIT = ("limits", "set", "calm")
VALUES: list[tuple[str, ...]] = [
    *(
        ("jobs", "update", "send", flag, value)
        for flag, value in (
            ("--priority", "30"), ("--max-attempts", "0"), ("--timeout", "0"), ("--delay", "-1"),
            ("--expires-in", "0"), ("--log-level", "loud"), ("--key", "{"), ("--tenant", "a/b"),
            ("--backoff", '{"kind": "odd"}'), ("--retention", "days=0"), ("--events", "a b"),
            ("--event-delivery", '{"odd": 1}'), ("--event-filters", '{"odd": 1}'),
            ("--metadata", "[1]"), ("--default-payload", "[1]"), ("--reset", "odd"),
        )
    ),
    *(
        (*command, flag, value)
        for command in (CREATE, UPDATE)
        for flag, value in (
            ("--priority", "30"), ("--max-attempts", "0"), ("--timeout", "0"), ("--jitter", "-1"),
            ("--max-runs", "0"), ("--catch-up", "odd"), ("--catch-up-limit", "0"),
            ("--max-concurrent-runs", "0"), ("--pause-after-failures", "0"), ("--gap", "odd"),
            ("--timezone", "Mars/Base"), ("--calendar", "nothing"), ("--requires", "nothing"),
        )
    ),
    *(
        (*LIMIT, *given)
        for given in (
            ("--cap", "-1"), ("--cap", "1", "--kind", "rate"), ("--cap", "1", "--period", "0"),
            ("--cap", "1", "--burst", "1"), ("--cap", "2", "--kind", "sequence"),
            ("--cap", "1", "--period", "1m", "--burst", "9"), ("--cap", "1", "--key", "{"),
            ("--cap", "1", "--period", "1m", "--on-full", "cancel_running"),
        )
    ),
    ("queues", "set", "mail", "--max-waiting", "-1"),
    ("tenants", "set", "acme", "--weight", "-1"),
    ("tenants", "set", "acme", "--max-waiting", "-1"),
    ("tenants", "set", "acme", "--retention-days", "0"),
    ("runs", "enqueue", "send", "--priority", "30"),
    ("runs", "enqueue", "send", "--max-attempts", "0"),
    ("runs", "enqueue", "send", "--attempt-timeout", "0"),
    ("schedules", "backfill", "digest", "--from", "1d", "--rate", "0"),
    ("schedules", "templates", "add", "Odd", "--cron", "odd"),
    ("calendars", "create", "odd", "--definition", '{"odd": 1}'),
    ("calendars", "update", "free", "--definition", '{"odd": 1}'),
]  # fmt: skip


@pytest.fixture
def shop(cli: Cli, make_app: Any) -> Cli:
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    app.schedules.sync.create("digest", "send", cron="0 8 * * *")
    app.calendars.sync.create("free", {"holidays": []})
    return cli


# On one database: what is refused leaves nothing in it.
def test_a_wrong_value_is_wrong_use(shop: Cli) -> None:
    told = {words: shop(*words) for words in VALUES}
    assert {words: it.err for words, it in told.items() if it.code != 2} == {}
