"""SQL jobs that are made without SQL: the functions that qualify, and what is done with them."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.testing import run_due_sync
from tests.conftest import MakeApp

Connection = psycopg.Connection[tuple[Any, ...]]
DONE = (
    """RETURNS jsonb LANGUAGE sql AS $$ SELECT '{"success": true, "message": "done"}'::jsonb $$"""
)


@pytest.fixture
def functions(conn: Connection) -> Connection:
    """Two that qualify, one procedure, and one of each that does not."""
    for text in (
        f"FUNCTION public.tidy(payload jsonb) {DONE}",
        f"FUNCTION public.tidy_all() {DONE}",
        "PROCEDURE public.sweep(payload jsonb) LANGUAGE sql AS $$ SELECT 1 $$",
        f"FUNCTION public.needs(n int) {DONE}",
        "FUNCTION public.says(payload jsonb) RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$",
        "FUNCTION public.many(payload jsonb) RETURNS SETOF jsonb LANGUAGE sql AS $$ SELECT $1 $$",
        f"FUNCTION public.either(payload jsonb, n int DEFAULT 1) {DONE}",
        f"FUNCTION public.either(payload jsonb, t text DEFAULT '') {DONE}",
    ):
        conn.execute(f"CREATE {text}")
    conn.execute("COMMENT ON FUNCTION public.tidy(jsonb) IS 'tidies up'")
    return conn


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    return make_app()


def test_the_functions_that_qualify(app: rota.App, functions: Connection) -> None:
    found = {one.function_name: one for one in app.jobs.sync.functions()}
    assert {*found} == {"public.sweep", "public.tidy", "public.tidy_all"}
    tidy = found["public.tidy"]
    assert (tidy.arguments, tidy.kind, tidy.owner) == ("payload jsonb", "function", "postgres")
    assert (tidy.description, tidy.jobs) == ("tidies up", [])
    assert found["public.sweep"].transaction_mode == "none"
    app.jobs.sync.create("tidy", "public.tidy")
    assert app.jobs.sync.functions("TIDY")[0].jobs == ["tidy"]


def test_one_of_several_is_told_by_its_arguments(app: rota.App, functions: Connection) -> None:
    functions.execute(f"CREATE FUNCTION public.tidy() {DONE}")
    names = [one.function_name for one in app.jobs.sync.functions("public.tidy(")]
    assert names == ["public.tidy()", "public.tidy(jsonb)"]
    for name in names:
        made = app.jobs.sync.create(f"job {name}", name)
        assert made.function_name == name


def test_created_run_changed_and_deleted(app: rota.App, functions: Connection) -> None:
    jobs = app.jobs.by("ada").sync
    made = jobs.create(
        "tidy", "public.tidy", queue="night", timeout=30, default_payload={"days": 3}, tags=["x"],
        reason="asked for",
    )  # fmt: skip
    assert (made.kind, made.function_name, made.queue) == ("sql", "public.tidy", "night")
    run = app.runs.sync.enqueue("tidy")
    run_due_sync(app)
    ended = app.runs.sync.get(run.id)
    assert (ended.state, ended.payload) == ("succeeded", {"days": 3})
    assert jobs.update("tidy", function="public.tidy_all").function_name == "public.tidy_all"
    swept = jobs.update("tidy", function="public.sweep", transaction_mode="none")
    assert swept.transaction_mode == "none"
    jobs.delete("tidy", reason="gone")
    rows = functions.execute(
        "SELECT action, actor, reason FROM rota.audit WHERE object_id = 'tidy' ORDER BY id"
    ).fetchall()
    assert rows[0] == ("job.created", "ada", "asked for")
    assert rows[-1] == ("job.deleted", "ada", "gone")


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        ("public.nope", "there is no function"),
        ("public.needs", "requires: n integer"),
        ("public.says", "returns text, not jsonb"),
        ("public.either", "ambiguous"),
        ("public.sweep", "is not a function"),
        ("pg_catalog.jsonb_strip_nulls", "belongs to PostgreSQL"),
        ("'; DROP TABLE x", "is not the name of a function"),
    ],
)
def test_what_is_no_function_of_a_job(
    app: rota.App, functions: Connection, function: str, problem: str
) -> None:
    with pytest.raises((rota.JobError, rota.InputError), match=problem):
        app.jobs.sync.create("x", function)
    app.jobs.sync.create("tidy", "public.tidy")
    with pytest.raises((rota.JobError, rota.InputError), match=problem):
        app.jobs.sync.update("tidy", function=function)
    assert app.jobs.sync.get("tidy").function_name == "public.tidy"
    assert functions.execute("SELECT FROM rota.jobs WHERE name = 'x'").fetchone() is None


def test_names_roles_and_python_jobs(app: rota.App, functions: Connection) -> None:
    @app.job
    async def send() -> None: ...

    app.jobs.sync.create("tidy", "public.tidy")
    with pytest.raises(rota.WrongState, match="already exists"):
        app.jobs.sync.create("tidy", "public.tidy")
    with pytest.raises(rota.JobError, match="1 to 200 characters"):
        app.jobs.sync.create("", "public.tidy")
    with pytest.raises(rota.InputError, match="may not run as role"):
        app.jobs.sync.create("other", "public.tidy", run_as="postgres")
    with pytest.raises(rota.JobError, match="transaction_mode 'half' is not a choice"):
        app.jobs.sync.create("other", "public.tidy", transaction_mode="half")
    app.database.open_sync()
    with pytest.raises(rota.JobError, match="is not a SQL job"):
        app.jobs.sync.update("send", function="public.tidy")


def test_what_a_role_may_not_execute_is_not_listed(app: rota.App, functions: Connection) -> None:
    functions.execute("REVOKE EXECUTE ON FUNCTION public.tidy(jsonb) FROM PUBLIC")
    functions.execute("CREATE ROLE sql_jobs_reader NOLOGIN")
    try:
        functions.execute("GRANT USAGE ON SCHEMA rota TO sql_jobs_reader")
        functions.execute("GRANT SELECT ON rota.jobs TO sql_jobs_reader")
        functions.execute("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA rota TO sql_jobs_reader")
        functions.execute("SET ROLE sql_jobs_reader")
        names = functions.execute("SELECT function_name FROM rota.job_functions()").fetchall()
        assert names == [("public.sweep",), ("public.tidy_all",)]
    finally:
        functions.execute("RESET ROLE")
        functions.execute("DROP OWNED BY sql_jobs_reader")
        functions.execute("DROP ROLE sql_jobs_reader")
