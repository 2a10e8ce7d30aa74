"""Events of the application, and their bodies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rota.api.schemas.runs import Enqueued
from rota.api.schemas.values import BIGGEST_ID, Instant, KeySeconds, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, page, view_of
from rota.model.event import BindingInfo, EventInfo
from rota.model.table_watch import Refusal, Replayed

EventView = view_of(EventInfo)
EventPage = page(EventView)

BindingView = view_of(BindingInfo)


class NewEvent(Body):
    """Event to emit; it starts the jobs bound to it."""

    model_config = examples({"event": "order.paid", "payload": {"order_id": 7}, "key": "order-7"})

    event: str = Field(min_length=1, max_length=200, description="Name.")
    payload: Payload = Field(default_factory=dict, description="Payload passed to the jobs.")
    tenant: str = Field(default="", max_length=200, description="Tenant.")
    key: str | None = Field(
        default=None,
        min_length=1,
        max_length=400,
        description="Idempotency key: one run per job and key.",
    )
    key_seconds: KeySeconds = Field(
        default=None, description="How long the key stays reserved after its runs end."
    )
    period_seconds: Annotated[Seconds, Field(ge=0.001, le=3_153_600_000)] | None = Field(
        default=None,
        description="Alternatively: accept only one event per key in this period, whatever it "
        "starts.",
    )
    metadata: dict[str, Any] | None = Field(
        default=None, description="Metadata of the event and its runs."
    )
    hook: str | None = Field(
        default=None, min_length=1, max_length=200, description="Name of the ORM or framework hook."
    )


class Emitted(Body):
    """The event, and the runs that it started."""

    model_config = examples(
        {"event_id": 7, "runs": [{"run_id": 42, "job": "send_receipt", "is_duplicate": False}]}
    )

    event_id: int = Field(description="Event ID.")
    runs: list[Enqueued] = Field(description="Runs, one for each bound job.")


ReplayedView = view_of(Replayed)

RefusalView = view_of(Refusal)
RefusalPage = page(RefusalView)

_Text = Annotated[str, Field(min_length=1, max_length=200)]


class ReplayRequest(Body):
    """Events to deliver to a job, selected by name or by ID."""

    model_config = examples({"job": "send_receipt", "event": "order.*", "dry_run": True})

    job: _Text = Field(description="Job to deliver the events to.")
    event: _Text | None = Field(default=None, description="Event name or pattern, e.g. order.*")
    ids: list[Annotated[int, Field(ge=1, le=BIGGEST_ID)]] | None = Field(
        default=None, min_length=1, max_length=1000, description="Event IDs."
    )
    since: Instant | None = Field(default=None, description="Start of the period, inclusive.")
    until: Instant | None = Field(default=None, description="End of the period, exclusive.")
    tenant: str | None = Field(default=None, max_length=200, description="Filter by tenant.")
    again: bool = Field(default=False, description="Include events already delivered to the job.")
    dry_run: bool = Field(default=False, description="Count the events without delivering them.")
    reason: Reason = None
