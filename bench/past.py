"""A database as it looks after four weeks: written by SQL, in an order that the clock would have
given it. Fifty jobs in ten queues; one run in two hundred failed, some have a key, a tag, a tenant
or a schedule; a day of minutes in the roll-ups, and what else lists show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.server import Conn
from bench.systems.base import System
from rota.model.histogram import pack

JOBS, QUEUES, DAYS = 50, 10, 28
_CHUNK = 500_000
_HISTOGRAM = pack([0] * 18 + [10, 10, 20])
# Of open runs and entries of the audit.
_SOME = 100_000
# Schedules that have run every five minutes for a week; the others have thirty times behind them.
_BUSY = 200

_DECLARED = f"""
    INSERT INTO rota.jobs (name, queue, description, tags)
    SELECT 'job' || j, 'queue' || j %% {QUEUES}, 'the ' || j || 'th', ARRAY['team' || j %% 5]
    FROM generate_series(1, {JOBS}) j;
    INSERT INTO rota.workers (name, host, pid, jobs, concurrency, state, lease_seconds,
        started_at, lease_expires_at, ended_at)
    SELECT 'host:' || w, 'host', w, (SELECT array_agg(name) FROM rota.jobs), 10,
           CASE WHEN w > 480 THEN 'live' ELSE 'gone' END, 30, now() - interval '1 day',
           now() + interval '1 day', CASE WHEN w > 480 THEN NULL ELSE now() END
    FROM generate_series(1, 500) w;
    INSERT INTO rota.schedules (name, job, interval_seconds, next_run_at)
    SELECT 'schedule' || s, 'job' || (s %% {JOBS} + 1), 300, now() + interval '1 day'
    FROM generate_series(1, %(schedules)s::integer) s;
"""
# Run number n of `total` ended that part of the four weeks ago.
_ENDED = f"""
    INSERT INTO rota.ended_runs (id, created_at, run_at, started_at, finished_at, worker, attempt,
        duration_ms, attempts_used, max_attempts, priority, is_redelivery, state, attempt_state,
        queue, job, tenant, payload, result, key, tags, schedule, error_type, error, end_reason)
    SELECT n, t.at, t.at, t.at + interval '1 s', t.at + interval '2 s', n %% 20 + 481, b.attempt,
           1000, b.attempt, 3, 5, false, b.state, b.state,
           'queue' || n %% {JOBS} %% {QUEUES}, 'job' || n %% {JOBS} + 1,
           CASE WHEN n %% 100 = 0 THEN 'tenant' || n %% 7 ELSE '' END,
           jsonb_build_object('user_id', n), '{{"sent": true}}',
           CASE WHEN n %% 50 = 0 THEN 'key' || n END,
           CASE WHEN n %% 1000 = 0 THEN ARRAY['rare'] END,
           CASE WHEN n %% 20 = 0 THEN 'schedule' || n / 20 %% %(schedules)s::integer + 1 END,
           b.error_type, b.error, b.reason
    FROM generate_series(%(first)s::bigint, %(last)s::bigint) n
    CROSS JOIN LATERAL (
        SELECT %(end)s::timestamptz - interval '{DAYS} days' * (1 - n::double precision / %(total)s)
               AS at) t
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n %% 200 = 0 THEN 'failed' ELSE 'succeeded' END AS state,
               CASE WHEN n %% 200 = 0 THEN 3 ELSE 1 END AS attempt,
               CASE WHEN n %% 200 = 0 THEN 'ValueError' END AS error_type,
               CASE WHEN n %% 200 = 0 THEN 'no such user' END AS error,
               CASE WHEN n %% 200 = 0 THEN 'attempts used up' END AS reason) b
"""
# So many lines of each of the latest runs.
_LINES = """
    INSERT INTO rota.logs (at, run_id, worker, attempt, seq, level, job, tenant, message, fields)
    SELECT r.started_at, r.id, r.worker, 1, s, CASE s WHEN 3 THEN 'error' ELSE 'info' END, r.job,
           r.tenant, 'sending to user ' || r.id, jsonb_build_object('try', s)
    FROM rota.ended_runs r, generate_series(1, %(lines)s::integer) s
    WHERE r.id > %(total)s::bigint - %(talkative)s::bigint
      AND r.started_at > now() - interval '6 days'
