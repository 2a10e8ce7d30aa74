"""Stats and metrics on long roll-ups: they read the range asked for, and no run that has ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.postgres.reports.metrics import read_changes, read_metrics
from rota.postgres.reports.stats import read_stats
from tests.conftest import load_config
from tests.database import Server
from tests.plans.plans import Watch

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("long roll-ups")]

Conn = psycopg.Connection[Any]
JOBS, DAYS = 30, 5

# Every job every minute, each minute by one worker: as it stands before upkeep folds it.
MINUTES = f"""
INSERT INTO rota.rollup_minutes
SELECT date_trunc('minute', rota.now()) - m * interval '1 minute', 'job' || j, 'q' || j % 3,
       'succeeded', {{worker}}, 2, 10, 5, 2
FROM generate_series({{first}}, {{last}}) m, generate_series(1, {JOBS}) j
"""


# So many are counted at every look, one more is too many.
MANY = 20_001
OPEN = """
INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority, state,
    queue, job, payload)
SELECT i, i, now(), now(), now(), 3, 5, 'queued', 'bulk', 'work', '{}' FROM generate_series(1, %s) i
"""


@pytest.fixture(scope="module")
def long(server: Server) -> Iterator[Conn]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        folded = MINUTES.format(worker=0, first=2, last=DAYS * 1440)
        conn.execute(folded.encode())
        _sum(conn)
        conn.execute(MINUTES.format(worker=7, first=0, last=1).encode())
        conn.execute(OPEN, [MANY + 5000])
        conn.execute("SELECT rota.count_depths(0)")
        # Counted lately, for as long as the test takes.
        conn.execute("UPDATE rota.count_marks SET took_ms = 1e9")
        conn.execute("ANALYZE rota.rollup_minutes, rota.rollup_spans")
        yield conn


def _sum(conn: Conn) -> None:
    """What folding has made of those minutes."""
    conn.execute(
        """INSERT INTO rota.rollup_spans SELECT s.span, s.started_at, j.job, j.queue, r.outcome,
           sum(r.attempts), sum(r.duration_ms), max(r.longest_ms),
           sum(r.histogram), min(r.minute)
           FROM rota.rollup_minutes r CROSS JOIN LATERAL rota.spans_of(r.minute) s
           CROSS JOIN LATERAL (VALUES (r.job, r.queue), ('', r.queue), ('', '')) AS j (job, queue)
           WHERE s.span <> 'minute' OR j.job = ''
           GROUP BY s.span, s.started_at, j.job, j.queue, r.outcome"""
    )


@pytest.fixture
def seen(long: Conn) -> Iterator[Watch]:
    with psycopg.connect(long.info.dsn, password=long.info.password, autocommit=True) as conn:
        yield Watch(conn)


def carry_out(seen: Watch, plan: Any) -> Any:
    url = f"{seen.conn.info.dsn} password={seen.conn.info.password}"
    return rota.App(config=load_config(url, {})).database.run_on(seen.conn, plan)


@pytest.mark.parametrize(
    ("hours", "job", "most"),
    [
        (1, None, JOBS * 70 + 3 * 70),
        (24, None, JOBS * (5 + 50) + 3 * 1450 + JOBS * 10),
        (24 * 4, None, JOBS * 60 + 3 * 110 + JOBS * 10),
        (24, "job7", 1500 + 60 + JOBS * 10),
    ],
)
def test_stats_read_the_range_that_was_asked_for(
    seen: Watch, hours: int, job: str | None, most: int
) -> None:
    seen.conn.execute("INSERT INTO rota.jobs (name) VALUES ('job7') ON CONFLICT DO NOTHING")
    for _ in range(7):  # prepared by then, with whatever plan the server settles on
        seen.plans.clear()
        found = carry_out(
            seen,
            read_stats(
                job=job, queue=None, since=timedelta(hours=hours), until=None, step=None,
                most_jobs=100,
            ),
        )  # fmt: skip
    assert len(found.jobs) == (1 if job else JOBS)
    read = seen.rows_read("rollup_minutes") + seen.rows_read("rollup_spans")
    assert read <= most
    _few_runs_are_read(seen)


@pytest.mark.parametrize(
    "plan", [lambda: read_metrics(20), lambda: read_changes(0)], ids=["metrics", "stream"]
)
def test_metrics_and_stream_read_totals(seen: Watch, plan: Any) -> None:
    for _ in range(7):
        seen.plans.clear()
        carry_out(seen, plan())
    assert seen.rows_read("rollup_spans") <= JOBS * 2
    assert seen.rows_read("rollup_minutes") <= JOBS * 2 * 2
    _few_runs_are_read(seen)


def _few_runs_are_read(seen: Watch) -> None:
    """None that has ended, and of the open ones no more than tell that there are many."""
    names = {name for plan in seen.plans for name in _relations(plan["Plan"])}
    assert not {name for name in names if name.startswith(("ended_runs", "ledger"))}
    assert seen.rows_read("open_runs") == MANY


def _relations(node: Any) -> Iterator[str]:
    if "Relation Name" in node:
        yield node["Relation Name"]
    for child in node.get("Plans", []):
        yield from _relations(child)
