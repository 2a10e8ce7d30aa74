"""The overview."""

from __future__ import annotations

from typing import Any

from rota.api.schemas.views import example_of, list_of, view, view_of
from rota.model.overview import ComingSchedule, FailingJob, Overview, QueueRate, RunningRun
from rota.model.queue import QueueInfo
from rota.model.worker import WorkerInfo

_AT = "2026-03-08T09:00:00Z"
_RATE: dict[str, Any] = {"queue": example_of(QueueInfo), "per_second": 12.5}
_RUNNING: dict[str, Any] = {
    "id": 42, "job": "send_welcome", "queue": "mail", "worker": 3, "attempt": 1, "started_at": _AT,
    "progress": 0.4, "message": "40 of 100",
}  # fmt: skip
_FAILING: dict[str, Any] = {
    "job": "send_welcome", "failures": 3, "attempts": 40, "last_error": "SMTPException: 421",
}  # fmt: skip
_COMING: dict[str, Any] = {
    "name": "digest", "tenant": "", "job": "send_digest", "next_run_at": _AT, "is_paused": False,
}  # fmt: skip

QueueRateView = view(
    QueueRate,
    "QueueRate",
    {"queue": "The queue.", "per_second": "Attempts finished per second."},
    _RATE,
    queue=view_of(QueueInfo),
)
RunningRunView = view(
    RunningRun,
    "RunningRun",
    {
        "id": "The run.",
        "job": "Job.",
        "queue": "Queue.",
        "worker": "Worker that has it.",
        "attempt": "Attempt number.",
        "started_at": "Since when it has been running.",
        "progress": "Reported progress, from 0 to 1.",
        "message": "Progress message.",
    },
    _RUNNING,
)
FailingJobView = view(
    FailingJob,
    "FailingJob",
    {
        "job": "The job.",
        "failures": "Attempts that failed, timed out or were lost.",
        "attempts": "Total attempts.",
        "last_error": "Error of the last failure.",
    },
    _FAILING,
)
ComingScheduleView = view(
    ComingSchedule,
    "ComingSchedule",
    {
        "name": "The schedule.",
        "tenant": "Tenant.",
        "job": "Job.",
        "next_run_at": "Next run time.",
        "is_paused": "Whether it is paused and will skip that time.",
    },
    _COMING,
)
OverviewView = view(
    Overview,
    "Overview",
    {
        "at": "Current time of the database's clock.",
        "queues": "All queues, largest backlog first.",
        "workers": "All workers that have not shut down, newest first.",
        "running": "Longest-running attempts.",
        "failing": "Jobs with recent failures, worst first.",
        "schedules": "Schedules due next.",
    },
    {
        "at": _AT,
        "queues": [_RATE],
        "workers": [example_of(WorkerInfo)],
        "running": [_RUNNING],
        "failing": [_FAILING],
        "schedules": [_COMING],
    },
    queues=list_of(QueueRateView),
    workers=list_of(view_of(WorkerInfo)),
    running=list_of(RunningRunView),
    failing=list_of(FailingJobView),
    schedules=list_of(ComingScheduleView),
)
