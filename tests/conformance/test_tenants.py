"""Tenants in plain SQL: settings, pause, quota, and the rule of their names."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from rota.model.tenant import tenant_fault
from tests.sql_engine import Engine

HOSTILE = [
    "acme", "Ünïcode GmbH & Co", "'; DROP TABLE rota.open_runs; --", "<script>alert(1)<b>",
    "{braces}", "%s", "50%", "-rf", "a\\b", "..", "日本", "\u202eabc", '"quoted"', "a  b",
    "x" * 200,
]  # fmt: skip
REFUSED = ["a/b", "/", "", " a", "a ", "a\nb", "\t", "\x7f", "\x01", "x" * 201]


def tend(engine: Engine, most: int = 1000) -> int:
    return int(engine.one("SELECT moved FROM rota.tend_tenants(%s)", most))


def held(engine: Engine) -> list[int]:
    return [
        row["id"]
        for row in engine.rows("SELECT id FROM rota.open_runs WHERE held_by = 'tenant' ORDER BY id")
    ]


def said(error: pytest.ExceptionInfo[psycopg.Error]) -> str:
    return str(error.value.diag.message_primary)


@pytest.mark.parametrize("name", HOSTILE + REFUSED)
def test_one_rule_for_names_everywhere(engine: Engine, name: str) -> None:
    assert engine.one("SELECT rota.tenant_fault(%s)", name) == tenant_fault(name)
    writes: list[tuple[str, list[Any]]] = [
        ("SELECT rota.set_tenant(%s, '{\"weight\": 2}')", [name]),
        ("INSERT INTO rota.schedules (tenant, name, job, cron)"
         " VALUES (%s, 's', 'work', '@daily')", [name]),
        ("SELECT rota.check_quota(%s)", [name]),
        ("SELECT rota.enqueue_many('{work}', ARRAY['{}'::jsonb], tenants => ARRAY[%s])", [name]),
        ("SELECT rota.pause_tenant(%s)", [name]),
    ]  # fmt: skip
    for query, params in writes:
        if name in HOSTILE:
            engine.rows(query, *params)
        elif name != "" or ("schedules" not in query and "enqueue" not in query):
            with pytest.raises(psycopg.Error) as error:
                engine.rows(query, *params)
            assert error.value.sqlstate == "RO002"
            assert str(tenant_fault(name)) in said(error)
    found = engine.rows("SELECT name, weight FROM rota.tenants")
    assert found == ([{"name": name, "weight": 2.0}] if name in HOSTILE else [])


def test_settings_are_partial_audited_and_told_when_wrong(engine: Engine) -> None:
    engine.rows(
        "SELECT rota.set_tenant('acme', %s, 'a big one', 'ada')", '{"weight": 3, "max_waiting": 10}'
    )
    engine.rows("SELECT rota.set_tenant('acme', '{\"max_waiting\": null}', actor => 'bob')")
    engine.rows("SELECT rota.set_tenant('acme', '{}')")
    (row,) = engine.rows("SELECT weight, max_waiting, version FROM rota.tenants")
    assert row == {"weight": 3.0, "max_waiting": None, "version": 2}
    first, second = engine.audit("acme")
    assert (first["action"], first["actor"], first["reason"]) == ("tenant.set", "ada", "a big one")
    assert (second["before"], second["after"]) == ({"max_waiting": 10}, {"max_waiting": None})
    assert (second["reason"], second["tenant"]) == (None, "acme")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"weight": 0}, "weight must be from 0.01 to 1000, not 0"),
        ({"weight": "heavy"}, 'weight must be a number from 0.01 to 1000, not "heavy"'),
        ({"max_waiting": -1}, "max_waiting must be from 0 to 1000000000, not -1"),
        ({"max_waiting": 1.5}, "max_waiting must be a whole number"),
        ({"max_bytes_per_day": 1e20}, "max_bytes_per_day must be a whole number"),
        ({"retention_days": 0}, "retention_days must be from 1 to 36500, not 0"),
        ({"metadata": [1]}, "metadata must be a JSON object"),
        ({"description": "x" * 10_001}, "description must have at most 10000 characters"),
        ({"colour": "red"}, 'unknown tenant setting "colour"'),
        ([1], "must be a JSON object"),
    ],
)
def test_a_setting_that_cannot_be(engine: Engine, settings: Any, words: str) -> None:
    with pytest.raises(psycopg.Error, match="tenant") as error:
        engine.rows("SELECT rota.set_tenant('acme', %s)", json.dumps(settings))
    assert (error.value.sqlstate, words in said(error)) == ("RO002", True), said(error)
    assert engine.rows("SELECT * FROM rota.tenants") == []


def test_plain_sql_is_held_to_the_rules_and_the_audit(engine: Engine) -> None:
    engine.rows("INSERT INTO rota.tenants (name, weight) VALUES ('acme', 2)")
    engine.rows("UPDATE rota.tenants SET is_paused = true WHERE name = 'acme'")
    engine.rows("UPDATE rota.tenants SET is_paused = false WHERE name = 'acme'")
    engine.rows("DELETE FROM rota.tenants")
    assert [row["action"] for row in engine.audit("acme")] == [
        "tenant.set", "tenant.paused", "tenant.resumed", "tenant.reset",
    ]  # fmt: skip
    for query in (
        "INSERT INTO rota.tenants (name, weight) VALUES ('b', 'NaN')",
        "INSERT INTO rota.tenants (name, pause_reason) VALUES ('b', 'but it is not')",
        "INSERT INTO rota.tenants (name, is_paused, paused_until) VALUES ('b', true, 'infinity')",
    ):
        with pytest.raises(psycopg.Error):
            engine.rows(query)


def test_a_pause_holds_what_waits_and_what_comes(engine: Engine, other: Engine) -> None:
    mine, _ = engine.enqueue(tenant="acme"), engine.enqueue(tenant="blue")
    assert engine.one("SELECT rota.pause_tenant('acme', 'unpaid', actor => 'ada')") == 1
    late = engine.enqueue(tenant="acme", priority=0)
    assert (tend(engine), held(engine)) == (1, [mine, late])
    worker = engine.worker()
    assert [one["tenant"] for one in engine.claim(worker)] == ["blue"]

    engine.one("SELECT rota.resume_tenant('acme', 'paid')")
    assert held(engine) == []
    assert [one["id"] for one in engine.claim(worker)] == [late, mine], "in their order"
    resumed = engine.audit("acme")[-1]
    assert (resumed["action"], resumed["reason"]) == ("tenant.resumed", "paid")


def test_a_thousand_more_are_held_and_freed_by_workers(engine: Engine) -> None:
    engine.rows(
        "SELECT rota.enqueue_many('{work}', array_fill('{}'::jsonb, ARRAY[2500]),"
        " tenants => array_fill('acme'::text, ARRAY[2500]))"
    )
    assert engine.one("SELECT rota.pause_tenant('acme')") == 1000
    assert [tend(engine), tend(engine), tend(engine)] == [1000, 500, 0]
    assert engine.one("SELECT rota.resume_tenant('acme')") == 1000
    assert [tend(engine), tend(engine), len(held(engine))] == [1000, 500, 0]


def test_a_row_that_somebody_holds_is_left_for_the_next_time(engine: Engine, other: Engine) -> None:
    first, second = engine.enqueue(tenant="acme"), engine.enqueue(tenant="acme")
    with other.conn.transaction():
        other.rows("SELECT FROM rota.open_runs WHERE id = %s FOR UPDATE", first)
        assert engine.one("SELECT rota.pause_tenant('acme')") == 1
        assert (tend(engine), held(engine)) == (0, [second])
    assert (tend(engine), held(engine)) == (1, [first, second])


def test_a_pause_ends_by_itself(engine: Engine) -> None:
    run = engine.enqueue(tenant="acme")
    engine.rows("SELECT rota.pause_tenant('acme', until => rota.now() + interval '1 hour')")
    engine.advance(3601)
    assert (tend(engine), held(engine)) == (1, [])
    assert [one["id"] for one in engine.claim(engine.worker())] == [run]
    ended = engine.audit("acme")[-1]
    assert (ended["action"], ended["actor"], ended["reason"]) == (
        "tenant.resumed", "rota", "the pause ended",
    )  # fmt: skip


def test_wrong_states(engine: Engine) -> None:
    for query, code in (
        ("SELECT rota.reset_tenant('acme')", "RO030"),
        ("SELECT rota.pause_tenant('acme', until => rota.now())", "RO002"),
    ):
        with pytest.raises(psycopg.Error) as error:
            engine.rows(query)
        assert error.value.sqlstate == code
    engine.rows("SELECT rota.pause_tenant('acme', 'once')")
    with pytest.raises(psycopg.Error) as error:
        engine.rows("SELECT rota.reset_tenant('acme')")
    assert error.value.sqlstate == "RO005"
    engine.rows("SELECT rota.pause_tenant('acme', until => rota.now() + interval '1 hour')")
    (row,) = engine.rows("SELECT pause_reason, paused_until IS NOT NULL AS ends FROM rota.tenants")
    assert row == {"pause_reason": "once", "ends": True}


def test_suspects_of_a_paused_tenant_wait_too(engine: Engine) -> None:
    run = engine.enqueue(tenant="acme")
    engine.rows("UPDATE rota.open_runs SET held_by = 'suspect', suspicion = 2")
    engine.rows("SELECT rota.pause_tenant('acme')")
    worker = engine.worker()
    assert (engine.claim_suspect(worker), held(engine)) == ([], [run])
    engine.rows("SELECT rota.resume_tenant('acme')")
    assert [one["id"] for one in engine.claim_suspect(worker)] == [run]


# Quotas.


def refused(engine: Engine, *args: Any) -> str | None:
    """What the database says, or None where the tenant may."""
    places = ", ".join(["%s"] * len(args))
    try:
        engine.rows(f"SELECT rota.check_quota({places})", *args)
    except psycopg.Error as error:
        return str(error.diag.message_primary) if error.sqlstate == "RO031" else error.sqlstate
    return None


def test_no_quota_asks_for_nothing(engine: Engine) -> None:
    engine.rows("SELECT rota.set_tenant('acme', '{\"weight\": 2}')")
    assert refused(engine, "acme", 10**9, 10**12) is None
    assert refused(engine, "blue", 10**9, 10**12) is None
    assert engine.rows("SELECT * FROM rota.tenant_changes") == []


def test_waiting_runs_are_compared_with_the_last_count(engine: Engine) -> None:
    engine.rows("SELECT rota.set_tenant('acme', '{\"max_waiting\": 3}')")
    for n in range(3):
        engine.enqueue(tenant="acme", delay=f"{n} minutes")
    assert refused(engine, "acme") is None, "as it was counted last"
    tend(engine)
    words = refused(engine, "acme")
    assert words == 'tenant "acme" has 3 runs waiting, and its quota is 3'
    (claim,) = engine.claim(engine.worker())
    tend(engine)
    assert refused(engine, "acme") is None, "what runs does not wait"
    assert refused(engine, "acme", 2) is not None
    assert claim["attempt"] == 1


def test_runs_and_bytes_a_day(engine: Engine) -> None:
    engine.rows(
        "SELECT rota.set_tenant('acme', %s)", '{"max_runs_per_day": 5, "max_bytes_per_day": 100}'
    )
    assert refused(engine, "acme", 4, 60) is None
    tend(engine)
    assert (
        refused(engine, "acme", 2, 0)
        == 'tenant "acme" has enqueued 4 runs today, and its quota is 5 per day'
    )
    assert "payloads of 60 bytes today, and its quota is 100 per day" in str(
        refused(engine, "acme", 1, 41)
    )
    assert refused(engine, "acme", 1, 40) is None
    tend(engine)
    (day,) = engine.rows("SELECT enqueued, bytes FROM rota.tenant_days")
    assert day == {"enqueued": 5, "bytes": 100}
    engine.advance(86_400)
    assert refused(engine, "acme", 5, 100) is None, "another day"


def test_what_was_rolled_back_does_not_count(engine: Engine) -> None:
    engine.rows("SELECT rota.set_tenant('acme', '{\"max_runs_per_day\": 1}')")
    with engine.conn.transaction(force_rollback=True):
        assert refused(engine, "acme") is None
    tend(engine)
    assert refused(engine, "acme") is None


def test_two_tenants_may_use_the_same_names(engine: Engine) -> None:
    runs = [engine.enqueue_run(tenant=name, key="nightly") for name in ("", "acme", "blue", "acme")]
    assert [run["is_duplicate"] for run in runs] == [False, False, False, True]
    assert runs[3]["run_id"] == runs[1]["run_id"]
    for tenant in ("", "acme", "blue"):
        engine.rows(
            "INSERT INTO rota.schedules (tenant, name, job, cron)"
            " VALUES (%s, 'sync', 'work', '@daily')", tenant,
        )  # fmt: skip
    engine.rows("SELECT rota.pause_schedule('sync', tenant => 'acme')")
    engine.rows("SELECT rota.delete_schedule('sync', tenant => 'blue')")
    left = engine.rows(
        "SELECT tenant, paused_at IS NOT NULL AS is_paused FROM rota.schedules"
        " WHERE name = 'sync' ORDER BY tenant"
    )
    assert left == [{"tenant": "", "is_paused": False}, {"tenant": "acme", "is_paused": True}]


@pytest.mark.parametrize(
    "enqueue",
    [
        "SELECT rota.enqueue('work', '{}', tenant => 'acme')",
        "SELECT rota.enqueue('work', '{}', tenant => 'acme', key => 'k')",
        "SELECT rota.enqueue_many('{work}', ARRAY['{}', '{}']::jsonb[], tenants => '{acme,acme}')",
        "SELECT rota.enqueue_batch('work', '[{}, {}]', tenant => 'acme')",
    ],
)
def test_every_enqueue_asks_for_the_quota(engine: Engine, enqueue: str) -> None:
    engine.rows("SELECT rota.set_tenant('acme', '{\"max_runs_per_day\": 0}')")
    with pytest.raises(psycopg.Error, match="its quota is 0 per day") as caught:
        engine.rows(enqueue)
    assert caught.value.sqlstate == "RO031"
    assert engine.one("SELECT count(*) FROM rota.runs") == 0
    engine.rows("SELECT rota.set_tenant('acme', '{\"max_runs_per_day\": null}')")
    engine.rows(enqueue)


@pytest.mark.parametrize("tenant", ["a/b", " a", "x" * 201])
def test_every_enqueue_checks_the_name(engine: Engine, tenant: str) -> None:
    with pytest.raises(psycopg.Error, match='the tenant of job "work"') as caught:
        engine.enqueue(tenant=tenant)
    assert caught.value.sqlstate == "RO002"


def test_an_isolated_run_of_a_paused_tenant_does_not_start(engine: Engine) -> None:
    """From the moment of the pause, and not only when a worker has held it."""
    run = engine.enqueue(tenant="acme")
    lost = engine.worker()
    engine.claim_one(lost)
    engine.lose(lost)
    engine.rescue()
    assert engine.one("SELECT held_by FROM rota.open_runs WHERE id = %s", run) == "suspect"
    worker = engine.worker()
    engine.conn.execute(
        "INSERT INTO rota.tenants (name, is_paused, paused_at, paused_by)"
        " VALUES ('acme', true, rota.now(), 'ada')"
    )
    assert engine.claim_suspect(worker) == []
    other = engine.enqueue(tenant="blue")
    engine.conn.execute(
        "UPDATE rota.open_runs SET held_by = 'suspect', suspicion = 2 WHERE id = %s", [other]
    )
    (claim,) = engine.claim_suspect(worker)
    assert claim["id"] == other, "it stands in nobody's way"
    engine.succeed(worker, claim)
    engine.one("SELECT rota.resume_tenant('acme')")
    (claim,) = engine.claim_suspect(worker)
    assert (claim["id"], claim["attempt"]) == (run, 2)
