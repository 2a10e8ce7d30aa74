"""Statements for users' tests."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from rota.postgres.plans import Execute, Plan, one
from rota.postgres.queries import Query, column
from rota.postgres.statements import Statements


class LeftToRun(NamedTuple):
    id: int
    job: str
    state: str


def quiet(statements: Statements) -> bytes:
    """Return the statement that prepares a new test database: no upkeep, an empty audit."""
    return statements.get("testing/quiet").encode()


def read_clock() -> Plan[datetime]:
    return _now(Execute("testing/now", {}))


def set_clock(at: datetime | None) -> Plan[datetime]:
    """Set the clock; None returns to the server's."""
    return _now(Execute("testing/set_clock", {"at": at}))


def advance_clock(seconds: float) -> Plan[datetime]:
    return _now(Execute("testing/advance_clock", {"seconds": seconds}))


def left_to_run(jobs: list[str]) -> Plan[list[LeftToRun]]:
    """Return the first few runs that a worker with these jobs still has to execute now."""
    rows = yield Execute("testing/left_to_run", {"jobs": jobs})
    return [LeftToRun(**row) for row in rows]


def reset() -> Plan[None]:
    """Reset the database to its initial state."""
    yield from one("testing/reset")


def runs_of_job(job: str) -> Query[list[str]]:
    """Return runs as JSON, which every driver returns unchanged; for a caller's connection."""
    return Query("testing/runs_of_job", {"job": job}, column)


def _now(ask: Execute) -> Plan[datetime]:
    rows = yield ask
    now: datetime = rows[0]["now"]
    return now
