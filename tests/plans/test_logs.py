"""How lines are found beside two hundred thousand others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rota.model.log_question import LogQuestion
from rota.postgres.logs.logs import search_logs
from rota.postgres.logs.volume import read_volume
from rota.postgres.plans import Plan
from rota.postgres.statements import Statements
from tests.database import Server
from tests.loglines import build_indexes, make_partitions
from tests.plans.plans import Watch

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("many lines")]

MANY = """
INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, message, fields)
SELECT date_trunc('day', rota.now()) - interval '2 days' + i * interval '1 s',
       i / 3 + 1, 1, 1, i % 3,
       CASE WHEN i % 1000 = 0 THEN 'error' ELSE 'info' END, 'job_' || i % 50,
       'processed order ' || i || CASE WHEN i = 5000 THEN ' xyzzy' ELSE '' END, '{"n": 1}'
FROM generate_series(1, 170000) i
"""


@pytest.fixture(scope="module")
def full(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        make_partitions(conn, 3)
        conn.execute(MANY.encode())
        build_indexes(conn)
        conn.execute("VACUUM ANALYZE rota.logs")
        yield conn


@pytest.fixture(params=["analyzed", "never analyzed"])
def search(
    full: psycopg.Connection[Any], request: pytest.FixtureRequest
) -> Iterator[Callable[..., tuple[int, set[str], float]]]:
    """Answers how many lines it found, by which indexes, and how many rows it read for that."""
    if request.param == "never analyzed":
        full.execute(
            "DELETE FROM pg_statistic WHERE starelid IN"
            " (SELECT relid FROM pg_partition_tree('rota.logs'))"
        )
    with psycopg.connect(full.info.dsn, password=full.info.password, autocommit=True) as conn:

        def run(
            text: str = "", *, counted: bool = False, **filters: Any
        ) -> tuple[int, set[str], float]:
            seen = Watch(conn)
            question = LogQuestion.of(text, filters, since=timedelta(days=3) if counted else None)
            with conn.transaction():
                plan: Any = read_volume(question) if counted else search_logs(question, 60)
                page = drive(conn, plan)
            logs = {
                str(node["Relation Name"])
                for plan in seen.plans
                for node in nodes(plan["Plan"])
                if str(node.get("Relation Name", "")).startswith("logs_2")
            }
            # An empty partition costs nothing, however it is read.
            indexes = {
                kind(index) for it in logs if seen.rows_read(it) for index in seen.indexes(it)
            }
            found = page.counted if counted else len(page.lines)
            return found, indexes, sum(map(seen.rows_read, logs))

        yield run


def drive(conn: psycopg.Connection[Any], plan: Plan[Any]) -> Any:
    statements = Statements("rota")
    try:
        ask = next(plan)
        while True:
            cursor = conn.cursor(row_factory=psycopg.rows.dict_row)
            cursor.execute(statements.get(ask.statement), ask.params)
            ask = plan.send(cursor.fetchall())
    except StopIteration as done:
        return done.value


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node.get("Plans", []):
        yield from nodes(child)


def kind(index: str) -> str:
    """`logs_20260101_job_at_idx` is what the index on (job, at) is called in its partition."""
    return "words" if "_words_" in index else index.split("_", 2)[-1]


def test_a_rare_word_by_the_index_of_words(search: Any, request: pytest.FixtureRequest) -> None:
    is_analyzed = request.node.callspec.params["search"] == "analyzed"
    found, indexes, rows = search("xyzzy")
    assert found == 1
    assert "Seq Scan" not in indexes
    if is_analyzed:
        assert "words" in indexes
        assert rows < 10_000


def test_a_common_word_by_the_order_of_time(search: Any) -> None:
    found, indexes, rows = search("processed")
    assert found == 100
    assert "words" not in indexes
    assert "Seq Scan" not in indexes
    assert rows < 10_000


def test_a_job_by_its_index(search: Any) -> None:
    found, indexes, rows = search(job="job_7")
    assert found == 100
    assert indexes == {"job_at_idx"}
    assert rows < 10_000


def test_errors_by_theirs(search: Any) -> None:
    found, indexes, rows = search(level="error")
    assert found == 100
    assert indexes <= {"at_idx1", "at_idx"}
    assert rows < 10_000


def test_a_run_by_its_index(search: Any) -> None:
    found, indexes, rows = search(run_id=20_000)
    assert found == 3
    assert indexes == {"run_id_attempt_seq_idx"}
    assert rows <= 3


@pytest.mark.parametrize(
    ("text", "filters", "most"),
    [("", {}, 40_000), ("processed", {}, 12_000), ("", {"job": "job_7"}, 20_000),
     ("", {"level": "error"}, 2_000), ("", {"run_id": 20_000}, 3)],
)  # fmt: skip
def test_a_chart_looks_at_some_lines_of_each_step(
    search: Any, text: str, filters: dict[str, Any], most: int
) -> None:
    """However many there are: by the order of time, of a job, of errors, or of a run."""
    found, indexes, rows = search(text, counted=True, **filters)
    assert found > 0
    assert "Seq Scan" not in indexes
    assert "words" not in indexes
    assert rows <= most
