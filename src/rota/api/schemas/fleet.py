"""Workers, calendars, settings, the clock."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from rota.api.schemas.values import Instant, Reason
from rota.api.schemas.views import Body, examples, page, view
from rota.model.schedule_info import CalendarInfo
from rota.model.worker import WorkerInfo

_AT = "2026-03-08T09:00:00Z"
WORKER_EXAMPLE: dict[str, Any] = {
    **{"id": 3, "name": "web-1", "host": "web-1", "pid": 4711, "version": "0.1.0"},
    **{
        "application": "shop.jobs",
        "state": "live",
        "status": "live",
        "queues": [],
        "jobs": ["send_welcome"],
    },
    **{"concurrency": 16, "running": 4, "claimed": 4, "isolating_run": None},
    **{"is_draining": False},
    **{"is_to_stop": False, "is_to_hurry": False},
    **{"drain_requested_at": None, "drain_requested_by": None},
    **{"drain_reason": None, "drain_seen_at": None, "is_stuck": False, "is_silent": False},
    **{"is_polling": False},
    **{"lease_seconds": 30.0, "started_at": _AT, "heartbeat_at": _AT},
    **{"heartbeat_seconds": 3.1, "claimed_at": _AT, "finished_at": _AT, "errors": 0},
    **{"trouble": None, "ended_at": None, "asleep_until": None, "release": "2026-03-08"},
    **{"memory_bytes": 148_226_048, "cpu_seconds": 812.4, "cpu_cores": 0.31},
}
WorkerView = view(
    WorkerInfo,
    "Worker",
    {
        "id": "Worker ID; never reused.",
        "name": "Name.",
        "host": "Host.",
        "pid": "Process ID.",
        "version": "The release of Rota that it runs.",
        "application": "The application that it runs for.",
        "state": "Lifecycle state.",
        "status": "State with details: draining, silent, stuck, failing, asleep.",
        "queues": "Queues it claims from; empty: all.",
        "jobs": "Jobs it knows.",
        "concurrency": "Maximum concurrent attempts.",
        "running": "Number of running attempts.",
        "claimed": "Number of claimed runs.",
        "isolating_run": "Run that it executes in isolation, because a worker was lost with it.",
        "is_draining": "Whether it was asked to stop claiming.",
        "is_to_stop": "Whether it exits once drained.",
        "is_to_hurry": "Whether it interrupts attempts that outlast the shutdown timeout.",
        "drain_requested_at": "When the drain was requested.",
        "drain_requested_by": "Who requested it.",
        "drain_reason": "Why it was requested.",
        "drain_seen_at": "When the worker noticed the request.",
        "is_stuck": "Whether its event loop is blocked.",
        "is_silent": "Whether its lease has expired but it has not been declared lost yet.",
        "is_polling": "Whether it only polls, because it has no session to receive notifications.",
        "lease_seconds": "Time without a heartbeat after which it is considered lost.",
        "started_at": "When it started.",
        "heartbeat_at": "Last heartbeat.",
        "heartbeat_seconds": "Seconds since the last heartbeat.",
        "claimed_at": "Last successful claim.",
        "finished_at": "When it last stored results of attempts.",
        "errors": "Consecutive errors of the loop with the most.",
        "trouble": "Which of its loops is failing, and why.",
        "memory_bytes": "Resident memory of its process and its children.",
        "cpu_seconds": "CPU time they have used.",
        "cpu_cores": "Cores in use between its last two heartbeats.",
        "ended_at": "End time.",
        "asleep_until": "If asleep: when it comes back at the latest, under a new ID.",
        "release": "Release of its application.",
    },
    WORKER_EXAMPLE,
)
WorkerPage = page(WorkerView)
_DEFINITION: dict[str, Any] = {
    "timezone": "Europe/Berlin", "holidays": ["2026-12-25"], "weekends": ["saturday", "sunday"],
}  # fmt: skip
CalendarView = view(
    CalendarInfo,
    "Calendar",
    {
        "name": "Name.",
        "description": "What it is for.",
        "definition": "Time zone, holidays, weekends and windows.",
        "updated_at": "When it was last changed.",
        "version": "Incremented with each change; also the ETag.",
        "schedules": "Number of schedules that use it.",
    },
    {
        "name": "office",
        "description": "",
        "definition": _DEFINITION,
        "updated_at": _AT,
        "version": 1,
        "schedules": 4,
    },
)
CalendarPage = page(CalendarView)


class WorkerAction(Body):
    """Reason for the action."""

    model_config = examples({"reason": "the mail provider is down"})

    reason: Reason = None


class Drain(Body):
    """Whether to exit after the drain, and the reason."""

    model_config = examples({"stop": True, "reason": "this host goes away"})

    stop: bool = Field(default=False, description="Exit instead of waiting to be resumed.")
    reason: Reason = None


class StopWorker(Body):
    """How to stop, and the reason."""

    model_config = examples({"at_once": True, "reason": "it leaks"})

    at_once: bool = Field(
        default=False, description="Interrupt attempts that outlast the shutdown timeout."
    )
    reason: Reason = None


class NewCalendar(Body):
    """Calendar to create."""

    model_config = examples({"name": "office", "definition": _DEFINITION})

    name: str = Field(min_length=1, max_length=100, description="Name.")
    definition: dict[str, Any] = Field(description="Time zone, holidays, weekends and windows.")
    description: str = Field(default="", max_length=10_000, description="What it is for.")
    reason: Reason = None


class CalendarChanges(Body):
    """Fields to change."""

    model_config = examples({"definition": _DEFINITION})

    definition: dict[str, Any] | None = Field(
        default=None,
        description="Time zone, holidays, weekends and windows; replaces the whole definition.",
    )
    description: str | None = Field(default=None, max_length=10_000, description="What it is for.")
    reason: Reason = None


class Removed(Body):
    """The removed object."""

    model_config = examples({"name": "office"})

    name: str = Field(description="Name.")


class SettingView(Body):
    """One setting of this server."""

    model_config = examples(
        {
            "key": "worker.concurrency",
            "value": 16,
            "source": "default",
            "default": 16,
            "accepts": "a whole number from 1 to 1024",
            "variable": "ROTA_WORKER_CONCURRENCY",
            "description": "Slots: maximum concurrent attempts per worker process.",
        }
    )

    key: str = Field(description="Name.")
    value: Any = Field(description="Value; secrets are masked.")
    source: Literal["default", "file", "environment", "argument"] = Field(
        description="Source of the value."
    )
    default: Any = Field(description="Default value.")
    accepts: str = Field(description="Allowed values.")
    variable: str = Field(description="Its environment variable.")
    description: str = Field(description="What it means.")


class ClockView(Body):
    """Time of the database's clock."""

    model_config = examples({"now": _AT})

    now: Instant = Field(
        description="Current time of the database, which decides when runs are due."
    )
