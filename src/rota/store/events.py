"""Events that somebody emits."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rota.store.audit import write_audit
from rota.store.plans import Ask, Plan, Rows
from rota.store.schedules import act_as


def emit_event(params: Mapping[str, Any], *, actor: str | None) -> Plan[Rows]:
    """Run, job and whether it was there already, for each job that is bound to the event; all of
    it is in the audit."""
    yield from act_as(actor)
    rows = yield Ask("events/emit", dict(params))
    after = {
        "payload": json.loads(params["payload"]),
        "key": params["key"],
        "runs": [row["run_id"] for row in rows if not row["is_duplicate"]],
    }
    yield from write_audit(
        actor, "event.emitted", "event", params["event"], after=after, tenant=params["tenant"]
    )
    return rows
