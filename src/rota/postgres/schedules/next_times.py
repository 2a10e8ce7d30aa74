"""Next times of schedules.

Every application that opens its database reads and sets them; so they are separate from the
functions that only operators need.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rota.postgres.plans import Execute, Plan, Rows


def read_pending(name: str | None, tenant: str) -> Plan[Rows]:
    """Return the schedules whose next time is not computed, of one name or all."""
    return (yield Execute("schedules/pending", {"name": name, "tenant": tenant}))


def set_next(times: Sequence[tuple[int, int, datetime]]) -> Plan[None]:
    """Store next times, each given as id, version and time."""
    if times:
        ids, versions, ats = zip(*times, strict=True)
        params = {"ids": list(ids), "versions": list(versions), "ats": list(ats)}
        yield Execute("schedules/set_next", params)
