"""SQL jobs as rows: what the registration refuses, who may run as whom, and the cleanup."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

import rota
from rota.testing import Clock, eventually
from tests.sql_engine import Engine, listen_to_all

BODY = 'LANGUAGE sql AS $$ SELECT \'{"success": true, "message": "done"}\'::jsonb $$'


@pytest.fixture
def functions(engine: Engine) -> Engine:
    for signature in (
        "good(payload jsonb) RETURNS jsonb",
        "nothing() RETURNS jsonb",
        '"Odd; name"() RETURNS jsonb',
        "many() RETURNS SETOF jsonb",
        "two(a jsonb, b jsonb) RETURNS jsonb",
        "number(n integer) RETURNS jsonb",
        "defaulted(payload jsonb, is_dry boolean DEFAULT false) RETURNS jsonb",
        "all_defaulted(n integer DEFAULT 1, word text DEFAULT 'x') RETURNS jsonb",
        "half_defaulted(payload jsonb, n integer, word text DEFAULT 'x') RETURNS jsonb",
    ):
        engine.conn.execute(f"CREATE FUNCTION public.{signature} {BODY}".encode())
    engine.conn.execute("CREATE FUNCTION public.words() RETURNS text LANGUAGE sql AS 'SELECT 1'")
    engine.conn.execute(
        "CREATE PROCEDURE public.steps(payload jsonb) LANGUAGE plpgsql AS 'BEGIN END'"
    )
    return engine


def register(engine: Engine, function: str | None, **columns: Any) -> str:
    engine.job("job", kind="sql", function_name=function, **columns)
    return str(engine.one("SELECT function_name FROM rota.jobs WHERE name = 'job'"))


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("public.good", "public.good"),
        ("good", "public.good"),
        (" public.nothing ", "public.nothing"),
        ("public.good(jsonb)", "public.good(jsonb)"),
        ('public."Odd; name"', 'public."Odd; name"'),
        ("defaulted", "public.defaulted"),
        ("public.defaulted(jsonb, boolean)", "public.defaulted(jsonb, boolean)"),
        ("public.all_defaulted", "public.all_defaulted"),
    ],
)
def test_a_name_is_resolved_and_stored_with_its_schema(
    functions: Engine, given: str, stored: str
) -> None:
    assert register(functions, given) == stored
    assert functions.one("SELECT executor FROM rota.jobs WHERE name = 'job'") == "sql"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "requires a function_name"),
        ("public.missing", 'there is no function "public.missing" that takes no argument or one'),
        ("public.two", "must take no argument or one jsonb, but requires: b jsonb"),
        ("public.number", "must take no argument or one jsonb, but requires: n integer"),
        ("public.half_defaulted", "must take no argument or one jsonb, but requires: n integer"),
        ("public.number(integer)", "must take no argument or one jsonb"),
        ("public.many", "returns a set of jsonb, not jsonb"),
        ("public.words", "returns text, not jsonb"),
        ("public.steps", "is not a function"),
        ("public.good(); DROP TABLE x", "is not the name of a function"),
        ("pg_sleep(60)", "is not the name of a function"),
    ],
)
def test_what_cannot_be_called_is_refused(functions: Engine, given: str | None, words: str) -> None:
    with pytest.raises(psycopg.Error, match=words.replace("(", r"\(")) as caught:
        register(functions, given)
    assert caught.value.sqlstate == "RO002"
    assert str(caught.value).startswith('job "job": ')


@pytest.mark.parametrize(
    ("one", "other", "is_ambiguous"),
    [
        ("()", "(n integer DEFAULT 1)", True),
        ("(payload jsonb)", "(payload jsonb, n integer DEFAULT 1)", True),
        ("(n integer DEFAULT 1)", "(word text DEFAULT 'x')", True),
        ("(payload jsonb)", "()", False),
        ("(payload jsonb)", "(payload jsonb, n integer)", False),
        ("(payload jsonb)", "(n integer DEFAULT 1)", False),
        ("()", "(n integer)", False),
    ],
)
def test_a_call_that_may_mean_two_functions_is_refused(
    engine: Engine, one: str, other: str, is_ambiguous: bool
) -> None:
    for arguments in (one, other):
        engine.conn.execute(f"CREATE FUNCTION public.f{arguments} RETURNS jsonb {BODY}".encode())
    if not is_ambiguous:
        assert register(engine, "public.f") == "public.f"
        return
    words = r'job "job": function "public.f" is ambiguous: the same call may mean public\.f\('
    with pytest.raises(psycopg.Error, match=words) as caught:
        register(engine, "public.f")
    assert caught.value.diag.message_hint == "Rename or drop one of them."


def test_an_executor_of_python_is_refused(functions: Engine) -> None:
    words = r'job "job": executor "thread" is for Python jobs; a SQL function has the executor sql'
    with pytest.raises(psycopg.Error, match=words) as caught:
        register(functions, "public.good", executor="thread")
    assert (caught.value.sqlstate, caught.value.diag.message_hint) == ("RO002", "Omit executor.")
    register(functions, "public.good")
    for executor in ("thread", "async"):
        with pytest.raises(psycopg.Error, match=f'executor "{executor}" is for Python jobs'):
            functions.conn.execute("UPDATE rota.jobs SET executor = %s", [executor])
    functions.conn.execute("UPDATE rota.jobs SET executor = 'sql', priority = 1")
    functions.job("other", executor="thread")
    functions.conn.execute(
        "UPDATE rota.jobs SET kind = 'sql', function_name = 'good' WHERE name = 'other'"
    )
    assert functions.one("SELECT executor FROM rota.jobs WHERE name = 'other'") == "sql"


def test_transaction_none_takes_procedures_only(functions: Engine) -> None:
    with pytest.raises(psycopg.Error, match="is not a procedure"):
        register(functions, "public.good", transaction_mode="none")
    assert register(functions, "public.steps", transaction_mode="none") == "public.steps"


@pytest.mark.parametrize(
    "columns",
    [
        {"kind": "python", "function_name": "public.good"},
        {"kind": "flow", "transaction_mode": "none"},
        {"kind": "python", "run_as": "rota"},
        {"kind": "other"},
    ],
)
def test_constraints_hold_the_kinds_apart(functions: Engine, columns: dict[str, Any]) -> None:
    with pytest.raises(psycopg.Error, match="kind") as caught:
        functions.job("job", **columns)
    assert caught.value.sqlstate == "RO002"


@pytest.mark.parametrize("function", ["defaulted", "all_defaulted"])
async def test_defaulted_arguments_are_left_to_their_defaults(
    app: rota.App, functions: Engine, function: str
) -> None:
    register(functions, function)
    functions.conn.execute("SELECT rota.allow_run_as(current_user)")
    first = functions.enqueue("job")
    async with app.worker():
        assert (await app.runs.wait(first, timeout=30)).state == "succeeded"
        functions.conn.execute("UPDATE rota.jobs SET run_as = current_user WHERE name = 'job'")
        again = functions.enqueue("job")
        assert (await app.runs.wait(again, timeout=30)).state == "succeeded"
        shown = await app.jobs.function("job")
        assert function in str(shown and shown.definition)


def test_an_update_is_checked_too(functions: Engine) -> None:
    register(functions, "public.good")
    with pytest.raises(psycopg.Error, match="returns text"):
        functions.conn.execute("UPDATE rota.jobs SET function_name = 'words' WHERE name = 'job'")


def test_a_change_is_called_out(functions: Engine, other: Engine) -> None:
    listen_to_all(other.conn)
    functions.job("in_python")
    register(functions, "public.good")
    functions.conn.execute("UPDATE rota.jobs SET timeout_seconds = 5 WHERE name = 'job'")
    functions.conn.execute("DELETE FROM rota.jobs WHERE name = 'job'")
    heard = [call.payload for call in other.conn.notifies(timeout=5, stop_after=3)]
    assert heard == ["jobs"] * 3


# Roles. They belong to the whole server, so every test has its own.


@pytest.fixture
def role(functions: Engine) -> Any:
    name = f"clerk {functions.one('SELECT current_database()')}"
    identifier = sql.Identifier(name)
    functions.conn.execute(sql.SQL("CREATE ROLE {}").format(identifier))
    yield name
    functions.conn.execute(sql.SQL("DROP OWNED BY {}").format(identifier))
    functions.conn.execute(sql.SQL("DROP ROLE {}").format(identifier))


def test_run_as_needs_a_permission(functions: Engine, role: str) -> None:
    with pytest.raises(psycopg.Error, match="jobs may not run as role") as caught:
        register(functions, "public.good", run_as=role)
    assert "allow_run_as" in str(caught.value.diag.message_hint)
    functions.conn.execute("SELECT rota.allow_run_as(%s)", [role])
    register(functions, "public.good", run_as=role)
    assert functions.audit(role)[0]["action"] == "run_as.allowed"


def test_the_caller_belongs_to_the_role_and_is_closed_to_others(
    functions: Engine, role: str
) -> None:
    functions.conn.execute("SELECT rota.allow_run_as(%s)", [role])
    functions.conn.execute("SELECT rota.allow_run_as(%s)", [role])
    (caller,) = functions.rows(
        "SELECT pg_get_userbyid(proowner) AS owner, prosecdef, proacl::text AS acl FROM pg_proc"
        " WHERE oid = rota.find_run_as(%s)",
        role,
    )
    assert (caller["owner"], caller["prosecdef"]) == (role, True)
    assert "{=X" not in caller["acl"]
    assert ",=X" not in caller["acl"]
    assert not functions.one("SELECT has_schema_privilege(%s, 'rota', 'CREATE')", role)


def test_not_everybody_may_allow_it(
    functions: Engine, role: str, connect: Callable[..., psycopg.Connection[Any]]
) -> None:
    conn = connect()
    conn.execute(sql.SQL("GRANT USAGE ON SCHEMA rota TO {}").format(sql.Identifier(role)))
    conn.execute(sql.SQL("SET ROLE {}").format(sql.Identifier(role)))
    with pytest.raises(psycopg.Error, match='may not let jobs run as role "postgres"') as caught:
        conn.execute("SELECT rota.allow_run_as('postgres')")
    assert caught.value.sqlstate == "RO002"
    assert "superuser" in str(caught.value.diag.message_hint)


def test_an_unknown_role_is_an_error(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match='there is no role "nobody"'):
        engine.conn.execute("SELECT rota.allow_run_as('nobody')")


def test_run_as_and_own_commits_exclude_each_other(functions: Engine, role: str) -> None:
    functions.conn.execute("SELECT rota.allow_run_as(%s)", [role])
    with pytest.raises(psycopg.Error, match="run_as and transaction_mode"):
        register(functions, "public.steps", run_as=role, transaction_mode="none")


# Rota's own.


def test_system_jobs_and_schedules_cannot_be_deleted(engine: Engine) -> None:
    for table in ("schedules", "jobs"):
        with pytest.raises(psycopg.Error, match="belongs to Rota") as caught:
            engine.conn.execute(f"DELETE FROM rota.{table} WHERE is_system".encode())
        assert caught.value.sqlstate == "RO005"
    assert not engine.one("SELECT is_enabled FROM rota.schedules WHERE is_system")


def clean(engine: Engine, *rules: dict[str, Any]) -> Any:
    return engine.one("SELECT rota.cleanup(%s)", json.dumps({"rules": rules}))


@pytest.fixture
def tokens(engine: Engine) -> Engine:
    engine.conn.execute(
        "CREATE TABLE public.tokens (id int, expires_at timestamptz, plain timestamp, day date,"
        ' "Is used" boolean, note text)'
    )
    engine.conn.execute(
        "INSERT INTO public.tokens SELECT n, rota.now() - n * interval '1 hour',"
        " (rota.now() AT TIME ZONE 'UTC') - n * interval '1 hour', current_date - n, n % 2 = 0,"
        " CASE WHEN n > 5 THEN 'x''y' END FROM generate_series(0, 9) n"
    )
    return engine


def left(engine: Engine) -> list[int]:
    return [row["id"] for row in engine.rows("SELECT id FROM public.tokens ORDER BY id")]


RULE = {"table": "public.tokens", "column": "expires_at", "older_than": "150 minutes"}


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({}, [0, 1, 2]),
        ({"older_than": 9000}, [0, 1, 2]),
        ({"column": "plain"}, [0, 1, 2]),
        ({"column": "day", "older_than": "7 days"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        ({"batch_size": 1}, [0, 1, 2]),
        ({"where": {"column": "Is used", "op": "=", "value": True}}, [0, 1, 2, 3, 5, 7, 9]),
        ({"where": [{"column": "note", "op": "IS NULL"}]}, [0, 1, 2, 6, 7, 8, 9]),
        ({"where": {"column": "note", "op": "=", "value": "x'y"}}, [0, 1, 2, 3, 4, 5]),
        (
            {
                "where": [
                    {"column": "id", "op": ">", "value": 3},
                    {"column": "id", "op": "<", "value": 6},
                ]
            },
            [0, 1, 2, 3, 6, 7, 8, 9],
        ),
    ],
)  # fmt: skip
def test_rules(tokens: Engine, change: dict[str, Any], kept: list[int]) -> None:
    tokens.conn.execute("SET timezone = 'Pacific/Auckland'")
    answer = clean(tokens, RULE | change)
    assert left(tokens) == kept
    assert answer["message"] == f"{10 - len(kept)} expired rows removed"
    assert not answer["details"]["rules"][0]["has_more"]


def test_a_rule_stops_at_its_limit(tokens: Engine) -> None:
    answer = clean(tokens, RULE | {"batch_size": 2, "max_batches": 2})
    (told,) = answer["details"]["rules"]
    assert (told["removed"], told["has_more"]) == (4, True)


def test_rows_that_somebody_holds_wait(tokens: Engine, other: Engine) -> None:
    with other.conn.transaction():
        other.conn.execute("SELECT FROM public.tokens WHERE id = 7 FOR UPDATE")
        assert clean(tokens, RULE)["details"]["rules"][0]["removed"] == 6
    assert left(tokens) == [0, 1, 2, 7]


@pytest.mark.parametrize(
    ("kind", "condition", "removed"),
    [
        ("char(3)", {"op": "=", "value": "old"}, 1),
        ("varchar(3)", {"op": "<>", "value": "older"}, 2),
        ("mood", {"op": "=", "value": "old"}, 1),
        ("mood", {"op": "in", "value": ["old", "new"]}, 2),
        ("word", {"op": "=", "value": "old"}, 1),
        ("word", {"op": "in", "value": ["old"]}, 1),
        ("name", {"op": ">", "value": "new"}, 1),
        ("loose", {"op": "=", "value": "OLD"}, 1),
        ("loose", {"op": "<>", "value": "OLD"}, 1),
        ("text[]", {"op": "=", "value": "{old}"}, 1),
    ],
)
def test_conditions_compare_as_the_type_does(
    engine: Engine, kind: str, condition: dict[str, Any], removed: int
) -> None:
    """A domain without its checks, an extension's type by its own operators."""
    engine.conn.execute("CREATE TYPE mood AS ENUM ('old', 'new')")
    engine.conn.execute("CREATE DOMAIN word AS varchar(10) CHECK (VALUE <> 'zzz')")
    if kind == "loose":
        try:
            engine.conn.execute("CREATE EXTENSION citext")
        except psycopg.Error:
            pytest.skip("the server has no extension citext")
        kind = "citext"
    engine.conn.execute(f"CREATE TABLE kinds (at timestamptz, a {kind})".encode())
    values = ["{old}", "{new}"] if kind == "text[]" else ["old", "new"]
    for value in values:
        engine.rows(f"INSERT INTO kinds VALUES (now() - interval '1 day', %s::{kind})", value)
    rule = {
        "table": "kinds",
        "column": "at",
        "older_than": 60,
        "where": {"column": "a"} | condition,
    }
    found = engine.one("SELECT rota.cleanup(%s)", json.dumps({"rules": [rule]}))
    assert found["details"]["rules"][0]["removed"] == removed


