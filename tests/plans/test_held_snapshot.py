"""What claims and admissions read while a held snapshot keeps dead entries in the indexes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep]

RUNS = 50_000
BATCH = 1_000
HINTS: list[int] = [0] * 10
CLAIM = """
    SELECT * FROM rota.claim_runs(%s, %s, '{default}', 100000, '{work}', %s::bigint[], lane => '')
"""
CLAIM_ALL = CLAIM.replace("{work}", "{work,lined}")
ADMIT = "SELECT * FROM rota.admit_runs()"
FINISH = "SELECT count(*) FROM rota.finish_runs(%s, %s::bigint[], %s::integer[], NULL)"


@pytest.fixture
def engine(server: Server) -> Iterator[Engine]:
    """With somebody who looks at something, and goes on looking."""
    with (
        server.fresh_database() as url,
        psycopg.connect(url, autocommit=True) as conn,
        psycopg.connect(url) as holder,
    ):
        engine = Engine(conn)
        engine.job("work")
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute("SELECT FROM rota.jobs")
        yield engine


def work_off(engine: Engine, worker: int) -> None:
    while claims := engine.rows(CLAIM, worker, BATCH, HINTS):
        finish(engine, worker, claims)


def finish(engine: Engine, worker: int, claims: list[dict[str, Any]]) -> None:
    ids, attempts = [claim["id"] for claim in claims], [claim["attempt"] for claim in claims]
    engine.rows(FINISH, worker, ids, attempts)


def buffers_of_a_claim(engine: Engine, worker: int, tenants: list[str]) -> int:
    """Of one run of each tenant, and of nothing."""
    for tenant in tenants:
        engine.enqueue(tenant=tenant)
    explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {CLAIM}"
    read = 0
    for _ in range(2):
        (plan,) = engine.one(explain, worker, 10, HINTS)
        read += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
    claims = engine.rows(
        "SELECT id, attempt FROM rota.open_runs WHERE worker = %s ORDER BY id", worker
    )
    assert len(claims) == len(tenants)
    finish(engine, worker, claims)
    return int(read)


MANY = [f"t{n:02}" for n in range(50)]


@pytest.mark.parametrize(
    "tenants", [["a", "b"], ["", "a"], ["a", "b", "c", "d", "e"], MANY], ids=len
)
def test_claims_of_tenants_read_no_more_with_time(engine: Engine, tenants: list[str]) -> None:
    """Those of a few of them, in the end: the others had their turn, and left dead entries."""
    worker = engine.worker(lease=3600)
    seen = []
    for _ in range(5):
        for tenant in tenants:
            payloads = json.dumps([{}] * (RUNS // 5 // len(tenants)))
            engine.one("SELECT rota.enqueue_batch('work', %s, tenant => %s)", payloads, tenant)
        work_off(engine, worker)
        seen.append(min(buffers_of_a_claim(engine, worker, tenants[-5:]) for _ in range(3)))
    assert seen[-1] < 500 + 100 * len(tenants), seen


def admit(engine: Engine) -> None:
    while engine.one(ADMIT):
        pass


def buffers_of_an_admission(engine: Engine, worker: int) -> int:
    """Of one run, from its admission to that after its end."""
    engine.enqueue(payload=payload(3))
    read = 0
    for _ in range(2):
        (plan,) = engine.one(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {ADMIT}")
        read += plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"]
        claims = engine.rows(CLAIM, worker, 10, HINTS)
        finish(engine, worker, claims)
    return int(read)


def payload(customer: int) -> dict[str, int]:
    return {"customer": customer % CUSTOMERS}


CUSTOMERS = 40
RATE = {"kind": "rate", "cap": 1_000_000, "period_seconds": 1}
CONCURRENCY = {"kind": "concurrency", "cap": 100}
KEY = {"key": "{customer}"}


@pytest.mark.parametrize(
    "limit",
    [CONCURRENCY, RATE, CONCURRENCY | KEY, RATE | KEY],
    ids=["concurrency", "rate", "concurrency of each", "rate of each"],
)
def test_admissions_read_no_more_with_time(engine: Engine, limit: dict[str, Any]) -> None:
    worker = engine.worker(lease=3600)
    engine.one("SELECT rota.set_limit('some', %s)", json.dumps(limit))
    payloads = json.dumps([payload(n) for n in range(RUNS // 5)])
    seen = []
    for _ in range(5):
        engine.one("SELECT rota.enqueue_batch('work', %s)", payloads)
        while engine.one("SELECT EXISTS (SELECT FROM rota.open_runs)"):
            admit(engine)
            finish(engine, worker, engine.rows(CLAIM, worker, BATCH, HINTS))
        admit(engine)
        # About once a second an admission looks without marks: the least of three is not one.
        seen.append(min(buffers_of_an_admission(engine, worker) for _ in range(3)))
    assert seen[-1] < 2 * seen[0] + 200, seen
    assert seen[-1] < 500 + (50 * CUSTOMERS if "key" in limit else 0), seen


def test_a_sequence_is_nobody_elses_burden(engine: Engine) -> None:
    """Who is next in it is looked for without marks; whether anybody waits is not."""
    engine.job("lined")
    worker = engine.worker("work", "lined", lease=3600)
    engine.one("SELECT rota.set_limit('some', %s)", json.dumps(RATE | {"jobs": ["work"]}))
    engine.one(
        "SELECT rota.set_limit('line', %s)",
        json.dumps({"kind": "sequence", "jobs": ["lined"]} | KEY),
    )
    payloads = json.dumps([payload(n) for n in range(1_000)])
    seen = []
    for _ in range(4):
        engine.one("SELECT rota.enqueue_batch('lined', %s)", payloads)
        while engine.one("SELECT EXISTS (SELECT FROM rota.open_runs)"):
            admit(engine)
            finish(engine, worker, engine.rows(CLAIM_ALL, worker, BATCH, HINTS))
        admit(engine)
        seen.append(min(buffers_of_an_admission(engine, worker) for _ in range(3)))
    assert seen[-1] < 500 + 50 * CUSTOMERS, seen


def test_an_admission_with_marks_finds_what_commits_late(engine: Engine) -> None:
    """A run below the marks of its line is admitted by the next turn that goes without them."""
    worker = engine.worker(lease=3600)
    engine.one("SELECT rota.set_limit('some', %s)", json.dumps({"kind": "concurrency", "cap": 100}))
    engine.one("SELECT rota.enqueue_batch('work', %s)", json.dumps([{}] * 5_000))
    while engine.one("SELECT EXISTS (SELECT FROM rota.open_runs)"):
        admit(engine)
        finish(engine, worker, engine.rows(CLAIM, worker, BATCH, HINTS))
    for _ in range(2):
        buffers_of_an_admission(engine, worker)
    engine.one("SELECT set_config('rota.walk_at', 'infinity', false)")
    assert engine.one("SELECT rota.marked_keys()") is not None
    late = engine.enqueue()
    engine.rows("UPDATE rota.open_runs SET seq = 1 WHERE id = %s", late)
    turn = engine.rows(ADMIT)[0]
    assert turn["admitted"] == 0
    engine.one("SELECT set_config('rota.walk_at', '', false)")
    assert engine.rows(ADMIT)[0]["admitted"] == 1
    (claim,) = engine.rows(CLAIM, worker, BATCH, HINTS)
    assert claim["id"] == late
    finish(engine, worker, [claim])
    admit(engine)
    assert engine.rows(ADMIT)[0]["next_seconds"] <= 1
    assert engine.one("SELECT sum(in_use) FROM rota.limit_slots") == 0
