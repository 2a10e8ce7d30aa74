"""Lists over a million ended runs read little, whatever they filter by."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from rota.model.list_filters import TimeOrder
from rota.model.run_filter import RunFilter, RunFilters
from rota.model.states import END_STATES, RUN_STATES
from rota.postgres.plans import Execute
from rota.postgres.reports.find import find
from rota.postgres.runs import lists as run_lists
from rota.postgres.statements import Statements
from tests.plans.plans import Watch

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("large tables")]

STATEMENTS = Statements("rota")
RARE = """
INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt,
    attempts_used, max_attempts, priority, is_redelivery, state, attempt_state, queue, job, tenant,
    payload, end_reason, key, schedule, tags, error_type, error)
SELECT 2500000 + i, now(), now(), now(), now(), 1, 1, 3, 3, 5, false, 'failed', 'failed', 'rare',
    'rare', 'rare', '{}', 'attempts used up', 'rare' || i, 'rare', '{rare}', 'Rare', 'rare'
FROM generate_series(1, 60) i
"""


@pytest.fixture(scope="module")
def history(large: psycopg.Connection[Any]) -> psycopg.Connection[Any]:
    large.execute(RARE)
    large.execute("UPDATE rota.ended_runs SET error_group = 'rare' WHERE job = 'rare'")
    # Whoever had the tables before may have left no statistics.
    large.execute("ANALYZE rota.open_runs, rota.ended_runs")
    return large


def carry_out(conn: psycopg.Connection[Any], plan: Generator[Execute, Any, Any]) -> Any:
    with conn.transaction():
        try:
            ask = next(plan)
            while True:
                cursor = conn.cursor(row_factory=dict_row)
                cursor.execute(STATEMENTS.get(ask.statement).encode(), ask.params)
                ask = plan.send(cursor.fetchall())
        except StopIteration as done:
            return done.value


def rows_read(seen: Watch) -> float:
    relations = {
        node["Relation Name"]
        for plan in seen.plans
        for node in _nodes(plan["Plan"])
        if "Relation Name" in node
    }
    wanted = [it for it in relations if it.startswith(("ended_runs", "open_runs"))]
    return sum(seen.rows_read(it) for it in wanted)


def _nodes(node: dict[str, Any]) -> list[dict[str, Any]]:
    return [node, *(it for child in node.get("Plans", []) for it in _nodes(child))]


@pytest.mark.parametrize(
    "filters",
    [
        {}, {"tenant": "rare"}, {"schedule": "rare"}, {"states": ["failed"]}, {"dead": True},
        {"key": "rare7"}, {"job": "work"}, {"error_group": "rare"}, {"error": "rare"},
        {"error_group": "nothing"}, {"states": ["succeeded"]}, {"queue": "default"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_lists_read_little_of_a_long_history(
    history: psycopg.Connection[Any], filters: RunFilters, order: TimeOrder
) -> None:
    # Open runs have the lowest ids: what is common among them needs no look further.
    with psycopg.connect(history.info.dsn, password=history.info.password, autocommit=True) as conn:
        seen = Watch(conn)
        for _ in range(7):  # often enough for a plan that would be kept
            seen.plans.clear()
            page = carry_out(conn, run_lists.list_page(RunFilter.of(filters), order=order))
            if filters.get("key"):
                assert len(page.runs) == 1
                assert page.cursor is None
            if filters.get("error_group") == "rare" or filters.get("error"):
                assert len(page.runs) == 50
            if order == "newest" or filters.get("states") != ["succeeded"]:
                # Where no index has the order, a portion of the ids.
                assert rows_read(seen) < 5000, filters


@pytest.mark.parametrize(
    ("filters", "most"),
    [
        ({"tag": "rare"}, 4_001),
        ({"text": "nowhere"}, 501),
        ({"payload_fields": {"n": "rare"}}, 501),
    ],
    ids=str,
)
def test_a_rare_run_is_searched_in_portions(
    history: psycopg.Connection[Any], filters: RunFilters, most: int
) -> None:
    with psycopg.connect(history.info.dsn, password=history.info.password, autocommit=True) as conn:
        seen = Watch(conn)
        page = carry_out(conn, run_lists.list_page(RunFilter.of(filters), seconds=0))
        assert page.runs == []
        assert page.cursor is not None
        assert rows_read(seen) <= most


@pytest.mark.parametrize(
    "filters",
    [{}, {"tenant": "rare"}, {"job": "work"}, {"tag": "rare"}, {"error": "no"}],
    ids=str,
)
def test_counts_read_little_of_a_long_history(
    history: psycopg.Connection[Any], filters: RunFilters
) -> None:
    """Three groups of states, each up to its limit or for one portion of the ids."""
    with psycopg.connect(history.info.dsn, password=history.info.password, autocommit=True) as conn:
        seen = Watch(conn)
        wanted = RunFilter.of(filters)
        counts = carry_out(conn, run_lists.count_states(wanted, most=1000, seconds=0))
        assert {count.state for count in counts} == set(RUN_STATES)
        assert all(count.runs <= 1000 for count in counts if count.state in END_STATES)
        ended = sum(seen.rows_read(it) for it in _relations(seen) if it.startswith("ended_runs"))
        assert ended < 15_000, filters


def test_what_a_run_started_is_found_by_an_index(history: psycopg.Connection[Any]) -> None:
    history.execute(
        """UPDATE rota.ended_runs SET triggered_by = '{"type": "code", "run": 7}'
           WHERE job = 'rare' AND key IN ('rare1', 'rare2')"""
    )
    with psycopg.connect(history.info.dsn, password=history.info.password, autocommit=True) as conn:
        seen = Watch(conn)
        rows = carry_out(conn, _children(7))
        assert len(rows) == 2
        assert rows_read(seen) < 100


def _children(run_id: int) -> Generator[Execute, Any, Any]:
    return (
        yield Execute("runs/children", {"id": run_id, "since": "2000-01-01 00:00Z", "limit": 50})
    )


def _relations(seen: Watch) -> set[str]:
    nodes = [node for plan in seen.plans for node in _nodes(plan["Plan"])]
    return {node["Relation Name"] for node in nodes if "Relation Name" in node}


@pytest.mark.parametrize("text", ["2500007", "rare7"], ids=["by id", "by key"])
def test_a_run_is_found_from_anywhere(history: psycopg.Connection[Any], text: str) -> None:
    with psycopg.connect(history.info.dsn, password=history.info.password, autocommit=True) as conn:
        seen = Watch(conn)
        (hit,) = carry_out(conn, find(text, 8))
        assert hit.name == "2500007"
        assert rows_read(seen) <= 20
