"""The database is the clock."""

from __future__ import annotations

from datetime import datetime

from rota.store.plans import Ask, Plan


def read_clock() -> Plan[datetime]:
    """Business time."""
    rows = yield Ask("clock/now", {})
    now: datetime = rows[0]["now"]
    return now
