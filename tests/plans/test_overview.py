"""What `rota top` and `rota queues` ask every second, beside more than a million open runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

import rota
from rota.operations.reports.attention import look
from rota.postgres.queues import list_queues
from rota.postgres.reports.overview import read_overview
from rota.postgres.workers.workers import list_workers
from tests.conftest import load_config
from tests.plans.plans import Watch
from tests.plans.test_large_tables import empty, fresh, none_at_all
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("large tables")]

# To know that there are many, so many are looked at; then the front of each lane that has running
# ones, a thousand at most.
MANY, LANE = 20_001, 1_000

Execute = Callable[[Any], Any]


@pytest.fixture(scope="module")
def working(large: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """Three runs are running; the last count is a moment old."""
    engine = Engine(large)
    claims = engine.claim(worker := engine.worker(), 3, ["mail"])
    engine.count_depths()
    # Else it is time to count again after so many times what the counting took.
    large.execute("UPDATE rota.count_marks SET took_ms = 1000000000")
    yield large
    large.execute("UPDATE rota.count_marks SET took_ms = 0")
    engine.succeed(worker, *claims)


@pytest.fixture(params=[fresh, none_at_all, empty], ids=lambda it: it.__name__)
def seen(working: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Iterator[Watch]:
    request.param(working)
    info = working.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as conn:
        yield Watch(conn)


@pytest.fixture
def ask(seen: Watch) -> Execute:
    url = f"{seen.conn.info.dsn} password={seen.conn.info.password}"
    database = rota.App(config=load_config(url, {})).database

    def carry_out(plan: Callable[[], Any]) -> Any:
        for _ in range(7):  # prepared by then, with whatever plan the server settles on
            seen.plans.clear()
            found = database.run_on(seen.conn, plan())
        return found

    return carry_out


def test_depths_are_kept_ones(seen: Watch, ask: Execute) -> None:
    found = {queue.name: queue for queue in ask(lambda: list_queues())}
    assert found["mail"].running == 3
    assert found["default"].scheduled > 250_000
    assert seen.rows_read("open_runs") <= MANY


def test_what_runs_is_found_at_the_front_of_its_lane(seen: Watch, ask: Execute) -> None:
    (worker,) = (row for row in ask(lambda: list_workers(include_gone=False)) if row.running)
    assert worker.running == 3
    assert seen.rows_read("open_runs") <= MANY + LANE + 10
    assert "Seq Scan" not in lanes(seen)


def lanes(seen: Watch) -> set[str]:
    """How rows were read, apart from the look at whether there are many."""
    return {
        str(node["Node Type"]) for node in seen.nodes("open_runs") if node["Actual Rows"] != MANY
    }


def test_everything_at_a_glance(seen: Watch, ask: Execute) -> None:
    found = ask(lambda: read_overview(limit=20, failing_seconds=300))
    assert len(found.running) == 3
    assert seen.rows_read("open_runs") <= 3 * MANY + 2 * (LANE + 10) + 500
    read = {str(node["Relation Name"]) for plan in seen.plans for node in relations(plan["Plan"])}
    assert sum(seen.rows_read(it) for it in read if it.startswith("ended_runs")) <= 500


def test_what_needs_attention(seen: Watch, ask: Execute) -> None:
    ask(lambda: look(5))
    # Depths twice, what runs once; no run that has ended.
    assert seen.rows_read("open_runs") <= 3 * MANY + LANE + 10
    read = {str(node["Relation Name"]) for plan in seen.plans for node in relations(plan["Plan"])}
    assert not [it for it in read if it.startswith("ended_runs")]


def relations(node: Any) -> Iterator[Any]:
    if "Relation Name" in node:
        yield node
    for child in node.get("Plans", []):
        yield from relations(child)
