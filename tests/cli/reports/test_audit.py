from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def history(cli: Cli, conn: Connection) -> None:
    conn.execute("SELECT rota.pause_queue('mail', 'smtp down', 'cli:ada')")
    conn.execute("SELECT rota.resume_queue('mail', NULL, 'cli:bob')")
    conn.execute("SELECT rota.pause_queue('web', NULL, 'cli:ada')")


@pytest.mark.usefixtures("history")
def test_filters(cli: Cli) -> None:
    def found(*flags: object) -> list[str]:
        return [it["action"] for it in cli.done("audit", "list", *flags, "--json").json]

    assert found() == ["queue.paused", "queue.resumed", "queue.paused"]
    assert found("--actor", "cli:bob") == ["queue.resumed"]
    assert found("--action", "queue.paused", "--limit", 1) == ["queue.paused"]
    assert found("--object-type", "queue", "--object-id", "web") == ["queue.paused"]
    assert found("--object-type", "run") == []
    assert len(found("--since", "1h")) == 3
    assert found("--until", "1h") == []
    assert found("--tenant", "acme") == []


@pytest.mark.usefixtures("history")
def test_the_table_says_why_or_what(cli: Cli) -> None:
    lines = cli.done("audit", "list").out.splitlines()
    assert "cli:ada  queue.paused   queue web" in lines[1]
    assert "is_paused true" in lines[1]
    assert lines[2].endswith("is_paused true → false")
    assert lines[3].endswith("smtp down")


@pytest.mark.usefixtures("history")
def test_pages(cli: Cli) -> None:
    first = cli.done("audit", "list", "--limit", 2)
    assert "2 shown; next page: --after" in first.err
    last = first.err.split()[-1]
    (rest,) = cli.done("audit", "list", "--limit", 2, "--after", last, "--json").json
    assert rest["reason"] == "smtp down"


@pytest.mark.usefixtures("history")
def test_show(cli: Cli) -> None:
    entry = cli.done("audit", "list", "--json").json[-1]
    text = cli.done("audit", "show", entry["id"]).out
    assert "smtp down" in text
    assert "is_paused" in text
    assert cli.done("audit", "show", entry["id"], "--json").json == entry
