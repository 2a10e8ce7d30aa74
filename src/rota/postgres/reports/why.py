"""Explains why; `rota.why` builds the answer, so that SQL gives the same one."""

from __future__ import annotations

from rota.model.why import Reason, Why
from rota.postgres.plans import Execute, Plan


def ask_why(subject: str, *, kind: str | None, tenant: str) -> Plan[Why]:
    rows = yield Execute("why/ask", {"subject": subject, "kind": kind, "tenant": tenant})
    kinds = [(row.pop("kind_found"), row.pop("name"), row.pop("also")) for row in rows]
    at = [row.pop("at") for row in rows]
    (found, name, also), reasons = kinds[0], [Reason(**row) for row in rows]
    return Why(kind=found, name=name, tenant=tenant, at=at[0], also=also, reasons=reasons)
