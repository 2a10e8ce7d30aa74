"""The tables of a variant, and the rows that stand there before a measurement."""

from __future__ import annotations

from bench.shapes.variant import Variant

RUN_COLUMNS = """
    id bigint NOT NULL, seq bigint NOT NULL, created_at timestamptz NOT NULL,
    enqueued_at timestamptz NOT NULL, run_at timestamptz NOT NULL, started_at timestamptz,
    expires_at timestamptz, worker bigint, claim_batch bigint, priority smallint NOT NULL,
    attempt int NOT NULL, attempts_used int NOT NULL, max_attempts int NOT NULL,
    state text COLLATE "C" NOT NULL, queue text COLLATE "C" NOT NULL, job text COLLATE "C" NOT NULL,
    tenant text COLLATE "C" NOT NULL, payload jsonb NOT NULL, triggered_by jsonb NOT NULL,
    key text, tags text[], metadata jsonb, held_by text, timeout_seconds real, schedule_id bigint,
    scheduled_for timestamptz, schema_hash text, flow_id bigint, last_error text"""

END_COLUMNS = """
    finished_at timestamptz, duration_ms bigint, result jsonb, message text, error_type text,
    error text, traceback text, end_reason text"""

ATTEMPT_COLUMNS = """
    run_id bigint NOT NULL, attempt int NOT NULL, worker bigint NOT NULL,
    state text COLLATE "C" NOT NULL, started_at timestamptz NOT NULL, ended_at timestamptz NOT NULL,
    duration_ms bigint, message text, error_type text, error text, traceback text"""

# Four weeks back and one ahead, so that preloaded history lies in closed partitions.
WEEKS = range(-5, 2)


def create(v: Variant) -> str:
    hot = "runs" if v.shape == "a" else "open_runs"
    parts = [f"CREATE SCHEMA {v.schema}", f"CREATE SEQUENCE {v.schema}.ids CACHE 100", _hot(v, hot)]
    parts += _hot_indexes(v, hot)
    if v.shape != "a":
        parts += _history(v)
    if v.shape == "c" or v.has_attempt_row:
        parts += _attempts(v)
    return ";\n".join(parts)


def hot_table(v: Variant) -> str:
    return f"{v.schema}.{'runs' if v.shape == 'a' else 'open_runs'}"


def _hot(v: Variant, hot: str) -> str:
    columns = RUN_COLUMNS + (f", {END_COLUMNS}" if v.shape == "a" else "")
    if v.shape == "d":
        # Columns in an index *predicate* block HOT updates too, so `state` may be in none.
        columns += _flags(v)
    return (
        f"CREATE TABLE {v.schema}.{hot} ({columns}, PRIMARY KEY (id)) "
        f"WITH (fillfactor = {v.fillfactor})"
    )


def _flags(v: Variant) -> str:
    if not v.is_generated:
        return ", is_ready boolean NOT NULL, is_future boolean NOT NULL"
    return (
        ", is_ready boolean GENERATED ALWAYS AS"
        " (held_by IS NULL AND state IN ('queued', 'running')) STORED"
        ", is_future boolean GENERATED ALWAYS AS (state = 'scheduled') STORED"
    )


def _hot_indexes(v: Variant, hot: str) -> list[str]:
    on = f"ON {v.schema}.{hot}"
    ready = "is_ready" if v.shape == "d" else "state = 'queued' AND held_by IS NULL"
    future = "is_future" if v.shape == "d" else "state = 'scheduled'"
    indexes = [
        f"CREATE INDEX claim {on} (queue, priority, seq) WHERE {ready}",
        f"CREATE INDEX due {on} (run_at) WHERE {future}",
    ]
    if v.has_worker_index:
        indexes.append(f"CREATE INDEX by_worker {on} (worker) WHERE state = 'running'")
    if v.shape == "a":
        indexes.append(f"CREATE INDEX {on} (job, finished_at) WHERE finished_at IS NOT NULL")
    return indexes


