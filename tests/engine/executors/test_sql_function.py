"""SQL functions as bodies of runs: the contract, one transaction, notices, stopping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

GOOD = """jsonb_build_object('success', true, 'message', 'done', 'details', '{"n": 1}'::jsonb)"""


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    """Retries come at once."""
    return make_app(runs={"backoff_base_seconds": 0, "backoff_jitter_seconds": 0})


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    conn.execute("CREATE TABLE public.effects (n int)")
    conn.execute("CREATE TABLE public.checked (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    return Engine(conn)


def declare(engine: Engine, body: str, *, arguments: str = "payload jsonb", **columns: Any) -> None:
    """Job `work`, whose function has this body."""
    engine.conn.execute(
        f"CREATE FUNCTION public.work({arguments}) RETURNS jsonb LANGUAGE plpgsql AS"
        f" $body$ BEGIN {body} END $body$".encode()
    )
    engine.job("work", kind="sql", function_name="public.work", **columns)


def effects(engine: Engine) -> list[int]:
    return [row["n"] for row in engine.rows("SELECT n FROM effects ORDER BY n")]


async def ended(engine: Engine, run_id: int) -> dict[str, Any]:
    def check() -> dict[str, Any]:
        row = engine.run(run_id)
        assert row["finished_at"] is not None, row["state"]
        return row

    found: dict[str, Any] = await eventually(check)
    return found


async def carry_out(app: rota.App, engine: Engine, payload: Any = None, **options: Any) -> Any:
    run_id = engine.enqueue("work", payload, **options)
    async with app.worker():
        return await ended(engine, run_id)


async def test_success_is_stored_with_message_details_and_result(
    app: rota.App, engine: Engine
) -> None:
    declare(engine, f"INSERT INTO effects VALUES ((payload ->> 'n')::int); RETURN {GOOD};")
    run = await carry_out(app, engine, {"n": 7})
    assert (run["state"], run["message"], run["end_reason"]) == ("succeeded", "done", None)
    assert run["result"] == {"success": True, "message": "done", "details": {"n": 1}}
    assert run["duration_ms"] > 0
    (attempt,) = engine.attempts(run["id"])
    assert (attempt["state"], attempt["details"]) == ("succeeded", {"n": 1})
    assert effects(engine) == [7]


async def test_details_keep_their_digits(app: rota.App, engine: Engine) -> None:
    details = '{"n": 12345678901234567.123, "m": 9007199254740993}'
    answer = f"""'{{"success": true, "message": "m", "details": {details}}}'::jsonb"""
    declare(engine, f"RETURN {answer};")
    run = await carry_out(app, engine)
    stored = "SELECT details::text FROM rota.attempts WHERE run_id = %s"
    assert engine.one(stored, run["id"]) == '{"m": 9007199254740993, "n": 12345678901234567.123}'


async def test_a_function_without_arguments(app: rota.App, engine: Engine) -> None:
    declare(engine, f"RETURN {GOOD};", arguments="")
    assert (await carry_out(app, engine))["state"] == "succeeded"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("NULL", "it returned NULL"),
        ("'null'::jsonb", "it returned null"),
        ("'[1]'::jsonb", "must return an object {success, message, details?}; it returned [1]"),
        ("""'{"message": "m"}'::jsonb""", 'no "success"; it returned {"message": "m"}'),
        ("""'{"success": true}'::jsonb""", 'no "message"'),
        ("""'{"success": "yes", "message": "m"}'::jsonb""", '"success" must be a boolean'),
        ("""'{"success": true, "message": 5}'::jsonb""", '"message" must be a text'),
        (
            """'{"success": true, "message": "m", "details": 1e400}'::jsonb""",
            "cannot be stored as JSON: the number 10000000000000000000… (401 characters)",
        ),
    ],
)
async def test_another_answer_is_a_failure_that_quotes_it(
    app: rota.App, engine: Engine, answer: str, words: str
) -> None:
    declare(engine, f"INSERT INTO effects VALUES (1); RETURN {answer};", max_attempts=1)
    run = await carry_out(app, engine)
    assert run["state"] == "failed"
    assert words in run["last_error"]
    assert engine.attempts(run["id"])[0]["error_type"] == "InvalidResult"
    assert effects(engine) == []


async def test_an_exception_rolls_back_and_is_retried(app: rota.App, engine: Engine) -> None:
    declare(engine, "INSERT INTO effects VALUES (1); PERFORM 1 / 0; RETURN NULL;", max_attempts=2)
    run = await carry_out(app, engine)
    assert (run["state"], run["end_reason"]) == ("failed", "attempts used up")
    first, last = engine.attempts(run["id"])
    assert first["state"] == last["state"] == "failed"
    assert last["error_type"] == "DivisionByZero (22012)"
    assert last["error"] == "division by zero"
    assert "SQLSTATE: 22012" in last["traceback"]
    assert "CONTEXT: SQL " in last["traceback"]
    assert "function work(jsonb)" in last["traceback"]
    assert effects(engine) == []


async def test_success_false_keeps_the_writes_of_each_attempt(
    app: rota.App, engine: Engine
) -> None:
    declare(
        engine,
        "INSERT INTO effects VALUES (1); RETURN jsonb_build_object('success', false,"
        " 'message', 'two are missing', 'details', jsonb_build_object('missing', 2));",
        max_attempts=2,
    )
    run = await carry_out(app, engine)
    assert (run["state"], run["message"]) == ("failed", "two are missing")
    assert [attempt["details"] for attempt in engine.attempts(run["id"])] == [{"missing": 2}] * 2
    assert [attempt["error"] for attempt in engine.attempts(run["id"])] == ["two are missing"] * 2
    assert effects(engine) == [1, 1]


async def test_a_deferred_constraint_fails_the_attempt(app: rota.App, engine: Engine) -> None:
    declare(engine, f"INSERT INTO checked VALUES (1), (1); RETURN {GOOD};", max_attempts=1)
    run = await carry_out(app, engine)
    assert (run["state"], run["result"]) == ("failed", None)
    assert engine.one("SELECT count(*) FROM checked") == 0


async def test_what_the_function_sets_does_not_reach_the_end(app: rota.App, engine: Engine) -> None:
    """A count() of its own, found first, would otherwise run in the statement of the fence."""
    engine.conn.execute("CREATE SCHEMA evil")
    engine.conn.execute(
        "CREATE FUNCTION evil.nothing(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'"
    )
    engine.conn.execute(
        "CREATE AGGREGATE evil.count(*) (sfunc = evil.nothing, stype = bigint, initcond = '0')"
    )
    declare(engine, f"SET search_path = evil, pg_catalog; SET lock_timeout = 1; RETURN {GOOD};")
    assert (await carry_out(app, engine))["state"] == "succeeded"


async def test_notices_are_log_lines_also_of_what_was_rolled_back(
    app: rota.App, engine: Engine
) -> None:
    declare(
        engine,
        "RAISE NOTICE 'a % b', 1; RAISE INFO 'info'; RAISE LOG 'log'; RAISE DEBUG 'unwanted';"
        " RAISE WARNING 'careful' USING HINT = 'slow down'; PERFORM 1 / 0;",
        max_attempts=1,
    )
    run = await carry_out(app, engine)
    lines = engine.rows("SELECT * FROM rota.logs WHERE run_id = %s ORDER BY seq", run["id"])
    assert [(line["level"], line["message"]) for line in lines] == [
        ("info", "a 1 b"), ("info", "info"), ("info", "log"), ("warning", "careful"),
        ("error", "DivisionByZero (22012): division by zero"),
    ]  # fmt: skip
    assert lines[-2]["fields"] == {"hint": "slow down"}


async def test_timeout(app: rota.App, engine: Engine) -> None:
    declare(engine, "PERFORM pg_sleep(60); RETURN NULL;", max_attempts=1, timeout_seconds=0.3)
    run = await carry_out(app, engine)
    assert run["last_error"] == "attempt exceeded its timeout of 0.3 s"
    assert engine.attempt_states(run["id"]) == ["timed_out"]


async def test_cancel_reaches_the_server(app: rota.App, engine: Engine) -> None:
    declare(engine, "INSERT INTO effects VALUES (1); PERFORM pg_sleep(60); RETURN NULL;")
    run_id = engine.enqueue("work")
    async with app.worker():
        await eventually(lambda: backends(engine) == 1)
        engine.cancel(run_id, "enough", "ada")
        run = await ended(engine, run_id)
    assert (run["state"], run["end_reason"]) == ("cancelled", "cancelled by ada: enough")
    assert effects(engine) == []
    await eventually(lambda: backends(engine, "") == 0)


def backends(engine: Engine, query: str = "SELECT public.work%") -> int:
    return int(
        engine.one(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'rota run %%%%' AND query LIKE %s",
            query or "%",
        )
    )


async def test_a_lost_lease_leaves_no_effect(app: rota.App, engine: Engine) -> None:
    """Somebody else owns the run when the function returns: the fence rolls its writes back."""
    declare(
        engine,
        "INSERT INTO effects VALUES ((SELECT count(*) FROM rota.attempts));"
        f" PERFORM pg_advisory_xact_lock(42); RETURN {GOOD};",
    )
    run_id = engine.enqueue("work")
    engine.conn.execute("SELECT pg_advisory_lock(42)")
    async with app.worker():
        await eventually(lambda: backends(engine) == 1)
        # As a rescue does it: the attempt is lost, another number runs next.
        engine.conn.execute("UPDATE rota.open_runs SET attempt = attempt + 1")
        engine.conn.execute("SELECT pg_advisory_unlock(42)")
        await eventually(lambda: backends(engine, "") == 0)
        assert engine.state(run_id) == "running"
        assert effects(engine) == []


async def test_shutdown_cuts_it_off_and_it_goes_on_elsewhere(
    make_app: MakeApp, engine: Engine
) -> None:
    app = make_app(**{"worker.shutdown_seconds": 0.1})
    declare(engine, "INSERT INTO effects VALUES (1); PERFORM pg_sleep(60); RETURN NULL;")
    run_id = engine.enqueue("work")
    async with app.worker():
        await eventually(lambda: backends(engine) == 1)
    assert engine.state(run_id) == "queued"
    assert engine.run(run_id)["attempts_used"] == 0
    assert effects(engine) == []


async def test_a_killed_worker_leaves_nothing_and_the_next_one_does_it_once(
    worker_process: Callable[..., WorkerProcess], engine: Engine
) -> None:
    declare(
        engine,
        "INSERT INTO effects VALUES (1); PERFORM pg_sleep(60) WHERE NOT EXISTS"
        " (SELECT FROM rota.past_attempts);"
        f" RETURN {GOOD};",
    )
    run_id = engine.enqueue("work")
    first = worker_process("tests.apps.basic:app")
    await eventually(lambda: backends(engine) == 1)
    first.kill()
    worker_process("tests.apps.basic:app")
    assert (await ended(engine, run_id))["state"] == "succeeded"
    assert engine.attempt_states(run_id) == ["lost", "succeeded"]
    assert effects(engine) == [1]


# What happens to the function after the registration.


async def test_a_function_that_is_gone_is_a_recorded_failure(app: rota.App, engine: Engine) -> None:
    declare(engine, f"RETURN {GOOD};", max_attempts=2)
    engine.conn.execute("DROP FUNCTION public.work")
    run = await carry_out(app, engine)
    assert run["state"] == "failed"
    assert "there is no function" in run["last_error"]
    assert '"public.work"' in run["last_error"]
    assert engine.attempt_states(run["id"]) == ["failed", "failed"]


async def test_another_return_type_is_a_recorded_failure(app: rota.App, engine: Engine) -> None:
    declare(engine, f"RETURN {GOOD};", max_attempts=1)
    engine.conn.execute("DROP FUNCTION public.work")
    engine.conn.execute(
        "CREATE FUNCTION public.work(payload jsonb) RETURNS text LANGUAGE sql AS 'SELECT ''x'''"
    )
    run = await carry_out(app, engine)
    assert "returns text, not jsonb" in run["last_error"]


async def test_a_job_inserted_while_the_worker_runs(app: rota.App, engine: Engine) -> None:
    async with app.worker() as worker:
        declare(engine, f"RETURN {GOOD};")
        run = await ended(engine, engine.enqueue("work"))
        assert run["state"] == "succeeded"
        assert "work" in engine.one("SELECT jobs FROM rota.workers WHERE id = %s", worker.id)
        engine.conn.execute("DELETE FROM rota.jobs WHERE name = 'work'")
        jobs = "SELECT jobs FROM rota.workers WHERE id = %s"
        await eventually(lambda: "work" not in engine.one(jobs, worker.id))


async def test_the_jobs_own_backoff_is_used(app: rota.App, engine: Engine) -> None:
    declare(
        engine, "PERFORM 1 / 0;", backoff={"kind": "fixed", "base_seconds": 200}, max_attempts=2
    )
    run_id = engine.enqueue("work")
    async with app.worker():
        await eventually(lambda: engine.state(run_id) == "scheduled")
    (seconds,) = engine.rows("SELECT extract(epoch FROM run_at - rota.now()) AS s FROM rota.runs")
    assert 190 < seconds["s"] < 210


# transaction_mode none.


def declare_procedure(engine: Engine, body: str, arguments: str = "payload jsonb") -> None:
    engine.conn.execute(
        f"CREATE PROCEDURE public.work({arguments}) LANGUAGE plpgsql AS"
        f" $body$ BEGIN {body} END $body$".encode()
    )
    engine.job(
        "work", kind="sql", function_name="public.work", transaction_mode="none", max_attempts=1
    )


async def test_a_procedure_commits_by_itself(app: rota.App, engine: Engine) -> None:
    declare_procedure(engine, "INSERT INTO effects VALUES (1); COMMIT; PERFORM 1 / 0;")
    run = await carry_out(app, engine)
    assert (run["state"], run["last_error"]) == ("failed", "division by zero")
    assert effects(engine) == [1]


async def test_a_procedure_without_an_answer_has_succeeded(app: rota.App, engine: Engine) -> None:
    declare_procedure(engine, "INSERT INTO effects VALUES (1); COMMIT;")
    run = await carry_out(app, engine)
    assert (run["state"], run["message"], effects(engine)) == ("succeeded", None, [1])


async def test_a_procedure_answers_by_its_parameter(app: rota.App, engine: Engine) -> None:
    declare_procedure(
        engine,
        "COMMIT; answer := jsonb_build_object('success', answer ? 'n', 'message', 'seen');",
        "INOUT answer jsonb",
    )
    run = await carry_out(app, engine, {"n": 1})
    assert (run["state"], run["message"]) == ("succeeded", "seen")
    run_id = engine.enqueue("work", {})
    async with app.worker():
        assert (await ended(engine, run_id))["last_error"] == "seen"


async def test_a_procedure_has_a_timeout_too(app: rota.App, engine: Engine) -> None:
    declare_procedure(engine, "COMMIT; PERFORM pg_sleep(60);")
    run = await carry_out(app, engine, timeout_seconds=0.3)
    assert engine.attempt_states(run["id"]) == ["timed_out"]


# run_as.


@pytest.fixture
def clerk(engine: Engine, connect: Callable[..., psycopg.Connection[Any]]) -> Any:
    """A role with a name that needs quotes; roles belong to the whole server."""
    name = "the Clerk"
    engine.conn.execute(
        'DO $$ BEGIN CREATE ROLE "the Clerk"; EXCEPTION WHEN duplicate_object THEN NULL; END $$'
    )
    engine.conn.execute("CREATE TABLE public.secrets (n int)")
    engine.conn.execute('GRANT USAGE ON SCHEMA public TO "the Clerk"')
    engine.conn.execute('GRANT INSERT ON effects TO "the Clerk"')
    engine.conn.execute("SELECT rota.allow_run_as(%s)", [name])
    return name


async def test_a_job_runs_as_its_role(app: rota.App, engine: Engine, clerk: str) -> None:
    declare(
        engine,
        "INSERT INTO effects VALUES (1); RETURN jsonb_build_object('success', true,"
        " 'message', current_user || ' ' || (payload ->> 'n'));",
        run_as=clerk,
    )
    run = await carry_out(app, engine, {"n": 5})
    assert (run["state"], run["message"]) == ("succeeded", "the Clerk 5")


@pytest.mark.parametrize(
    ("attack", "words"),
    [
        ("RESET ROLE;", 'cannot set parameter "role" within security-definer function'),
        ("SET ROLE rota;", "within security-definer function"),
        ("SET SESSION AUTHORIZATION DEFAULT;", "within security-definer function"),
        ("PERFORM * FROM secrets;", "permission denied for table secrets"),
    ],
)
async def test_run_as_is_a_wall(
    app: rota.App, engine: Engine, clerk: str, attack: str, words: str
) -> None:
    declare(engine, f"{attack} RETURN {GOOD};", run_as=clerk, max_attempts=1)
    run = await carry_out(app, engine)
    assert run["state"] == "failed"
    assert words in run["last_error"]


async def test_deferred_triggers_run_as_the_role_too(
    app: rota.App, engine: Engine, clerk: str
) -> None:
    """At the commit they would run as the worker."""
    engine.conn.execute(
        "CREATE FUNCTION public.spring() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE NOTICE 'sprung as %', current_user; RETURN NULL; END $$"
    )
    engine.conn.execute(
        "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON effects DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION spring()"
    )
    declare(engine, f"INSERT INTO effects VALUES (1); RETURN {GOOD};", run_as=clerk)
    await carry_out(app, engine)
    assert engine.one("SELECT message FROM rota.logs") == "sprung as the Clerk"
