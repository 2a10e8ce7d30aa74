"""What tests of users ask the database."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rota.store.plans import Ask, Plan, one
from rota.store.queries import Query, column
from rota.store.statements import Statements


class LeftToRun(NamedTuple):
    id: int
    job: str
    state: str


def quiet(statements: Statements) -> bytes:
    """For a new database of tests."""
    return statements.get("testing/quiet").encode()


def read_clock() -> Plan[datetime]:
    return _now(Ask("testing/now", {}))


def set_clock(at: datetime | None) -> Plan[datetime]:
    """None: as the server's own."""
    return _now(Ask("testing/set_clock", {"at": at}))


def advance_clock(seconds: float) -> Plan[datetime]:
    return _now(Ask("testing/advance_clock", {"seconds": seconds}))


def left_to_run(jobs: list[str]) -> Plan[list[LeftToRun]]:
    """What a worker that knows these jobs has still to do now: the first few."""
    rows = yield Ask("testing/left_to_run", {"jobs": jobs})
    return [LeftToRun(**row) for row in rows]


def reset() -> Plan[None]:
    """Back to a new database."""
    yield from one("testing/reset")


def runs_of_job(job: str) -> Query[list[str]]:
    """As JSON, which every driver hands over as it is; for a caller's connection."""
    return Query("testing/runs_of_job", {"job": job}, column)


def _now(ask: Ask) -> Plan[datetime]:
    rows = yield ask
    now: datetime = rows[0]["now"]
    return now
