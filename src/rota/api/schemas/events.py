"""Events of the application, and their bodies."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from rota.api.schemas.runs import Enqueued
from rota.api.schemas.values import BIGGEST_ID, Instant, KeySeconds, Payload, Reason, Seconds
from rota.api.schemas.views import Body, examples, page, view
from rota.model.event import BindingInfo, EventInfo
from rota.model.watch import Refusal, Replayed, WatchInfo

_AT = "2026-03-08T09:00:00Z"
_EVENT: dict[str, Any] = {
    "tenant": "", "name": "order.paid", "id": 7, "at": _AT, "payload": {"order_id": 7},
    "key": "order-7", "actor": "ada", "role": "shop", "source": {"hook": "django"},
    "metadata": None, "duplicate_of": None, "outcome": "started",
    "deliveries": [{"job": "send_receipt", "run": 42}, {"job": "book", "skipped": "filter"}],
}  # fmt: skip
EventView = view(
    EventInfo,
    "Event",
    {
        "tenant": "Tenant.",
        "name": "Name.",
        "id": "ID.",
        "at": "When it was emitted.",
        "payload": "Payload passed to the jobs.",
        "key": "Idempotency key.",
        "actor": "User of the application, if given.",
        "role": "Database role that emitted it.",
        "source": "Where it came from: a table, a hook, a webhook, a run.",
        "metadata": "Metadata passed on to its runs.",
        "duplicate_of": "First event with this key.",
        "deliveries": "One entry for each bound job: its run, or why there is none.",
        "outcome": "started, debounced, throttled, unbound (no job bound), filtered, duplicate.",
    },
    _EVENT,
)
EventPage = page(EventView)

BindingView = view(
    BindingInfo,
    "Binding",
    {
        "pattern": "Event name, or a pattern where `*` matches any characters.",
        "job": "Bound job.",
        "is_pattern": "Whether it is a pattern.",
        "filter": "Filter that payloads must match; null: none.",
        "is_enabled": "Whether the job is enabled; if not, its runs wait.",
    },
    {
        "pattern": "order.*",
        "job": "send_receipt",
        "is_pattern": True,
        "filter": {"status": "paid"},
        "is_enabled": True,
    },
)


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


WatchView = view(
    WatchInfo,
    "Watch",
    {
        "id": "ID.",
        "tenant": "Tenant of its events, unless a column holds it.",
        "table_name": "Table name when the watch was created.",
        "event": "Event name, followed by a dot and the operation.",
        "operations": "Operations watched: insert, update, delete.",
        "update_of": "Updates emit an event only if one of these columns changed; null: "
"always.",
        "columns": "Columns included in the payload; null: all.",
        "condition": "SQL condition on the row; null: all rows.",
        "tenant_column": "Column that holds the tenant of each row.",
        "created_at": "When it was created.",
        "created_by": "Who created it.",
        "drift": "Where the database differs from what was installed.",
    },
    {
        "id": 1, "tenant": "", "table_name": "public.orders", "event": "orders",
        "operations": ["insert", "update"], "update_of": ["status"], "columns": None,
        "condition": "new.total > 100", "tenant_column": None, "created_at": _AT,
        "created_by": "cli:ada", "drift": [],
    },
)  # fmt: skip

ReplayedView = view(
    Replayed,
    "Replayed",
    {
        "events": "Number of matching events.",
        "started": "Number of runs started, or that would be.",
        "joined": "Number of events that joined the run of another event (debounce or "
"throttle).",
        "delivered_before": "Number of events already delivered to the job.",
        "filtered": "Number of events that do not match the job's filters.",
        "held": "Number of events locked by another transaction; try them again.",
        "is_dry_run": "Whether they were only counted.",
    },
    {
        "events": 12, "started": 9, "joined": 0, "delivered_before": 2, "filtered": 1, "held": 0,
        "is_dry_run": True,
    },
)  # fmt: skip

RefusalView = view(
    Refusal,
    "Refusal",
    {
        "hook": "The webhook.",
        "reason": "Why it was refused.",
        "address": "Address of the client.",
        "minute": "Start of the minute.",
        "refusals": "Number of refusals in that minute.",
        "last_at": "Time of the last one.",
    },
    {
        "hook": "stripe", "reason": "signature", "address": "192.0.2.7", "minute": _AT,
        "refusals": 3, "last_at": _AT,
    },
)  # fmt: skip
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


class NewWatch(Body):
    """Table to watch: its rows become events."""

    model_config = examples(
        {"table": "shop.orders", "on": "insert,update[status]", "when": "new.total > 100"}
    )

    table: _Text = Field(description="Table with its schema, quoted as in SQL.")
    on: str = Field(
        default="insert,update,delete",
        max_length=2000,
        description="Operations to watch, as one string.",
    )
    when: str | None = Field(
        default=None,
        min_length=1,
        max_length=10_000,
        description="Condition on columns of `new` and `old`. It cannot call functions.",
    )
    columns: list[_Text] | None = Field(
        default=None,
        min_length=1,
        max_length=1600,
        description="Columns to include in the payload.",
    )
    event: _Text | None = Field(default=None, description="Event name. Default: the table name.")
    tenant: str = Field(default="", max_length=200, description="Tenant of the events.")
    tenant_column: _Text | None = Field(
        default=None, description="Column that holds the tenant of each row."
    )


class Unwatched(Body):
    """The removed watches."""

    model_config = examples({"ids": [1]})

    ids: list[int] = Field(description="Watch IDs.")
