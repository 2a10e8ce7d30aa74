"""Who did what. For actions that no SQL function records by itself."""

from __future__ import annotations

import json
from typing import Any

from rota.store.plans import Ask, Plan


def write_audit(
    actor: str | None,
    action: str,
    object_type: str,
    object_id: str,
    *,
    before: Any = None,
    after: Any = None,
    reason: str | None = None,
    tenant: str | None = None,
) -> Plan[None]:
    params = {
        "actor": actor,
        "action": action,
        "object_type": object_type,
        "object_id": object_id,
        "before": None if before is None else json.dumps(before),
        "after": None if after is None else json.dumps(after),
        "reason": reason,
        "tenant": tenant,
    }
    yield Ask("audit/write", params)
