"""What operators did, and what happened outside."""

from __future__ import annotations

from pydantic import Field

from rota.api.schemas.runs import Enqueued
from rota.api.schemas.values import KeySeconds, Payload
from rota.api.schemas.views import Body, examples, page, view
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


class NewEvent(Body):
    """A fact that starts the jobs bound to it."""

    model_config = examples({"event": "order.paid", "payload": {"order_id": 7}, "key": "order-7"})

    event: str = Field(min_length=1, max_length=200, description="Its name.")
    payload: Payload = Field(default_factory=dict, description="What the jobs are called with.")
    tenant: str = Field(default="", max_length=200, description="Whose it is.")
    key: str | None = Field(
        default=None, min_length=1, max_length=400, description="One run for each job and key."
    )
    key_seconds: KeySeconds = Field(default=None, description="How long the key outlives its runs.")


class Emitted(Body):
    """What the event has started."""

    model_config = examples(
        {"runs": [{"run_id": 42, "job": "send_receipt", "is_duplicate": False}]}
    )

    runs: list[Enqueued] = Field(description="One for each job that is bound to it.")