def _history(v: Variant) -> list[str]:
    s = v.schema
    return [
        f"CREATE TABLE {s}.ended_runs ({RUN_COLUMNS}, {END_COLUMNS}, keep_class text NOT NULL) "
        "PARTITION BY LIST (keep_class)",
        f"CREATE TABLE {s}.ended_standard PARTITION OF {s}.ended_runs FOR VALUES IN ('standard') "
        "PARTITION BY RANGE (finished_at)",
        f"CREATE INDEX ON {s}.ended_runs (id)",
        f"CREATE INDEX ON {s}.ended_runs (job, finished_at)",
        *_weeks(s, "ended_standard"),
    ]


def _attempts(v: Variant) -> list[str]:
    column = "started_at" if v.shape == "c" else "ended_at"
    return [
        f"CREATE TABLE {v.schema}.attempts ({ATTEMPT_COLUMNS}) PARTITION BY RANGE ({column})",
        f"CREATE INDEX ON {v.schema}.attempts (run_id, attempt)",
        *_weeks(v.schema, "attempts"),
    ]


def _weeks(schema: str, table: str) -> list[str]:
    # Bounds must be constants, so the server's own date computes them inside a DO block.
    return [
        f"""DO $$ BEGIN EXECUTE format(
            'CREATE TABLE {schema}.{table}_{n + 5} PARTITION OF {schema}.{table}
             FOR VALUES FROM (%L) TO (%L)',
            date_trunc('week', now()) + interval '{n} weeks',
            date_trunc('week', now()) + interval '{n + 1} weeks'); END $$"""
        for n in WEEKS
    ]


def _sample(v: Variant, state: str, first: int, last: int) -> tuple[str, str]:
    """Column list and select list of generated rows, as an enqueue would have written them."""
    columns = (
        "id, seq, created_at, enqueued_at, run_at, priority, attempt, attempts_used, "
        "max_attempts, state, queue, job, tenant, payload, triggered_by"
    )
    values = (
        f"nextval('{v.schema}.ids'), nextval('{v.schema}.ids'), now(), clock_timestamp(), "
        "now() + CASE WHEN %s THEN n * interval '1 second' + interval '1 day' "
        "ELSE interval '0' END, 5, 0, 0, 5, '%s', 'default', 'send_welcome', '', "
        "jsonb_build_object('user_id', n, 'locale', 'en'), '{\"type\": \"code\"}'"
    ) % (state == "scheduled", state)
    if v.shape == "d" and not v.is_generated:
        columns += ", is_ready, is_future"
        values += f", {state == 'queued'}, {state == 'scheduled'}"
    return columns, f"SELECT {values} FROM generate_series({first}, {last}) AS n"


def enqueue(v: Variant, first: int, last: int, state: str = "queued") -> str:
    columns, select = _sample(v, state, first, last)
    return f"INSERT INTO {hot_table(v)} ({columns}) {select}"


def promote(v: Variant, size: int) -> str:
    """Make the earliest future runs ready, with a new place in the order, as the promoter does."""
    future = "is_future" if v.shape == "d" else "state = 'scheduled'"
    ready = ", is_ready = true, is_future = false" if v.shape == "d" else ""
    return f"""UPDATE {hot_table(v)} SET state = 'queued', seq = nextval('{v.schema}.ids') {ready}
        WHERE id = ANY (ARRAY(SELECT id FROM {hot_table(v)} WHERE {future}
                              ORDER BY run_at LIMIT {size} FOR UPDATE SKIP LOCKED))"""


def preload_finished(v: Variant, first: int, last: int) -> str:
    """Ended rows spread over the four weeks before this one."""
    columns, select = _sample(v, "succeeded", first, last)
    ended = "date_trunc('week', now()) - (n % 2419200) * interval '1 second' - interval '1 second'"
    extra = "started_at, worker, claim_batch, finished_at, duration_ms, result"
    values = f"{ended}, n % 50, n / 100, {ended}, 12, '{{\"ok\": true}}'"
    table = hot_table(v)
    if v.shape != "a":
        table, extra, values = (
            f"{v.schema}.ended_runs",
            f"{extra}, keep_class",
            f"{values}, 'standard'",
        )
    if v.shape == "d":
        columns = columns.replace(", is_ready, is_future", "")
        select = select.replace(", False, False FROM", " FROM")
    return f"INSERT INTO {table} ({columns}, {extra}) " + select.replace(
        " FROM generate_series", f", {values} FROM generate_series"
    )
