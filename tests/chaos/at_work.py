"""Whether everybody does what he is there for, now."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from rota.testing import eventually_sync
from tests.chaos.stage import Stage

STANDING = """
SELECT s.name, st.error, max(l.through_at)
FROM rota.schedules s JOIN rota.schedule_state st ON st.schedule_id = s.id
LEFT JOIN rota.ledger l ON l.schedule_id = s.id
WHERE s.is_enabled AND NOT s.is_system AND s.name <> ALL (%s) GROUP BY 1, 2
HAVING coalesce(max(l.through_at), '-infinity') < now() - interval '4 s'
"""

BLOCKED = """
SELECT a.application_name, age(clock_timestamp(), a.query_start)::interval(0)::text,
       regexp_replace(left(a.query, 60), '\\s+', ' ', 'g')
FROM pg_stat_activity a
WHERE a.datname = current_database() AND cardinality(pg_blocking_pids(a.pid)) > 0
ORDER BY a.query_start
"""


def at_work(stage: Stage, seconds: float, but: Collection[str] = ()) -> list[str]:
    """Who is not, within so many seconds. `but` are the names of members and schedules that may
    stand still."""
    problems = [
        f"{member.name} lives and claims nothing within {seconds:g} s ({member.words})"
        for member in stage.idle(seconds, but)
    ]
    if not stage.workload.goes_on(seconds):
        problems.append(f"an application cannot enqueue within {seconds:g} s")
    if standing := still(stage, STANDING, seconds, list(but)):
        problems.append(f"schedules stand still: {standing}")
    if problems and (blocked := stage.rows(BLOCKED)):
        problems.append(f"waiting for locks: {blocked}")
    return problems


def still(stage: Stage, query: str, seconds: float, *params: Any) -> list[Any]:
    """What is left of these rows after so many seconds, if they do not go before."""
    try:
        eventually_sync(lambda: not stage.rows(query, *params), seconds)
    except AssertionError:
        return stage.rows(query, *params)
    return []