def test_partitioned_tables(engine: Engine) -> None:
    engine.conn.execute(
        "CREATE TABLE public.parts (n int, at timestamptz) PARTITION BY RANGE (n);"
        "CREATE TABLE public.low PARTITION OF public.parts FOR VALUES FROM (0) TO (5);"
        "CREATE TABLE public.high PARTITION OF public.parts FOR VALUES FROM (5) TO (10);"
        "INSERT INTO public.parts SELECT n, CASE WHEN n <> 5 THEN now() - interval '1 day' END"
        " FROM generate_series(0, 9) n"
    )
    clean(engine, {"table": "public.parts", "column": "at", "older_than": 0, "batch_size": 2})
    assert engine.one("SELECT array_agg(n) FROM public.parts") == [5]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": "public.absent"}, 'there is no table "public.absent"'),
        ({"table": "tokens; DROP TABLE tokens"}, "there is no table|invalid name syntax"),
        ({"table": "rota.jobs"}, "cannot be removed"),
        ({"table": "pg_catalog.pg_stat_activity"}, "cannot be removed"),
        ({"column": "absent"}, 'has no column "absent"'),
        ({"column": "ctid"}, 'has no column "ctid"'),
        ({"column": "note"}, "is text, not a time"),
        ({"older_than": None}, "older_than must be an interval"),
        ({"older_than": "-1 day"}, "older_than must not be negative"),
        ({"older_than": "soon"}, "is not an interval"),
        ({"where": {"column": "note", "op": "LIKE", "value": "%"}}, "op must be"),
        ({"where": {"column": "note", "op": "= '' OR ''", "value": ""}}, "op must be"),
        ({"where": {"column": "note", "op": "="}}, "op must be"),
        ({"where": "true"}, "a condition or a list"),
        ({"batch_size": 0}, "at least 1"),
    ],
)
def test_a_rule_that_does_not_fit_is_refused(
    tokens: Engine, change: dict[str, Any], words: str
) -> None:
    with pytest.raises(psycopg.Error, match=words):
        clean(tokens, RULE | change)
    assert len(left(tokens)) == 10


