"""The types that `app.runs`, `app.schedules` and the other command sets return, and those of jobs
with options, calls and timings, for annotations. Only Rota creates them."""

from __future__ import annotations

from rota.jobs.batch import Call
from rota.jobs.decorator import BoundJob
from rota.jobs.emit import Started
from rota.jobs.timings import DeclaredSchedule
from rota.model.attempt import AttemptInfo
from rota.model.attention import Attention, AttentionItem, KindCount
from rota.model.audit import AuditEntry
from rota.model.bulk import BulkItem, BulkResult
from rota.model.bulk_action import BulkAction
from rota.model.calendar import CalendarInfo
from rota.model.child_run import ChildRun
from rota.model.cleanup import (
    CleanupCount,
    CleanupInfo,
    CleanupRule,
    CleanupTable,
    RecipeInfo,
)
from rota.model.details import Handled, RunDetails
from rota.model.documents import RunDocuments, ScheduleDocuments
from rota.model.drift import Drift, Synced
from rota.model.error_group import ErrorDetails, ErrorFacet, ErrorGroup, ErrorPage, Share
from rota.model.event import BindingInfo, EventInfo
from rota.model.finding import Finding, Report
from rota.model.job import JobFunction, JobInfo, JobUse, SqlFunction
from rota.model.limit import LimitDetails, LimitInfo, LimitKey, LimitRun
from rota.model.log import LogLine, LogPage
from rota.model.log_volume import LogStep, LogVolume
from rota.model.metrics import (
    AttemptMetric,
    CapMetric,
    Changes,
    Counter,
    FleetHealth,
    LimitMetric,
    Metrics,
    OperatorAction,
    TenantMetric,
)
from rota.model.occurrence import OccurrenceInfo
from rota.model.overview import ComingSchedule, FailingJob, Overview, QueueRate, RunningRun
from rota.model.page import Page
from rota.model.queue import JobDepth, QueueDetails, QueueInfo
from rota.model.retention import RetentionItem, RetentionResult
from rota.model.run import RunEnd, RunInfo
from rota.model.run_counts import RunCount, RunCounts, StateCount
from rota.model.run_filter import RunPage
from rota.model.run_view import RunView
from rota.model.schedule_edit import FieldChange, ManualRun, Override, ScheduleEdit
from rota.model.schedule_info import BackfillInfo, ScheduleInfo, Triggered
from rota.model.search_result import SearchResult
from rota.model.states import (
    AttemptState,
    EndState,
    JobKind,
    RunState,
    ScheduleState,
    Strategy,
    WorkerState,
    WorkerStatus,
)
from rota.model.stats import Activity, JobActivity, QueueDepth, StateCounts, Stats, Step
from rota.model.strip import Strip
from rota.model.table_watch import Received, Refusal, Replayed, WatchInfo
from rota.model.template import TemplateInfo
from rota.model.tenant import (
    TenantAmount,
    TenantArchive,
    TenantDay,
    TenantInfo,
    TenantRemoval,
    TenantShare,
    TenantStats,
)
from rota.model.trend import Curve, Trend
from rota.model.why import Reason, Why
from rota.model.worker import WorkerInfo
from rota.operations.schedules.load import Lane
from rota.timing.load import HourLoad, LeftOut, Load, PredictedOverlap, Start, Suggestion
from rota.timing.load_counts import Day, PileUp
from rota.timing.preview import PreviewRow

__all__ = [
    "Activity",
    "AttemptInfo",
    "AttemptMetric",
    "AttemptState",
    "Attention",
    "AttentionItem",
    "AuditEntry",
    "BackfillInfo",
    "BindingInfo",
    "BoundJob",
    "BulkAction",
    "BulkItem",
    "BulkResult",
    "CalendarInfo",
    "Call",
    "CapMetric",
    "Changes",
    "ChildRun",
    "CleanupCount",
    "CleanupInfo",
    "CleanupRule",
    "CleanupTable",
    "ComingSchedule",
    "Counter",
    "Curve",
    "Day",
    "DeclaredSchedule",
    "Drift",
    "EndState",
    "ErrorDetails",
    "ErrorFacet",
    "ErrorGroup",
    "ErrorPage",
    "EventInfo",
    "FailingJob",
    "FieldChange",
    "Finding",
    "FleetHealth",
    "Handled",
    "HourLoad",
    "JobActivity",
    "JobDepth",
    "JobFunction",
    "JobInfo",
    "JobKind",
    "JobUse",
    "KindCount",
    "Lane",
    "LeftOut",
    "LimitDetails",
    "LimitInfo",
    "LimitKey",
    "LimitMetric",
    "LimitRun",
    "Load",
    "LogLine",
    "LogPage",
    "LogStep",
    "LogVolume",
    "ManualRun",
    "Metrics",
    "OccurrenceInfo",
    "OperatorAction",
    "Override",
    "Overview",
    "Page",
    "PileUp",
    "PredictedOverlap",
    "PreviewRow",
    "QueueDepth",
    "QueueDetails",
    "QueueInfo",
    "QueueRate",
    "Reason",
    "Received",
    "RecipeInfo",
    "Refusal",
    "Replayed",
    "Report",
    "RetentionItem",
    "RetentionResult",
    "RunCount",
    "RunCounts",
    "RunDetails",
    "RunDocuments",
    "RunEnd",
    "RunInfo",
    "RunPage",
    "RunState",
    "RunView",
    "RunningRun",
    "ScheduleDocuments",
    "ScheduleEdit",
    "ScheduleInfo",
    "ScheduleState",
    "SearchResult",
    "Share",
    "SqlFunction",
    "Start",
    "Started",
    "StateCount",
    "StateCounts",
    "Stats",
    "Step",
    "Strategy",
    "Strip",
    "Suggestion",
    "Synced",
    "TemplateInfo",
    "TenantAmount",
    "TenantArchive",
    "TenantDay",
    "TenantInfo",
    "TenantMetric",
    "TenantRemoval",
    "TenantShare",
    "TenantStats",
    "Trend",
    "Triggered",
    "WatchInfo",
    "Why",
    "WorkerInfo",
    "WorkerState",
    "WorkerStatus",
]
