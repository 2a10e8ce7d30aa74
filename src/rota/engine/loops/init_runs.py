"""Init schedules: start a run when workers start, by exactly one of the workers that start
together.

The database decides: the worker that writes the marker of a schedule (`once`, the release, the
number of the fleet) enqueues the run. `once` is tried again at the next start until it has
succeeded.
"""

from __future__ import annotations

from rota.postgres.schedules import ticks
from rota.postgres.sessions.pool import AsyncConn, Database
from rota.telemetry.logger import get_logger


async def run_inits(conn: AsyncConn, database: Database, worker: int, release: str | None) -> bool:
    """Enqueue the runs of this start; without a release, schedules that need one are skipped.
    Return False if some are still due, because another transaction holds their schedules."""
    held = []
    for schedule, run_id in await database.fetch_on(conn, ticks.run_inits(worker, release)):
        if run_id is None:
            held.append(schedule)
        else:
            get_logger("worker").info("init schedule started a run", schedule=schedule, run=run_id)
    if held:
        text = "init schedules wait: an open transaction has locked them"
        get_logger("worker").warning(text, schedules=", ".join(held))
    return not held