def test_a_payload_without_rules_is_refused(engine: Engine) -> None:
    with pytest.raises(psycopg.Error, match="the payload of cleanup must be"):
        engine.one("SELECT rota.cleanup('{}')")


# All together.


async def test_a_scheduled_sql_job_end_to_end(
    app: rota.App, functions: Engine, clock: Clock
) -> None:
    """Registered, scheduled and read by SQL alone."""
    register(functions, "public.good")
    functions.conn.execute(
        "INSERT INTO rota.schedules (name, job, cron, payload)"
        " VALUES ('hourly', 'job', '0 * * * *', '{\"n\": 1}')"
    )
    clock.advance(3600)
    query = "SELECT * FROM rota.occurrences WHERE schedule = 'hourly'"
    async with app.worker():

        def has_run() -> bool:
            return [row["state"] for row in functions.rows(query)] == ["succeeded"]

        await eventually(has_run)
    (occurrence,) = functions.rows(query)
    run = functions.run(occurrence["run_id"])
    assert (run["job"], run["message"], run["payload"]) == ("job", "done", {"n": 1})
    assert run["scheduled_for"] == occurrence["nominal_at"]


def test_the_four_examples_of_the_guide(engine: Engine) -> None:
    """Its block as it stands: what goes, and what stays."""
    block = next(text for text in guide_blocks() if "stale_session_cleanup" in text)
    engine.conn.execute(block.partition("INSERT INTO public.sessions")[0].encode())
    engine.conn.execute(
        b"""
        INSERT INTO sessions VALUES (now() - interval '1 s'), (now() + interval '1 h');
        INSERT INTO webhook_deliveries VALUES (now() - interval '169 h', 'done'),
            (now() - interval '169 h', 'pending'), (now() - interval '167 h', 'done');
        INSERT INTO oauth_tokens VALUES
            (now() - interval '25 h', NULL), (now() - interval '23 h', NULL),
            (now() + interval '1 h', now() - interval '25 h'), (now() + interval '1 h', NULL);
        INSERT INTO oauth_authorization_codes VALUES (now() - interval '1 s', NULL),
            (now() + interval '1 h', now() - interval '25 h'), (now() + interval '1 h', now());
        INSERT INTO magic_links VALUES (now() - interval '1 s'), (now() + interval '1 h');
        INSERT INTO password_resets VALUES (now() - interval '1 s'), (NULL);
    """
    )
    wanted = {
        "stale_session_cleanup": ("0 * * * *", [1]),
        "webhook_delivery_prune": ("0 3 * * *", [1]),
        "expired_oauth_cleanup": ("0 4 * * *", [1, 1, 1, 1]),
        "expired_auth_cleanup": ("0 5 * * *", [1, 1]),
    }
    rows = engine.rows("SELECT name, cron, payload FROM rota.schedules WHERE NOT is_system")
    assert {row["name"]: row["cron"] for row in rows} == {k: v[0] for k, v in wanted.items()}
    for row in rows:
        done = clean(engine, *row["payload"]["rules"])["details"]["rules"]
        assert [one["removed"] for one in done] == wanted[row["name"]][1], row["name"]


def guide_blocks() -> list[str]:
    from tests.docs.test_examples import ROOT, examples

    page = ROOT / "docs" / "guides" / "sql-jobs.md"
    return [example.text for example in examples(page) if example.language == "sql"]
