"""What a claim reads while a snapshot is held, which keeps what was done since in the indexes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.slow]

RUNS = 50_000
BATCH = 1_000
HINTS: list[int] = [0] * 10
CLAIM = """
    SELECT * FROM rota.claim_runs(%s, %s, '{default}', 100000, '{work}', %s::bigint[], lane => '')
"""
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
    ids, attempts = [one["id"] for one in claims], [one["attempt"] for one in claims]
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


@pytest.mark.parametrize("tenants", [["a", "b"], ["", "a"], ["a", "b", "c", "d", "e"]])
def test_claims_of_tenants_read_no_more_with_time(engine: Engine, tenants: list[str]) -> None:
    worker = engine.worker(lease=3600)
    seen = []
    for _ in range(5):
        for tenant in tenants:
            payloads = json.dumps([{}] * (RUNS // 5 // len(tenants)))
            engine.one("SELECT rota.enqueue_batch('work', %s, tenant => %s)", payloads, tenant)
        work_off(engine, worker)
        seen.append(buffers_of_a_claim(engine, worker, tenants))
    assert seen[-1] < 2 * seen[0] + 200, seen
    assert seen[-1] < 500 + 200 * len(tenants), seen
