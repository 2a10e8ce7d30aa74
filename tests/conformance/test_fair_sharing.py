"""Tenants share a queue: nobody waits behind somebody else's backlog."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.sql_engine import Engine, Row


@pytest.fixture(autouse=True)
def drawn(engine: Engine) -> None:
    """Turns are drawn by weight; here always in the same way."""
    engine.one("SELECT setseed(0.5)")


def tenants(engine: Engine, claims: list[Row]) -> Counter[str]:
    return Counter(engine.run(claim["id"])["tenant"] for claim in claims)


def flood(engine: Engine, tenant: str, runs: int) -> None:
    engine.rows(
        "SELECT count(rota.enqueue('work', '{}', tenant => %s)) FROM generate_series(1, %s)",
        tenant, runs,
    )  # fmt: skip


def test_the_first_run_of_another_tenant_is_in_the_next_claim(engine: Engine) -> None:
    flood(engine, "acme", 500)
    engine.enqueue(tenant="umbrella")
    found = tenants(engine, engine.claim(engine.worker(), 10))
    assert found == {"acme": 9, "umbrella": 1}


def test_no_tenant_is_one_of_them(engine: Engine) -> None:
    flood(engine, "acme", 100)
    engine.enqueue()
    assert tenants(engine, engine.claim(engine.worker(), 4)) == {"acme": 3, "": 1}


def test_what_one_does_not_use_goes_to_the_others(engine: Engine) -> None:
    for tenant, runs in [("a", 2), ("b", 3), ("c", 100), ("d", 100)]:
        flood(engine, tenant, runs)
    found = tenants(engine, engine.claim(engine.worker(), 65))
    assert found.total() == 65
    assert (found["a"], found["b"]) == (2, 3)
    assert abs(found["c"] - found["d"]) <= 1


def test_shares_follow_the_weights(engine: Engine) -> None:
    engine.rows("INSERT INTO rota.tenants (name, weight) VALUES ('big', 3)")
    flood(engine, "big", 200)
    flood(engine, "small", 200)
    found = tenants(engine, engine.claim(engine.worker(), 100))
    assert found == {"big": 75, "small": 25}


def test_single_runs_follow_the_weights_too(engine: Engine) -> None:
    """As slots become free one at a time."""
    engine.rows("INSERT INTO rota.tenants (name, weight) VALUES ('big', 3)")
    flood(engine, "big", 300)
    flood(engine, "small", 300)
    worker = engine.worker()
    found = tenants(engine, [engine.claim_one(worker) for _ in range(200)])
    assert 130 <= found["big"] <= 170


def test_order_within_a_tenant_is_strict(engine: Engine) -> None:
    later = [engine.enqueue(tenant="acme", priority=5) for _ in range(5)]
    first = [engine.enqueue(tenant="acme", priority=1) for _ in range(5)]
    flood(engine, "umbrella", 100)
    worker = engine.worker()
    taken: list[int] = []
    while len(taken) < 10:
        claims = engine.claim(worker, 3)
        taken += [claim["id"] for claim in claims if engine.run(claim["id"])["tenant"] == "acme"]
    assert taken == first + later


def test_one_tenant_has_the_order_of_the_engine(engine: Engine) -> None:
    runs = [engine.enqueue(tenant="acme", priority=n % 3) for n in range(30)]
    worker = engine.worker()
    taken = [claim["id"] for _ in range(6) for claim in engine.claim(worker, 5)]
    assert taken == sorted(runs, key=lambda run: (engine.run(run)["priority"], run))


def test_of_very_many_tenants_each_has_its_turn(engine: Engine) -> None:
    for n in range(250):
        flood(engine, f"t{n:03}", 2)
    worker = engine.worker()
    found: Counter[str] = Counter()
    for _ in range(5):
        found += tenants(engine, engine.claim(worker, 100))
    assert len(found) == 250
    assert engine.claim(worker, 10) == []


def test_a_paused_queue_and_unknown_jobs_are_left_alone(engine: Engine) -> None:
    flood(engine, "acme", 5)
    flood(engine, "umbrella", 5)
    worker = engine.worker()
    assert engine.claim(worker, 10, jobs=["other"]) == []
    engine.rows("SELECT rota.pause_queue('default')")
    assert engine.claim(worker, 10) == []
    engine.rows("SELECT rota.resume_queue('default')")
    assert len(engine.claim(worker, 100)) == 10


def test_queues_beside_each_other(engine: Engine) -> None:
    flood(engine, "acme", 20)
    engine.enqueue(queue="plain")
    engine.enqueue(queue="mail", tenant="umbrella")
    claims = engine.claim(engine.worker(), 9, ["default", "plain", "mail"], quota=3)
    assert Counter(claim["queue"] for claim in claims) == {"default": 3, "plain": 1, "mail": 1}


def test_two_workers_take_no_run_twice(engine: Engine, other: Engine) -> None:
    flood(engine, "acme", 30)
    flood(engine, "umbrella", 30)
    worker, second = engine.worker(), engine.worker()
    with engine.conn.transaction():
        mine = engine.claim(worker, 20)
        theirs = other.claim(second, 20)
    assert len(mine) == len(theirs) == 20
    assert not {claim["id"] for claim in mine} & {claim["id"] for claim in theirs}


def test_a_paused_tenant_gets_nothing_from_that_moment_on(engine: Engine) -> None:
    """Before anybody has put its runs aside: also what it enqueues now."""
    flood(engine, "umbrella", 3)
    engine.rows("SELECT rota.pause_tenant('acme')")
    flood(engine, "acme", 3)
    worker = engine.worker()
    assert tenants(engine, engine.claim(worker, 10)) == {"umbrella": 3}
    engine.rows("SELECT rota.resume_tenant('acme')")
    assert tenants(engine, engine.claim(worker, 10)) == {"acme": 3}


@pytest.mark.commits
def test_a_claim_touches_no_index(engine: Engine) -> None:
    """An index that names state, worker or attempt, in its columns or its predicate, would be
    written to by every claim."""
    flood(engine, "acme", 3)
    flood(engine, "", 3)
    worker = engine.worker()
    with engine.conn.transaction():
        assert len(engine.claim(worker, 6)) == 6
        (counted,) = engine.rows(
            "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables"
            " WHERE schemaname = 'rota' AND relname = 'open_runs'"
        )
    assert counted == {"n_tup_upd": 6, "n_tup_hot_upd": 6}