"""
_AROUND = f"""
    INSERT INTO rota.past_attempts (run_id, attempt, state, worker, started_at, finished_at,
        duration_ms, is_spent, job, tenant, error_type, error)
    SELECT r.id, a, 'failed', r.worker, r.started_at, r.finished_at, 900, true, r.job, r.tenant,
           r.error_type, r.error
    FROM rota.ended_runs r, generate_series(1, 2) a WHERE r.state = 'failed';
    INSERT INTO rota.id_marks (id, at)
    SELECT (n - 1) * %(total)s::bigint / ({DAYS} * 288),
           %(end)s::timestamptz - interval '{DAYS} days' + (n - 1) * interval '5 minutes'
    FROM generate_series(1, {DAYS} * 288) n ON CONFLICT DO NOTHING;
    INSERT INTO rota.open_runs (id, seq, created_at, enqueued_at, run_at, max_attempts, priority,
        state, queue, job, payload, worker, attempt, started_at)
    SELECT i, i, now(), now(),
           now() + CASE b.state WHEN 'scheduled' THEN interval '1 h' ELSE '0' END,
           3, 5, b.state, 'queue' || i %% {JOBS} %% {QUEUES}, 'job' || i %% {JOBS} + 1,
           jsonb_build_object('user_id', i), CASE b.state WHEN 'running' THEN 490 END,
           CASE b.state WHEN 'running' THEN 1 ELSE 0 END, CASE b.state WHEN 'running' THEN now() END
    FROM generate_series(%(total)s::bigint + 1, %(total)s::bigint + %(some)s::bigint) i
    CROSS JOIN LATERAL (
        SELECT CASE WHEN i %% 100 = 0 THEN 'running' WHEN i %% 10 = 0 THEN 'scheduled' ELSE 'queued'
               END AS state) b;
    SELECT setval('rota.run_ids', %(total)s::bigint + %(some)s::bigint);
    INSERT INTO rota.ledger (schedule_id, nominal_at, through_at, decision, tenant, schedule,
        claimed_at, decided_at, enqueued_at, run_id, state, success, duration_ms)
    SELECT s.id, t.at, t.at, 'ran', '', s.name, t.at, t.at, t.at, n, 'succeeded', true, 900
    FROM rota.schedules s, generate_series(1, 7 * 288) n
    CROSS JOIN LATERAL (SELECT now() - n * interval '5 minutes' AS at) t
    WHERE s.name LIKE 'schedule%%' AND (n <= 30 OR s.id %% (%(schedules)s::integer / {_BUSY}) = 0);
    INSERT INTO rota.audit (at, actor, action, object_type, object_id, reason)
    SELECT now() - (%(some)s::bigint - n) * interval '20 s', 'user' || n %% 20, 'run.retried',
           'run', n::text,
           'it was worth another try'
    FROM generate_series(1, %(some)s::bigint) n;
"""
# What upkeep has kept for charts and lists: samples by the minute, days of schedules, and groups of
# errors beside the one of the failed runs.
_KEPT = f"""
    INSERT INTO rota.samples (queue, minute, queued, running, oldest_seconds, pickups, histogram)
    SELECT q.name, date_trunc('minute', now()) - m * interval '1 minute', m %% 97, m %% 13, m %% 7,
           (20000 - m) * 40, (20000 - m) * %(histogram)s::numeric
    FROM generate_series(1, %(minutes)s::integer) m,
         (SELECT '' AS name UNION ALL
          SELECT 'queue' || n FROM generate_series(0, {QUEUES - 1}) n) q;
    INSERT INTO rota.schedule_days (schedule_id, day, succeeded, failed, cancelled, timed,
        duration_ms, longest_ms)
    SELECT s.id, current_date - n, 24, n %% 5, 0, 24 + n %% 5, 25000, 3000
    FROM rota.schedules s, generate_series(0, {DAYS} - 1) n WHERE s.name LIKE 'schedule%%';
    INSERT INTO rota.error_groups (id, error_type, error, is_system, first_seen_at, last_seen_at,
        failures, runs, last_run_id)
    SELECT 'group' || n, 'Odd', 'odd ' || n, false, now() - interval '{DAYS} days',
           now() - n * interval '1 minute', 10, 10, n
    FROM generate_series(1, %(groups)s::integer) n;
    INSERT INTO rota.error_counts (error_group, at, job, failures, runs)
    SELECT 'group' || n,
           date_trunc('hour', now() - n * interval '1 minute') - h * interval '1 hour',
           'job' || n %% {JOBS} + 1, 1, 1
    FROM generate_series(1, %(groups)s::integer) n, generate_series(0, 9) h;
