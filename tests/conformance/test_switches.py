"""Enabling, disabling, pausing and resuming what is so already: nothing is written, and the answer
says so. In SQL, by every switch."""

from __future__ import annotations

import pytest

from tests.sql_engine import Engine

# The switch, and what it answers the second time.
SWITCHES = {
    "SELECT rota.set_job_enabled('work', false)": False,
    "SELECT rota.disable_schedule('s')": False,
    "SELECT rota.set_schedule_enabled('s', false)": False,
    "SELECT rota.pause_schedule('s', 'moving')": False,
    "SELECT rota.pause_schedule('s', 'moving', 'tomorrow')": False,
    "SELECT rota.pause_queue('mail', 'moving')": False,
    "SELECT rota.pause_queue('mail', 'moving', until => 'tomorrow')": False,
    "SELECT rota.pause_tenant('acme', 'moving')": None,
    "SELECT rota.pause_tenant('acme', 'moving', 'tomorrow')": None,
    "SELECT rota.drain_worker(max(id), reason => 'kernel') FROM rota.workers": False,
    "SELECT rota.drain_worker(max(id), stop => true) FROM rota.workers": False,
    "SELECT rota.drain_worker(max(id), at_once => true) FROM rota.workers": False,
    "SELECT rota.pause_bulk_action(max(id)) FROM rota.bulk_actions": False,
    "SELECT rota.stop_bulk_action(max(id)) FROM rota.bulk_actions": False,
}
BACK = {
    "SELECT rota.set_job_enabled('work', true)": False,
    "SELECT rota.enable_schedule('s')": False,
    "SELECT rota.resume_schedule('s')": False,
    "SELECT rota.resume_schedule('s', true)": False,
    "SELECT rota.resume_queue('mail')": False,
    "SELECT rota.resume_tenant('acme')": None,
    "SELECT rota.resume_worker(max(id)) FROM rota.workers": False,
    "SELECT rota.resume_bulk_action(max(id)) FROM rota.bulk_actions": False,
}


@pytest.fixture
def engine(engine: Engine) -> Engine:
    engine.rows("INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('s', 'work', 60)")
    engine.worker()
    engine.one("SELECT rota.start_bulk_action('cancel', '{\"job\": \"work\"}')")
    return engine


def wrote(answer: object) -> bool:
    """A tenant's switch answers how many runs it moved, which may be 0."""
    return answer is not False and answer is not None


def written(engine: Engine) -> object:
    """Everything that a switch may write."""
    return engine.one(
        "SELECT jsonb_build_object('audit', (SELECT count(*) FROM rota.audit),"
        " 'jobs', (SELECT jsonb_agg(j) FROM rota.jobs j),"
        " 'schedules', (SELECT jsonb_agg(s) FROM rota.schedules s),"
        " 'queues', (SELECT jsonb_agg(q) FROM rota.queues q),"
        " 'workers', (SELECT jsonb_agg(w) FROM rota.workers w),"
        " 'bulk', (SELECT jsonb_agg(b) FROM rota.bulk_actions b),"
        " 'tenants', (SELECT jsonb_agg(t) FROM rota.tenants t))"
    )


@pytest.mark.parametrize("switch", SWITCHES)
def test_a_switch_that_is_thrown_twice(engine: Engine, switch: str) -> None:
    assert wrote(engine.one(switch))
    before = written(engine)
    engine.one("SELECT set_config('rota.actor', 'grace', false)")
    assert engine.one(switch) is SWITCHES[switch]
    assert written(engine) == before


@pytest.mark.parametrize("switch", BACK)
def test_a_switch_that_nobody_has_thrown(engine: Engine, switch: str) -> None:
    before = written(engine)
    assert engine.one(switch) is BACK[switch]
    assert written(engine) == before


@pytest.mark.parametrize("noun", ["schedule", "queue", "tenant"])
def test_without_a_reason_the_one_that_was_given_stays(engine: Engine, noun: str) -> None:
    name = {"schedule": "s", "queue": "mail", "tenant": "acme"}[noun]
    reason = f"SELECT pause_reason FROM rota.{noun}s WHERE name = '{name}'"
    engine.one(f"SELECT rota.pause_{noun}('{name}', 'moving')")
    assert not wrote(engine.one(f"SELECT rota.pause_{noun}('{name}')"))
    assert engine.one(reason) == "moving"
    assert wrote(engine.one(f"SELECT rota.pause_{noun}('{name}', 'broken')"))
    assert engine.one(reason) == "broken"
    assert len([row for row in engine.audit(name) if row["action"] != f"{noun}.created"]) == 2
