"""Claim and finish of each shape, as one statement or as a function with its plan pinned."""

from __future__ import annotations

from bench.shapes.schema import hot_table
from bench.shapes.variant import Variant

PINS = " ".join(
    f"SET enable_{node} = off"
    for node in ("seqscan", "hashjoin", "mergejoin", "bitmapscan", "sort")
)

CLAIM_ARGUMENTS = {"queue": "text", "hints": "bigint[]", "worker": "bigint", "size": "int"}
FINISH_ARGUMENTS = {
    "ids": "bigint[]",
    "attempts": "int[]",
    "durations": "bigint[]",
    "results": "text[]",
    "tids": "tid[]",
    "worker": "bigint",
}
CLAIMED = "id bigint, seq bigint, attempt int, tid tid, job text, payload jsonb"

# A plain equality of two columns lets the planner read the whole primary key in order and loop over
# the batch for each row of it, which it does when it believes the table empty. The array of one
# can only be looked up.
REACH = {
    "join": "r.id = f.id",
    "any": "r.id = ANY (ARRAY[f.id])",
    "ctid": "r.ctid = f.tid AND r.id = ANY (ARRAY[f.id])",
}

CARRIED = (
    "id, seq, created_at, enqueued_at, run_at, started_at, expires_at, worker, claim_batch, "
    "priority, attempt, attempts_used, max_attempts, queue, job, tenant, payload, triggered_by, "
    "key, tags, metadata, schedule_id, scheduled_for, flow_id"
)


def functions(v: Variant) -> str:
    """The two functions of a pinned variant."""
    claim = _function(v, "claim", CLAIM_ARGUMENTS, CLAIMED, _claim(v, _named(CLAIM_ARGUMENTS)))
    finish = _function(
        v, "finish", FINISH_ARGUMENTS, "id bigint", _finish(v, _named(FINISH_ARGUMENTS))
    )
    return f"{claim};\n{finish}"


def claim(v: Variant) -> str:
    return _call(v, "claim", CLAIM_ARGUMENTS) if v.is_pinned else _claim(v, _bound(CLAIM_ARGUMENTS))


def finish(v: Variant) -> str:
    if v.is_pinned:
        return _call(v, "finish", FINISH_ARGUMENTS)
    return _finish(v, _bound(FINISH_ARGUMENTS))


def _named(arguments: dict[str, str]) -> dict[str, str]:
    return {name: f"p_{name}" for name in arguments}


def _bound(arguments: dict[str, str]) -> dict[str, str]:
    return {name: f"%({name})s::{kind}" for name, kind in arguments.items()}


def _call(v: Variant, name: str, arguments: dict[str, str]) -> str:
    return f"SELECT * FROM {v.schema}.{name}({', '.join(_bound(arguments).values())})"


def _function(v: Variant, name: str, arguments: dict[str, str], returns: str, body: str) -> str:
    taken = ", ".join(f"p_{argument} {kind}" for argument, kind in arguments.items())
    pins = PINS + (" SET plan_cache_mode = force_generic_plan" if v.is_generic else "")
    return (
        f"CREATE FUNCTION {v.schema}.{name}({taken}) RETURNS TABLE ({returns}) "
        f"LANGUAGE plpgsql {pins} AS $$ #variable_conflict use_column\n"
        f"BEGIN RETURN QUERY {body}; END $$"
    )


def _picked(v: Variant, p: dict[str, str]) -> str:
    column = "ctid" if v.claim_by == "ctid" else "id"
    ready = (
        "r.is_ready AND r.worker IS NULL"
        if v.shape == "d"
        else "r.state = 'queued' AND r.held_by IS NULL"
    )
    scan = (
        f"SELECT r.{column} FROM {hot_table(v)} r WHERE r.queue = {p['queue']} AND {ready} "
        "AND r.priority = {priority} AND r.seq > {hint} "
        f"ORDER BY r.seq LIMIT {p['size']} FOR UPDATE SKIP LOCKED"
    )
    if not v.has_lanes:
        return scan.format(priority="5", hint=f"({p['hints']})[6]")
    lane = scan.format(priority="(lane.place - 1)::smallint", hint="lane.hint")
    return (
        f"SELECT picked.{column} FROM unnest({p['hints']}) WITH ORDINALITY AS lane(hint, place) "
        f"CROSS JOIN LATERAL ({lane}) AS picked LIMIT {p['size']}"
    )


