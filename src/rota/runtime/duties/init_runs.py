"""Init schedules: run at the start of workers, by exactly one of those that start together.

The database decides: whoever writes the marker of a schedule (`once`, the release, the number of
the fleet) has the run. `once` is tried again at the next start until it has succeeded.
"""

from __future__ import annotations

from rota.store.schedules import ticks
from rota.store.sessions.pool import AsyncConn, Database
from rota.telemetry.logger import get_logger


async def run_inits(conn: AsyncConn, database: Database, worker: int, release: str | None) -> bool:
    """Enqueue what this start owes; without a release, those that ask for one are left out. Answers
    whether that is all: what somebody holds is still owed."""
    held = []
    for schedule, run_id in await database.fetch_on(conn, ticks.run_inits(worker, release)):
        if run_id is None:
            held.append(schedule)
        else:
            get_logger("worker").info("init schedule started a run", schedule=schedule, run=run_id)
    if held:
        said = "init schedules wait: an open transaction has locked them"
        get_logger("worker").warning(said, schedules=", ".join(held))
    return not held
