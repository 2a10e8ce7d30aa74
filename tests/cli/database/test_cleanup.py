"""`rota cleanup`"""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
ADD = ("cleanup", "add", "public.sessions", "--column", "expires_at", "--older-than", "2d")


@pytest.fixture
def sessions(conn: Connection) -> Connection:
    conn.execute("CREATE TABLE public.sessions (expires_at timestamptz, note text)")
    conn.execute(
        "INSERT INTO public.sessions SELECT rota.now() - n * interval '1 day', 'x'"
        " FROM generate_series(0, 4) n"
    )
    return conn


def test_added_listed_shown_counted_run_and_removed(cli: Cli, sessions: Connection) -> None:
    assert "no cleanups" in cli.done("cleanup", "list").err
    out = cli.done(*ADD, "--where", "note is not null", "--cron", "0 4 * * *").out
    assert 'cleanup "cleanup_sessions" is added' in out
    listed = cli.done("cleanup", "list").out
    assert "public.sessions.expires_at older than 2 days where note is not null" in listed
    (shown,) = cli.done("cleanup", "show", "cleanup_sessions", "--json").json["rules"]
    assert (shown["older_than"], shown["where"]) == ("2 days", "note is not null")
    assert "note is not null" in cli.done("cleanup", "show", "cleanup_sessions").out
    assert "would delete 3 rows" in cli.done("cleanup", "plan").out
    (count,) = cli.done("cleanup", "plan", "cleanup_sessions", "--json").json
    assert count["matching"] == 3
    assert "enqueued" in cli.done("cleanup", "run", "cleanup_sessions").out
    (done,) = cli.done("cleanup", "run", "cleanup_sessions", "--json", "--reason", "now").json
    row = sessions.execute(
        "SELECT job, schedule, triggered_by ->> 'actor' FROM rota.runs WHERE id = %s",
        [done["result"]["run_id"]],
    ).fetchone()
    assert row == ("rota.cleanup", "cleanup_sessions", "cli:alice")
    cli.done("cleanup", "remove", "cleanup_sessions")
    assert cli.done("cleanup", "list", "--json").json == []
    assert sessions.execute("SELECT count(*) FROM public.sessions").fetchone() == (5,)


def test_recipes(cli: Cli, sessions: Connection) -> None:
    listed = cli.done("cleanup", "recipes").out
    assert "stale_session_cleanup" in listed
    assert "expired_auth_cleanup" not in listed
    cli.done("cleanup", "add-recipe", "stale_session_cleanup", "--reason", "wanted")
    (one,) = cli.done("cleanup", "recipes", "--json").json
    assert one["is_used"]
    sessions.execute("CREATE TABLE public._club_sessions (expires_at timestamptz)")
    lines = [line.split() for line in cli.done("cleanup", "recipes").out.splitlines()[1:]]
    assert {line[1]: line[-1] for line in lines} == {"public.": "yes", "public._club_": "hour"}
    bare = ("cleanup", "add-recipe", "stale_session_cleanup", "--prefix", "_club_")
    assert 'cleanup "stale_session_cleanup_club" is added' in cli.done(*bare).out
    again = cli(*bare)
    assert again.code == 1
    assert "hint: pass another name, or remove it first" in again.err
    assert "update" not in again.err
