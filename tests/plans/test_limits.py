"""A million runs that wait for limits: what others cost, and what admission reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("held by limits")]

# Half of them wait for one full counter, the others for fifty thousand.
HELD = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload, held_by, limit_keys, limit_key)
SELECT i, i, now(), now(), now(), 3, 5, 'queued', 'default', 'limited', '{}', 'limit', ARRAY[k], k
FROM (SELECT i, CASE WHEN i % 2 = 0 THEN 'c1:' ELSE 'c2:' || i % 100000 END AS k
      FROM generate_series(1, 1000000) i) w
"""
FULL = """
INSERT INTO rota.limit_slots (tenant, key, in_use)
SELECT DISTINCT '', limit_key, 0 FROM rota.open_runs WHERE held_by = 'limit'
"""


@pytest.fixture(scope="module")
def held(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        engine = Engine(conn)
        for job in ("work", "limited"):
            engine.job(job)
        for name, key in (("one", None), ("many", "{k}")):
            rule = {"jobs": ["limited"], "cap": 0, "key": key}
            engine.one("SELECT rota.set_limit(%s, %s)", name, json.dumps(rule))
        conn.execute("UPDATE rota.limits SET adopted_id = NULL, adopt_at = NULL")
        conn.execute(HELD)
        conn.execute(FULL)
        conn.execute("SELECT setval('rota.run_ids', 9000000)")
        conn.execute("VACUUM ANALYZE rota.open_runs, rota.limit_slots")
        yield conn


@pytest.fixture
def engine(held: psycopg.Connection[Any]) -> Engine:
    return Engine(held)


def test_claims_of_others_read_nothing_of_what_is_held(engine: Engine) -> None:
    runs = [engine.enqueue() for _ in range(5)]
    worker = engine.worker("work", "limited")
    seen = Watch(engine.conn)
    claims = engine.claim(worker, 10, jobs=["work", "limited"])
    assert [claim["id"] for claim in claims] == runs
    assert seen.indexes("open_runs") == {"open_runs_claim", "Tid Scan"}
    assert seen.rows_read("open_runs") <= 2 * len(runs)
    seen.plans.clear()
    engine.succeed(worker, *claims)
    assert seen.rows_read("open_runs") <= len(runs)


def test_admission_reads_a_bounded_part_while_all_is_full(engine: Engine) -> None:
    seen = Watch(engine.conn)
    row = engine.rows("SELECT * FROM rota.admit_runs()")[0]
    assert (row["admitted"], row["is_waiting"]) == (0, True)
    assert row["last_key"] > ""  # goes on from there
    assert seen.rows_read("open_runs") < 2_500
    assert seen.rows_read("limit_slots") < 2_500


def test_a_place_in_the_long_line_is_given_away_without_reading_the_line(engine: Engine) -> None:
    engine.one("""SELECT rota.set_limit('one', '{"cap": 1}')""")
    seen = Watch(engine.conn)
    admit = "SELECT * FROM rota.admit_key(rota.limit_of('c1:'), 'c1:', 100, false, false)"
    assert engine.rows(admit)[0]["admitted"] == 1
    assert seen.rows_read("open_runs") < 20


def test_why_and_lists_read_a_bounded_part(engine: Engine) -> None:
    seen = Watch(engine.conn)
    engine.rows("SELECT * FROM rota.why('999998', 'run')")
    assert seen.rows_read("open_runs") < 25_000
