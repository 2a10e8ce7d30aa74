"""`rota jobs functions` and `create`."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
ANSWER = '{"success": true, "message": "done"}'
DONE = f"RETURNS jsonb LANGUAGE sql AS $$ SELECT '{ANSWER}'::jsonb $$"


@pytest.fixture
def functions(conn: Connection) -> None:
    for name in ("tidy", "tidy_all"):
        conn.execute(f"CREATE FUNCTION public.{name}(payload jsonb) {DONE}")
    conn.execute("CREATE FUNCTION public.says() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$")
    conn.execute("COMMENT ON FUNCTION public.tidy IS 'tidies up'")


@pytest.mark.usefixtures("functions")
def test_made_changed_and_deleted(cli: Cli) -> None:
    listed = cli.done("jobs", "functions").out
    assert "public.tidy" in listed
    assert "tidies up" in listed
    said = cli.done(
        "jobs", "create", "tidy", "public.tidy", "--queue", "night", "--timeout", "30s",
        "--default-payload", '{"days": 3}', "--tags", "a,b",
    )  # fmt: skip
    assert said.out == 'job "tidy" created: it calls public.tidy\n'
    shown = cli.done("jobs", "show", "tidy", "--json").json
    assert (shown["queue"], shown["timeout_seconds"], shown["tags"]) == ("night", 30, ["a", "b"])
    cli.done("jobs", "update", "tidy", "--function-name", "public.tidy_all")
    assert cli.done("jobs", "show", "tidy", "--json").json["function_name"] == "public.tidy_all"
    for arguments in (["x", "public.nope"], ["x"], ["x", "public.says"]):
        assert cli("jobs", "create", *arguments).code == 2
    assert cli("jobs", "create", "tidy", "public.tidy").code == 1
    cli.done("jobs", "delete", "tidy")
