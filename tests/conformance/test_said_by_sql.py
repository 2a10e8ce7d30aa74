"""What is said by plain SQL is read as a whole, or refused: nothing of it is passed over."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine

CLEANUP = "INSERT INTO rota.schedules (name, job, cron, payload) VALUES ('tidy', %s, '@daily', %s)"
RULE = {"table": "public.visits", "column": "at", "older_than": 60}


@pytest.fixture
def visits(engine: Engine) -> Engine:
    engine.conn.execute("CREATE TABLE public.visits (id int PRIMARY KEY, at timestamptz, n int)")
    return engine


def refused(engine: Engine, words: str, statement: str, *values: Any) -> psycopg.Error:
    with pytest.raises(psycopg.Error, match=words) as caught:
        engine.conn.execute(statement, values or None)
    return caught.value


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"wher": {"column": "n", "op": "<", "value": 5}}, 'rule 1: unknown key "wher"'),
        ({"Where": []}, 'rule 1: unknown key "Where"'),
        ({"where": {"column": "n", "op": "<", "value": 5, "or": 1}}, 'rule 1: unknown key "or"'),
        ({"older_than": "-1 day"}, 'rule 1: older_than must not be negative: "-1 day"'),
        ({"older_than": True}, "rule 1: older_than must be an interval or a number of seconds"),
    ],
)
def test_a_rule_of_cleanup(visits: Engine, odd: dict[str, Any], words: str) -> None:
    """A condition that is misspelt would remove what it was to keep."""
    payload = json.dumps({"rules": [RULE | odd]})
    error = refused(visits, words, CLEANUP, "rota.cleanup", payload)
    assert error.sqlstate == "RO002"
    planned = refused(visits, words, "SELECT * FROM rota.plan_cleanup(%s)", payload)
    assert planned.sqlstate == "RO002"


def test_a_rule_of_cleanup_that_is_right(visits: Engine) -> None:
    rule = RULE | {"where": [{"column": "n", "op": "<", "value": 5}], "batch_size": 10}
    visits.conn.execute(CLEANUP, ["rota.cleanup", json.dumps({"rules": [rule]})])


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        (["work"], 'requires cannot contain "work"'),
        ([{"nam": "work"}], "requires cannot contain"),
        ([{"name": ""}], "requires cannot contain"),
        ([{"name": "work", "within": 5}], "requires cannot contain"),
        ([{"name": "work", "within_seconds": 0}], "requires cannot contain"),
        ([{"name": "work", "within_seconds": "1 h"}], "requires cannot contain"),
        ([{"name": "nothing"}], 'requires "nothing": no schedule or job has that name'),
    ],
)
@pytest.mark.commits
def test_requirements(engine: Engine, requires: list[Any], words: str) -> None:
    insert = (
        "INSERT INTO rota.schedules (name, job, cron, requires)"
        " VALUES ('s', 'work', '0 3 * * *', %s)"
    )
    error = refused(engine, f'schedule "s": {words}', insert, json.dumps(requires))
    assert error.sqlstate == "RO002"
    engine.job("other")
    engine.conn.execute(insert, ['[{"name": "other", "within_seconds": 60}, {"name": "other"}]'])
    update = "UPDATE rota.schedules SET requires = %s WHERE name = 's'"
    refused(engine, f'schedule "s": {words}', update, json.dumps(requires))


def test_no_payload_is_the_schedules_own(engine: Engine) -> None:
    engine.rows("UPDATE rota.jobs SET payload_schema = %s", '{"required": ["n"]}')
    engine.rows(
        "INSERT INTO rota.schedules (name, job, cron, payload)"
        " VALUES ('s', 'work', '0 3 * * *', '{\"n\": 1}')"
    )
    for payload in ("NULL", "'null'"):
        made = engine.one(f"SELECT rota.trigger_schedule('s', {payload}) ->> 'run_id'")
        assert engine.run(int(made))["payload"] == {"n": 1}
    refused(engine, "argument n is missing", "SELECT rota.trigger_schedule('s', '{}')")


def test_a_new_payload_of_a_retry_fits_the_job(engine: Engine) -> None:
    run = engine.enqueue("work")
    engine.one("SELECT rota.cancel_run(%s)", run)
    engine.rows("UPDATE rota.jobs SET payload_schema = %s", '{"required": ["n"]}')
    error = refused(
        engine,
        f'run {run}: the payload does not fit job "work": argument n is missing',
        "SELECT rota.retry_run(%s, payload => '{\"m\": 1}')",
        run,
    )
    assert error.sqlstate == "RO018"
    assert engine.one("SELECT rota.retry_run(%s, payload => '{\"n\": 1}')", run) == run


def test_a_watch_is_made_once(visits: Engine) -> None:
    watch = "SELECT rota.watch_table('public.visits', '{insert}', condition => %s)"
    first = visits.one(watch, None)
    assert visits.one(watch, None) == first
    other = visits.one(watch, "new.n > 1")
    assert other != first
    assert visits.one(watch, "new.n > 1") == other
    visits.conn.execute(f"DROP TRIGGER rota_watch_{first}_insert ON public.visits".encode())
    assert visits.one(watch, None) not in (first, other), "the first one is broken"


@pytest.mark.parametrize("end", ["DROP TABLE visits", "ALTER TABLE visits RENAME TO visitors"])
def test_a_watch_is_removed_by_the_name_that_lists_show(visits: Engine, end: str) -> None:
    """With and without its schema, when the table has another name, or is gone."""
    for name in ("visits", "public.visits"):
        watch = visits.one("SELECT rota.watch_table('public.visits')")
        with visits.conn.transaction(force_rollback=True):
            visits.conn.execute(end.encode())
            assert visits.one("SELECT table_name FROM rota.watches()") == "public.visits"
            assert visits.one("SELECT rota.unwatch_table(%s)", name) == [watch]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT rota.emit('a.b', '{}', tenant => NULL)", "at most 200 characters"),
        ("""SELECT rota.set_limit('x', '{"cap": "x"}')""", 'limit "x": cap must be a number'),
        ("SELECT rota.reschedule('s', 'infinity')", "9999-12-30, UTC.*infinity"),
        ("SELECT rota.reschedule('s', '9999-12-31 00:00Z')", "9999-12-30, UTC.*not 9999-12-31"),
    ],
)
def test_refusals_name_what_was_said(engine: Engine, statement: str, words: str) -> None:
    engine.rows("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '0 3 * * *')")
    assert (refused(engine, words, statement).sqlstate or "").startswith("RO")


def test_a_backfill_waits_as_long_as_the_job_says(engine: Engine) -> None:
    engine.rows("UPDATE rota.jobs SET delay_seconds = 3600")
    engine.rows("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '0 3 * * *')")
    engine.one(
        "SELECT rota.backfill_schedule('s', ARRAY[rota.now() - interval '1 day'],"
        " ARRAY[NULL::timestamptz], ARRAY[rota.now()], rota.now() - interval '2 days', rota.now())"
    )
    assert engine.one("SELECT run_at > rota.now() + interval '59 minutes' FROM rota.open_runs")


@pytest.mark.parametrize(
    ("statement", "argument"),
    [
        ("SELECT rota.emit('a.b', jsonb_build_object('x', repeat(md5('y'), 90000)))", "payload"),
        ("SELECT rota.emit('a.b', '{}', key => '')", "key"),
        ("SELECT rota.enqueue('work', delay => '-1 second')", "delay"),
        ("SELECT rota.enqueue('work', expires_in => '-1 second')", "expires_in"),
        ("UPDATE rota.schedules SET timeout_seconds = 0.0001", "timeout_seconds"),
        ("UPDATE rota.schedules SET timeout_seconds = 1e9", "timeout_seconds"),
    ],
)
def test_refusals_name_the_argument(engine: Engine, statement: str, argument: str) -> None:
    engine.rows("INSERT INTO rota.schedules (name, job, cron) VALUES ('s', 'work', '0 3 * * *')")
    with pytest.raises(psycopg.Error) as caught:
        engine.conn.execute(statement.encode())
    assert caught.value.diag.column_name == argument