def _claim(v: Variant, p: dict[str, str]) -> str:
    change = (
        f"UPDATE {hot_table(v)} AS r SET state = 'running', worker = {p['worker']}, "
        "attempt = r.attempt + 1, started_at = statement_timestamp(), claim_batch = 1"
    )
    back = "RETURNING r.id, r.seq, r.attempt, r.ctid, r.job::text, r.payload"
    picked = _picked(v, p)
    if v.claim_by == "join":
        return f"WITH picked AS ({picked}) {change} FROM picked WHERE r.id = picked.id {back}"
    column = "ctid" if v.claim_by == "ctid" else "id"
    update = f"{change} WHERE r.{column} = ANY (ARRAY({picked})) {back}"
    if v.shape != "c":
        return update
    return f"""WITH taken AS ({update}), noted AS (
        INSERT INTO {v.schema}.attempts (run_id, attempt, worker, state, started_at, ended_at)
        SELECT id, attempt, {p["worker"]}, 'running', statement_timestamp(), 'infinity' FROM taken)
        SELECT id, seq, attempt, ctid, job, payload FROM taken"""


def _finish(v: Variant, p: dict[str, str]) -> str:
    ended = (
        f"unnest({p['ids']}, {p['attempts']}, {p['durations']}, {p['results']}, {p['tids']}) "
        "AS f(id, attempt, duration_ms, result, tid)"
    )
    # Not "AND state = 'running'": that would let the planner reach the rows by the worker's index
    # and join them with the ids in a loop (9 times slower at 1,000 a batch).
    fence = f"{REACH[v.finish_by]} AND r.attempt = f.attempt AND r.worker = {p['worker']}"
    if v.shape == "a":
        return (
            f"UPDATE {hot_table(v)} AS r SET state = 'succeeded', duration_ms = f.duration_ms, "
            f"finished_at = statement_timestamp(), result = f.result::jsonb "
            f"FROM {ended} WHERE {fence} RETURNING r.id"
        )
    gone = (
        f"gone AS (DELETE FROM {hot_table(v)} AS r USING {ended} WHERE {fence} "
        f"RETURNING {_prefixed()}, f.duration_ms, f.result)"
    )
    kept = f"""INSERT INTO {v.schema}.ended_runs
        ({CARRIED}, state, finished_at, duration_ms, result, keep_class)
        SELECT {CARRIED}, 'succeeded', statement_timestamp(), duration_ms, result::jsonb, 'standard'
        FROM gone"""
    return f"WITH {gone} {_with_attempt(v, kept)}"


def _prefixed() -> str:
    return ", ".join(f"r.{column.strip()}" for column in CARRIED.split(","))


def _with_attempt(v: Variant, kept: str) -> str:
    if v.shape == "c":
        return f""", kept AS ({kept})
            UPDATE {v.schema}.attempts AS t SET state = 'succeeded', duration_ms = g.duration_ms,
            ended_at = statement_timestamp() FROM gone AS g
            WHERE t.run_id = g.id AND t.attempt = g.attempt AND t.started_at = g.started_at
            RETURNING g.id"""
    if v.has_attempt_row:
        return f""", noted AS (INSERT INTO {v.schema}.attempts
            (run_id, attempt, worker, state, started_at, ended_at, duration_ms)
            SELECT id, attempt, worker, 'succeeded', started_at, statement_timestamp(), duration_ms
            FROM gone) {kept} RETURNING id"""
    return f"{kept} RETURNING id"
