"""Next times of schedules: read and set by every application that opens its database, hence apart
from what only operators need."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rota.store.plans import Ask, Plan, Rows


def read_pending(name: str | None, tenant: str) -> Plan[Rows]:
    """Whose next time is not computed: of one name, or all."""
    return (yield Ask("schedules/pending", {"name": name, "tenant": tenant}))


def set_next(times: Sequence[tuple[int, int, datetime]]) -> Plan[None]:
    """Id, version and next time of each."""
    if times:
        ids, versions, ats = zip(*times, strict=True)
        params = {"ids": list(ids), "versions": list(versions), "ats": list(ats)}
        yield Ask("schedules/set_next", params)
