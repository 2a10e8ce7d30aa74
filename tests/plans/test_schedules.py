"""The tick beside a hundred thousand schedules of which a hundred are due."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.database import Server
from tests.plans.plans import Watch
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("many schedules")]

DUE = 100
TAKE = "SELECT r.* FROM rota.hold_due(500, 5) h CROSS JOIN LATERAL rota.read_due(h.ids) r"
MANY = """
WITH made AS (
    INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)
    SELECT 's' || i, 'work', 60, now() FROM generate_series(1, 100000) i RETURNING id, name
)
INSERT INTO rota.schedule_state (schedule_id, cursor_at, is_stopped, is_spread, next_run_at)
SELECT id, now(), false, true, rota.now()
    + CASE WHEN name LIKE '%000' THEN interval '-1 second' ELSE interval '1 day' END
FROM made
"""


@pytest.fixture(scope="module")
def crowded(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Engine(conn).job("work")
        conn.execute("ALTER TABLE rota.schedules DISABLE TRIGGER USER")
        conn.execute("UPDATE rota.schedule_state SET next_run_at = rota.now() + interval '1 day'")
        conn.execute("SELECT rota.set_clock(rota.now())")
        conn.execute(MANY.encode())
        conn.execute("ALTER TABLE rota.schedules ENABLE TRIGGER USER")
        conn.execute("VACUUM rota.schedules, rota.schedule_state")
        yield conn


@pytest.fixture(params=["analyzed", "never analyzed"])
def engine(crowded: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Iterator[Engine]:
    if request.param == "analyzed":
        crowded.execute("ANALYZE rota.schedules, rota.schedule_state")
    else:
        crowded.execute(
            "DELETE FROM pg_statistic WHERE starelid IN ('rota.schedules'::regclass,"
            " 'rota.schedule_state'::regclass)"
        )
    crowded.execute("DELETE FROM rota.schedule_holds")
    # A new session: plans of functions are kept in the old one.
    with psycopg.connect(crowded.info.dsn, password=crowded.info.password, autocommit=True) as conn:
        yield Engine(conn)


def test_taking_what_is_due_reads_what_is_due(engine: Engine) -> None:
    seen = Watch(engine.conn)
    rows = engine.rows(TAKE)
    assert len(rows) == DUE
    assert seen.indexes("schedule_state") <= {
        "schedule_state_due", "schedule_state_parked", "schedule_state_pkey",
    }  # fmt: skip
    assert "schedule_state_due" in seen.indexes("schedule_state")
    assert seen.rows_read("schedule_state") <= 4 * DUE
    assert seen.indexes("schedules") == {"schedules_pkey"}
    assert seen.rows_read("schedules") <= DUE


def test_reading_what_was_taken_goes_by_id(engine: Engine) -> None:
    """By due times it would walk over all that is due for each of them."""
    ids = engine.one("SELECT ids FROM rota.hold_due(500, 5)")
    seen = Watch(engine.conn)
    assert len(engine.rows("SELECT * FROM rota.read_due(%s)", ids)) == DUE
    for table in ("schedules", "schedule_state"):
        assert seen.indexes(table) == {f"{table}_pkey"}
        assert seen.rows_read(table) <= 2 * DUE


def test_places_are_given_by_reading_what_is_due(engine: Engine) -> None:
    """All of them at one instant: they are counted once, and looked up once for each tick."""
    ids = engine.one("SELECT ids FROM rota.hold_due(500, 5)")
    engine.rows("DELETE FROM rota.bursts")
    seen = Watch(engine.conn)
    assert len(engine.rows("SELECT * FROM rota.take_places(%s, 10)", ids[:50])) == 50
    assert seen.indexes("schedule_state") == {"schedule_state_pkey", "schedule_state_due"}
    assert seen.rows_read("schedule_state") <= 50 + DUE
    assert seen.rows_read("schedules") == 0
    seen.plans.clear()
    rows = engine.rows("SELECT * FROM rota.take_places(%s, 10) ORDER BY place", ids[50:])
    assert [row["place"] for row in rows] == list(range(50, DUE))
    assert {row["crowd"] for row in rows} == {DUE}
    assert seen.rows_read("schedule_state") <= 50, "what the first one counted holds"


def test_asking_for_the_next_time_reads_a_few_rows(engine: Engine) -> None:
    engine.rows(TAKE)
    seen = Watch(engine.conn)
    assert 0 < engine.one("SELECT rota.next_schedule_seconds()") <= 5
    assert seen.indexes("schedule_state") == {"schedule_state_due", "schedule_state_parked"}
    assert seen.rows_read("schedule_state") <= 4 * DUE


def test_writing_reads_what_is_written(engine: Engine) -> None:
    ticks = engine.one(
        "SELECT jsonb_agg(jsonb_build_object('id', s.id, 'tick_version', t.tick_version,"
        " 'cursor_at', t.cursor_at, 'new_cursor_at', t.cursor_at, 'segments', '[]'::jsonb,"
        " 'next_run_at', t.next_run_at, 'occurrences', '[]'::jsonb))"
        " FROM rota.schedules s JOIN rota.schedule_state t ON t.schedule_id = s.id"
        " WHERE s.name LIKE 's1000_'"
    )
    seen = Watch(engine.conn)
    engine.rows("SELECT rota.write_ticks(0, %s::text::jsonb)", json.dumps(ticks))
    for table in ("schedules", "schedule_state"):
        assert seen.indexes(table) == {f"{table}_pkey"}
        assert seen.rows_read(table) <= 4 * len(ticks)
