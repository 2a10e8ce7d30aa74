"""Audit entries."""

from __future__ import annotations

from rota.api.schemas.views import page, view
from rota.model.audit import AuditEntry

AuditView = view(
    AuditEntry,
    "AuditEntry",
    {
        "id": "ID.",
        "at": "Time of the change.",
        "actor": "Who did it.",
        "db_user": "Database login used.",
        "action": "What was done.",
        "object_type": "Type of object.",
        "object_id": "Name or ID of the object.",
        "tenant": "Tenant.",
        "before": "Values before the change.",
        "after": "Values after the change.",
        "reason": "Reason.",
    },
    {
        **{"id": 12, "at": "2026-03-08T09:00:00Z", "actor": "api:admin", "db_user": "rota"},
        **{"action": "queue.paused", "object_type": "queue", "object_id": "mail", "tenant": ""},
        **{"before": None, "after": {"is_paused": True}, "reason": "the provider is down"},
    },
)
AuditPage = page(AuditView)
