"""What pages ask beside ten thousand schedules and ten thousand groups of errors: each row is read
about once, however they are filtered."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rota.postgres.jobs import list_jobs
from rota.postgres.reports.find import find
from rota.postgres.reports.overview import read_coming
from rota.postgres.runs.error_groups import count_standings, page_errors
from rota.postgres.schedules.edits import page_edits
from rota.postgres.schedules.lists import count_states, page_schedules, read_planned
from rota.postgres.schedules.schedules import MOST_SEARCHED, page_exceptions, page_history
from tests.database import Server
from tests.plans.plans import Watch
from tests.plans.test_audit import drive
from tests.sql_engine import Engine

pytestmark = pytest.mark.plans

MANY = 10_000
SCHEDULES = """
WITH made AS (
    INSERT INTO rota.schedules (name, job, interval_seconds, anchor_at)
    SELECT 's' || i, 'work', 3600, rota.now() FROM generate_series(1, 10000) i RETURNING id
)
INSERT INTO rota.schedule_state (schedule_id, next_run_at, cursor_at, is_stopped, is_spread)
SELECT id, rota.now() + interval '1 day', rota.now(), false, true FROM made
"""
GROUPS = """
INSERT INTO rota.error_groups (id, error_type, error, is_system, first_seen_at, last_seen_at,
    failures, runs, last_run_id)
SELECT 'g' || i, 'Odd', 'odd ' || i, false, rota.now() - interval '3 days',
    rota.now() - i * interval '1 s', 10, 10, i
FROM generate_series(1, 10000) i
"""
COUNTS = """
INSERT INTO rota.error_counts (error_group, at, job, failures, runs)
SELECT 'g' || i, date_trunc('hour', rota.now()) - n * interval '1 hour', 'work', 1, 1
FROM generate_series(1, 10000) i, generate_series(1, 10) n
"""
# One ticks every second, for most of a day.
LEDGER = """
INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule,
    claimed_at, decided_at, enqueued_at, run_id, state, success)
SELECT s.id, t.at, t.at, 'ran', '', s.name, t.at, t.at, t.at, n, 'succeeded', true
FROM rota.schedules s, generate_series(1, 50000) n
CROSS JOIN LATERAL (SELECT rota.now() - n * interval '1 s' AS at) t WHERE s.name = 's7'
"""
EDITS = """
INSERT INTO rota.audit (at, actor, action, object_type, object_id, tenant)
SELECT rota.now(), 'ada', 'schedule.updated', 'schedule', 's' || i, ''
FROM generate_series(1, 10000) i, generate_series(1, 5)
"""


@pytest.fixture(scope="module")
def full(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Engine(conn).job("work")
        conn.execute("ALTER TABLE rota.schedules DISABLE TRIGGER USER")
        for page in (SCHEDULES, GROUPS, COUNTS, LEDGER, EDITS):
            conn.execute(page.encode())
        conn.execute("ALTER TABLE rota.schedules ENABLE TRIGGER USER")
        conn.execute("VACUUM ANALYZE")
        yield conn


@pytest.fixture
def seen(full: psycopg.Connection[Any]) -> Iterator[Watch]:
    info = full.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as conn:
        yield Watch(conn)


def carry_out(seen: Watch, plan: Any) -> Any:
    with seen.conn.transaction():
        return drive(seen.conn, plan)


def test_the_load_reads_each_schedule_once(seen: Watch) -> None:
    assert len(carry_out(seen, read_planned({}))) >= MANY
    assert seen.rows_read("schedules") <= 3 * MANY


def test_a_part_of_a_name_is_looked_for_in_each_schedule_once(seen: Watch) -> None:
    found = carry_out(seen, find("S999", 8))
    assert {row.text for row in found} >= {"s999", "s9990"}
    assert seen.rows_read("schedules") <= 2 * MANY


@pytest.mark.parametrize("order", ["last", "first", "most"])
def test_groups_of_errors_are_counted_once(seen: Watch, order: str) -> None:
    """What is drawn of a group is read for those of the page alone."""
    plan = page_errors(
        {}, since=timedelta(days=1), is_active=True, order=order, cursor=None, limit=50
    )
    assert len(carry_out(seen, plan).groups) == 50
    assert seen.rows_read("error_groups") <= 3 * MANY
    assert seen.rows_read("error_counts") <= 2 * 10 * MANY + 51 * 40 * 10
    assert searches(seen, "error_counts") <= 2 + 51 * 2


def searches(seen: Watch, relation: str) -> int:
    """How often the relation was looked into."""
    return sum(node["Actual Loops"] for node in seen.nodes(relation))


def test_standings_of_groups_are_counted_without_looking_into_each(seen: Watch) -> None:
    assert sum(carry_out(seen, count_standings({})).values()) == MANY
    assert searches(seen, "error_counts") <= 2


def test_states_of_schedules_are_counted_by_reading_each_once(seen: Watch) -> None:
    assert carry_out(seen, count_states({}))["active"] == MANY
    assert seen.rows_read("schedules") <= 3 * MANY
    assert seen.rows_read("schedule_days") == 0


@pytest.mark.parametrize("order", ["next", "last", "changed", "newest"])
def test_schedules_are_put_in_another_order_by_reading_each_once(seen: Watch, order: str) -> None:
    plan = page_schedules(order=order, cursor=None, limit=50)
    assert len(carry_out(seen, plan).items) == 50
    assert seen.rows_read("schedules") <= 3 * MANY
    assert searches(seen, "schedule_days") <= 51


def test_what_is_due_next_is_found_at_once_though_all_are_at_the_same_time(seen: Watch) -> None:
    assert len(carry_out(seen, read_coming(7))) == 7
    assert seen.rows_read("schedules") <= 20


def test_how_jobs_are_timed_is_read_once_for_all_of_them(seen: Watch) -> None:
    (job,) = carry_out(seen, list_jobs())
    assert job.strategies == ["on_demand", "interval"]
    assert searches(seen, "schedules") == 1


@pytest.fixture
def every_second(seen: Watch) -> int:
    (row,) = seen.conn.execute("SELECT id FROM rota.schedules WHERE name = 's7'").fetchall()
    seen.plans.clear()
    return int(row[0])


def ledger_read(seen: Watch) -> float:
    names = {str(node.get("Relation Name", "")) for node in seen.every()}
    found = [seen.rows_read(it) for it in names if it.startswith("ledger")]
    assert found
    return sum(found)


def test_exceptions_of_a_ledger_are_looked_for_in_a_part_of_it(
    seen: Watch, every_second: int
) -> None:
    plan = page_exceptions(
        [every_second], only="exceptions", since=None, before=None, cursor=None, limit=20
    )
    assert carry_out(seen, plan).items == []
    assert ledger_read(seen) <= MOST_SEARCHED + 1


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_a_page_of_a_ledger_is_read_by_the_order_of_its_index(
    seen: Watch, every_second: int, order: str
) -> None:
    asked: dict[str, Any] = {"order": order, "limit": 20}
    asked |= dict.fromkeys(("decision", "since", "before"))
    page = carry_out(seen, page_history([every_second], cursor=None, **asked))
    page = carry_out(seen, page_history([every_second], cursor=page.cursor, **asked))
    assert len(page.items) == 20
    assert ledger_read(seen) <= 2 * 25


def test_edits_of_a_schedule_are_found_beside_those_of_others(seen: Watch) -> None:
    assert len(carry_out(seen, page_edits("s77", "", cursor=None, limit=3)).items) == 3
    assert seen.rows_read("audit") <= 20
