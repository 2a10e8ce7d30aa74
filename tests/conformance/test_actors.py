"""An actor and a reason that are given to one function are about what it does, and nothing else."""

from __future__ import annotations

import pytest

from tests.sql_engine import Engine

# Each of them takes an actor and a reason, and writes to the audit.
CALLS = (
    "pause_queue('other'", "resume_queue('held'", """set_queue('held', '{"max_waiting": 5}'""",
    "reset_queue('capped'", "pause_schedule('daily'", "resume_schedule('paused'",
    "enable_schedule('off'", "disable_schedule('daily'", "set_schedule_enabled('daily', false",
    "trigger_schedule('daily'", "reschedule('daily', rota.now() + interval '1 hour'",
    "delete_schedule('daily'", "set_job_enabled('work', false", "delete_job('idle'",
    """set_limit('few', '{"kind": "concurrency", "cap": 1}'""", "remove_limit('many'",
    """set_tenant('acme', '{"weight": 2}'""", "pause_tenant('acme'", "resume_tenant('waiting'",
    "reset_tenant('heavy'", "cancel_run((SELECT id FROM rota.open_runs)",
)  # fmt: skip
# Called by code only, which has no reasons, or says it for the rest of the transaction by intent.
WITHOUT_REASON = {
    "act_as", "event_trigger", "put_queue", "put_schedule", "put_schedules", "watch_table",
}  # fmt: skip
SAID = "SELECT current_setting('rota.actor') || ', ' || current_setting('rota.reason')"


@pytest.fixture
def engine(engine: Engine) -> Engine:
    engine.job("idle")
    schedule = "INSERT INTO rota.schedules (name, job, cron) VALUES (%s, 'work', '0 3 * * *')"
    for name in ("daily", "paused", "off"):
        engine.rows(schedule, name)
    engine.enqueue("work")
    for statement in (
        "rota.pause_queue('held')",
        "rota.pause_schedule('paused')",
        "rota.disable_schedule('off')",
        "rota.set_queue('capped', '{\"max_waiting\": 7}')",
        'rota.set_limit(\'many\', \'{"kind": "concurrency", "cap": 1}\')',
        "rota.pause_tenant('waiting')",
        "rota.set_tenant('heavy', '{\"weight\": 9}')",
    ):
        engine.one(f"SELECT {statement}")
    engine.rows("TRUNCATE rota.audit")
    return engine


@pytest.mark.parametrize("call", CALLS)
def test_of_one_call(engine: Engine, call: str) -> None:
    with engine.conn.transaction():
        engine.rows("SET LOCAL rota.actor = 'ada'")
        engine.rows("SET LOCAL rota.reason = 'a quiet day'")
        engine.one(f"SELECT rota.{call}, actor => 'bob', reason => 'the flood')")
        assert engine.one(SAID) == "ada, a quiet day"
        engine.rows("INSERT INTO rota.calendars (name, definition) VALUES ('c', '{}')")
    *entries, last = engine.rows("SELECT actor, reason FROM rota.audit ORDER BY id")
    assert entries != []
    assert all(entry == {"actor": "bob", "reason": "the flood"} for entry in entries)
    assert last == {"actor": "ada", "reason": "a quiet day"}


@pytest.mark.parametrize("call", CALLS)
def test_else_of_the_transaction(engine: Engine, call: str) -> None:
    with engine.conn.transaction():
        engine.rows("SET LOCAL rota.actor = 'ada'")
        engine.rows("SET LOCAL rota.reason = 'a quiet day'")
        engine.one(f"SELECT rota.{call})")
    entries = engine.rows("SELECT actor, reason FROM rota.audit")
    assert entries != []
    assert all(entry == {"actor": "ada", "reason": "a quiet day"} for entry in entries)


def test_whoever_takes_an_actor_takes_a_reason(engine: Engine) -> None:
    names = engine.rows(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'rota'::regnamespace"
        " AND 'actor' = ANY (proargnames) AND NOT 'reason' = ANY (proargnames)"
        " AND proargmodes IS NULL"
    )
    assert {row["proname"] for row in names} == WITHOUT_REASON