"""
# Minutes of single jobs, by one row for all workers but for the last two.
_MINUTES = f"""
    INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker, attempts, duration_ms,
        longest_ms, histogram)
    SELECT date_trunc('minute', rota.now()) - m * interval '1 minute', 'job' || j,
           'queue' || (j - 1) %% {QUEUES}, o.name, w, 40, 40000, 2000,
           %(histogram)s::numeric
    FROM generate_series(%(first)s::integer, %(last)s::integer) m, generate_series(1, {JOBS}) j,
         unnest('{{succeeded,failed,timed_out}}'::text[]) o (name),
         unnest(%(workers)s::bigint[]) w
    WHERE o.name = 'succeeded' OR m %% 7 = 0
"""


@dataclass(frozen=True, slots=True)
class Past:
    """How much of it: ended runs, the latest of which have `lines` each, and schedules."""

    ended: int
    talkative: int = 100_000
    lines: int = 3
    schedules: int = _BUSY


def lay_out_past(system: System, database: str, past: Past) -> None:
    """Makes it, or takes what an earlier bench has left (`--keep`), in the schema of now."""
    server = system.server
    if server.noted(database) == str(past):
        system.database = database
        system.run("prepare")
        return
    system.fresh(database)
    with server.connect(database) as conn:
        make_past(conn, past)
    server.note(database, str(past))


def make_past(conn: Conn, past: Past) -> None:
    conn.execute("SET synchronous_commit = off")
    conn.execute("SET maintenance_work_mem = '256MB'")
    conn.execute(
        "SELECT rota.ensure_partitions(now() - make_interval(days => %s), now())", [DAYS + 1]
    )
    (end,) = conn.execute("SELECT now()").fetchone() or (None,)
    given = {
        "total": past.ended, "some": min(past.ended, _SOME), "end": end,
        "talkative": past.talkative, "lines": past.lines, "schedules": past.schedules,
    }  # fmt: skip
    _execute_all(conn, _DECLARED, given)
    with _without_indexes(conn, "ended_runs"):
        for first in range(1, past.ended + 1, _CHUNK):
            last = min(first + _CHUNK - 1, past.ended)
            conn.execute(_ENDED, given | {"first": first, "last": last})
    with _without_indexes(conn, "logs"):
        conn.execute(_LINES, given)
    _execute_all(conn, _AROUND, given)
    _make_minutes(conn, min(past.ended // 1000, 1440))
    _execute_all(conn, _KEPT, given | {
        "histogram": _HISTOGRAM, "minutes": min(past.ended, 9 * 1440),
        "groups": min(past.ended // 100, 9_999),
    })  # fmt: skip
    conn.execute("SELECT rota.count_depths(0)")
    conn.execute("VACUUM (ANALYZE)")
    conn.execute("CHECKPOINT")


def _execute_all(conn: Conn, statements: str, given: dict[str, Any]) -> None:
    for one in statements.split(";\n"):
        if one.strip():
            conn.execute(one, given)


@contextmanager
def _without_indexes(conn: Conn, table: str) -> Iterator[None]:
    """They are made after the table is filled: that halves the time."""
    found = conn.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = %s::regclass AND NOT indisprimary",
        [f"rota.{table}"],
    ).fetchall()
    for name, _ in found:
        conn.execute(f"DROP INDEX {name}")
    yield
    for _, definition in found:
        conn.execute(definition.replace(" ON ONLY ", " ON "))


def _make_minutes(conn: Conn, minutes: int) -> None:
    """As workers and upkeep would: what is not folded yet is by worker."""
    given = {"histogram": _HISTOGRAM}
    conn.execute(_MINUTES, given | {"first": 2, "last": minutes, "workers": [481]})
    while (conn.execute("SELECT rota.fold_rollups(1)").fetchone() or (0,))[0]:
        pass
    conn.execute("SELECT rota.fold_counts()")
    conn.execute(_MINUTES, given | {"first": 0, "last": 1, "workers": list(range(481, 489))})
