"""Large payloads: written once, wherever their run goes, and gone with it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine

LARGE = {"text": "x" * 5000, "who": "ada", "cost": 3}
OTHER = {"text": "y" * 6000, "who": "bob", "cost": 2}
SMALL = {"who": "eve", "cost": 1}


def stored(engine: Engine, run: int) -> tuple[str, bool] | None:
    """Which version of the row it is, and whether it is what the run shows."""
    rows = engine.rows(
        "SELECT p.xmin::text AS version, p.payload = r.payload AS is_shown"
        " FROM rota.large_payloads p JOIN rota.runs r ON r.id = p.run_id WHERE p.run_id = %s",
        run,
    )
    return (rows[0]["version"], rows[0]["is_shown"]) if rows else None


def in_rows(engine: Engine) -> int:
    """How many runs have a large payload in their own row."""
    return int(
        engine.one(
            "SELECT count(*) FROM (SELECT payload FROM rota.open_runs UNION ALL"
            " SELECT payload FROM rota.ended_runs) r WHERE pg_column_size(r.payload) > 4000"
        )
    )


WAYS: dict[str, Callable[[Engine], int]] = {
    "enqueue": lambda engine: engine.enqueue(payload=LARGE),
    "plain": lambda engine: engine.one(
        "SELECT rota.enqueue_plain('work', %s, validated_by => 1)", json.dumps(LARGE)
    ),
    "many": lambda engine: engine.one(
        "SELECT run_id FROM rota.enqueue_many(ARRAY['work'], ARRAY[%s]::jsonb[])", json.dumps(LARGE)
    ),
    "batch": lambda engine: engine.one(
        "SELECT (rota.enqueue_batch('work', %s))[1]", json.dumps([LARGE])
    ),
    "with a key": lambda engine: engine.enqueue(payload=LARGE, key="a", tenant="acme"),
    "default": lambda engine: _default(engine),
    "triggered": lambda engine: _schedule(engine),
}


def _default(engine: Engine) -> int:
    engine.rows("UPDATE rota.jobs SET default_payload = %s", json.dumps(LARGE))
    return int(engine.one("SELECT rota.enqueue('work')"))


def _schedule(engine: Engine) -> int:
    engine.rows(
        "INSERT INTO rota.schedules (name, job, interval_seconds, payload)"
        " VALUES ('s', 'work', 60, %s)",
        json.dumps(LARGE),
    )
    return int(engine.one("SELECT (rota.trigger_schedule('s') ->> 'run_id')::bigint"))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.commits
def test_it_is_written_once(engine: Engine, way: str) -> None:
    """Through claim, failure, retry, end, retry by hand and end: nobody writes it again."""
    run, worker = WAYS[way](engine), engine.worker()
    first = stored(engine, run)
    assert first is not None
    claim = engine.claim_one(worker)
    assert claim["payload"] == LARGE
    engine.requeue(worker, claim)
    engine.fail(worker, engine.claim_one(worker))
    assert engine.run(run)["payload"] == LARGE
    dead = engine.rows("SELECT payload FROM rota.dead_letters WHERE id = %s", run)
    assert dead == [{"payload": LARGE}]
    engine.rows("SELECT rota.retry_run(%s)", run)
    assert engine.run(run)["payload"] == LARGE
    claim = engine.claim_one(worker)
    assert claim["payload"] == LARGE
    engine.succeed(worker, claim)
    assert engine.run(run)["payload"] == LARGE
    assert stored(engine, run) == first
    assert in_rows(engine) == 0


def test_a_small_one_stays_in_its_row(engine: Engine) -> None:
    run, worker = engine.enqueue(payload=SMALL), engine.worker()
    engine.succeed_span(worker, engine.claim_one(worker))
    assert engine.run(run)["payload"] == SMALL
    assert engine.one("SELECT count(*) FROM rota.large_payloads") == 0


@pytest.mark.parametrize("before", [LARGE, SMALL])
@pytest.mark.parametrize("after", [OTHER, SMALL])
@pytest.mark.parametrize("how", ["replace", "retry", "update"])
def test_another_payload_takes_its_place(
    engine: Engine, how: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    run, worker = engine.enqueue(payload=before, key="a"), engine.worker()
    if how == "replace":
        engine.enqueue(payload=after, key="a", on_conflict="replace")
    elif how == "retry":
        engine.cancel(run)
        engine.rows("SELECT rota.retry_run(%s, %s)", run, json.dumps(after))
    else:
        engine.rows("UPDATE rota.open_runs SET payload = %s", json.dumps(after))
    assert engine.run(run)["payload"] == after
    assert engine.claim_one(worker)["payload"] == after
    assert (stored(engine, run) is not None) is (after == OTHER)
    assert in_rows(engine) == 0


def test_the_audit_has_one_that_an_operator_replaced(engine: Engine) -> None:
    run = engine.enqueue(payload=LARGE)
    engine.cancel(run)
    engine.rows("SELECT rota.retry_run(%s, %s)", run, json.dumps(OTHER))
    (row,) = [row for row in engine.audit(run) if row["action"] == "run.retried"]
    assert (row["before"]["payload"], row["after"]["payload"]) == (LARGE, OTHER)


@pytest.mark.parametrize("how", ["delete", "prune", "tenant", "tenant while open"])
def test_it_goes_with_its_run(engine: Engine, how: str) -> None:
    engine.enqueue(payload=SMALL)
    run = engine.enqueue(payload=LARGE, tenant="acme")
    if how != "tenant while open":
        engine.cancel(run)
    if how == "delete":
        engine.rows("SELECT rota.delete_run(%s)", run)
    elif how == "prune":
        engine.rows("SELECT rota.prune_tenant('acme', '{cancelled}', 'infinity', 10)")
    else:
        for part in ("open_runs", "ended_runs"):
            engine.rows("SELECT rota.delete_tenant_part('acme', %s, 10)", part)
    assert engine.one("SELECT count(*) FROM rota.runs") == 1
    assert engine.one("SELECT count(*) FROM rota.large_payloads") == 0


def test_it_goes_with_the_partition_of_its_run(engine: Engine) -> None:
    run = engine.enqueue(payload=LARGE)
    engine.cancel(run)
    partition = engine.one(
        "SELECT tableoid::regclass::text FROM rota.ended_runs WHERE id = %s", run
    ).removeprefix("rota.")
    engine.rows(f"ALTER TABLE rota.ended_runs_standard DETACH PARTITION rota.{partition}")
    assert stored(engine, run) is None, "the run is gone"
    engine.rows("SELECT rota.prune_traces(%s, 0, false, 10)", partition)
    assert engine.one("SELECT count(*) FROM rota.large_payloads") == 0


def test_limits_read_it(engine: Engine) -> None:
    """Their keys and costs come from the payload, also where the limit is made later."""
    before = engine.enqueue(payload=LARGE)
    engine.rows(
        "INSERT INTO rota.limits (name, kind, cap, period_seconds, key, cost)"
        " VALUES ('l', 'rate', 5, 60, '{who}', 'cost')"
    )
    after = engine.enqueue(payload=LARGE)
    while engine.one("SELECT rota.adopt_runs(100)"):
        pass
    keys = engine.rows("SELECT id, limit_keys FROM rota.open_runs ORDER BY id")
    assert [row["id"] for row in keys] == [before, after]
    assert [row["limit_keys"][0].endswith(":ada") for row in keys] == [True, True]
    engine.rows("SELECT rota.admit_runs(100)")
    assert engine.one("SELECT count(*) FROM rota.open_runs WHERE is_ready") == 1, "3 of 5 tokens"


@pytest.mark.parametrize("payload", [None, json.dumps(["x" * 5000])])
def test_what_is_no_payload_is_refused(engine: Engine, payload: str | None) -> None:
    run = engine.enqueue(payload=SMALL)
    with pytest.raises(psycopg.errors.IntegrityError):
        engine.rows("UPDATE rota.open_runs SET payload = %s WHERE id = %s", payload, run)
    assert engine.run(run)["payload"] == SMALL
