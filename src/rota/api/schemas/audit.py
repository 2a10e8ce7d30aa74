"""What operators did."""

from __future__ import annotations

from rota.api.schemas.views import page, view
from rota.model.audit import AuditEntry

AuditView = view(
    AuditEntry,
    "AuditEntry",
    {
        "id": "Its number.",
        "at": "When.",
        "actor": "Who acted.",
        "db_user": "The login under which that reached the database.",
        "action": "What was done.",
        "object_type": "To what kind of thing.",
        "object_id": "To which.",
        "tenant": "Whose it was.",
        "before": "What it was before.",
        "after": "What it was after.",
        "reason": "Why.",
    },
    {
        **{"id": 12, "at": "2026-03-08T09:00:00Z", "actor": "api:admin", "db_user": "rota"},
        **{"action": "queue.paused", "object_type": "queue", "object_id": "mail", "tenant": ""},
        **{"before": None, "after": {"is_paused": True}, "reason": "the provider is down"},
    },
)
AuditPage = page(AuditView)
