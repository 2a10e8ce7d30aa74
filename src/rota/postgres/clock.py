"""The database is the clock."""

from __future__ import annotations

from datetime import datetime

from rota.postgres.plans import Execute, Plan
from rota.postgres.queries import Query, only


def read_clock() -> Plan[datetime]:
    """Return the business time (`rota.now()`)."""
    rows = yield Execute("clock/now", {})
    now: datetime = rows[0]["now"]
    return now


def now() -> Query[datetime]:
    return Query("clock/now", {}, only(lambda row: row[0]))
