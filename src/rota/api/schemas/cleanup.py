"""Cleanups: rules that delete expired rows of users' tables."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from rota.api.schemas.values import Reason, Seconds
from rota.api.schemas.views import Body, examples, list_of, view
from rota.model.cleanup import (
    DEFAULT_CRON,
    CleanupCount,
    CleanupInfo,
    CleanupRule,
    CleanupTable,
    RecipeInfo,
)
from rota.model.instants import LONGEST_SECONDS

_RULE: dict[str, Any] = {
    "table": "public.webhook_deliveries", "column": "created_at", "older_than": "7 days",
    "where": "status <> 'pending'", "batch_size": 1000, "max_batches": 100,
}  # fmt: skip
CleanupRuleView = view(
    CleanupRule,
    "CleanupRule",
    {
        "table": "Table, with its schema.",
        "column": "Column that holds the time.",
        "older_than": "Minimum age of the rows to delete.",
        "where": "Further conditions; empty: none.",
        "batch_size": "Rows deleted per statement.",
        "max_batches": "Maximum number of batches per run.",
    },
    _RULE,
)
CleanupView = view(
    CleanupInfo,
    "Cleanup",
    {
        "name": "Name; also the name of its schedule.",
        "description": "Description.",
        "rules": "What it deletes.",
        "timing": "When it runs, in words.",
        "timezone": "Time zone of its timing.",
        "state": "State of its schedule.",
        "next_run_at": "When it runs next.",
        "last_run_at": "When its last run ended.",
        "last_run_success": "Whether that run succeeded.",
    },
    {
        "name": "webhook_delivery_prune", "description": "", "rules": [_RULE],
        "timing": "every day at 03:00 UTC", "timezone": "UTC", "state": "active",
        "next_run_at": "2026-03-09T03:00:00Z", "last_run_at": "2026-03-08T03:00:01Z",
        "last_run_success": True,
    },
    rules=list_of(CleanupRuleView),
)  # fmt: skip
CleanupCountView = view(
    CleanupCount,
    "CleanupCount",
    {
        "name": "Cleanup.",
        "table": "Table.",
        "column": "Column that holds the time.",
        "matching": "Number of rows that would be deleted now.",
    },
    {
        "name": "webhook_delivery_prune", "table": "public.webhook_deliveries",
        "column": "created_at", "matching": 4210,
    },
)  # fmt: skip
CleanupTableView = view(
    CleanupTable,
    "CleanupTable",
    {"name": "Table, with its schema.", "times": "Columns that hold a time."},
    {"name": "public.webhook_deliveries", "times": ["created_at"]},
)
RecipeView = view(
    RecipeInfo,
    "CleanupRecipe",
    {
        "name": "Name.",
        "description": "What it deletes, and when.",
        "cron": "Cron expression, in UTC.",
        "prefix": "Schema, and what precedes the usual table names.",
        "rules": "Rules for the tables found.",
        "is_used": "Whether cleanups delete from these tables by these columns.",
    },
    {
        "name": "stale_session_cleanup", "description": "Expired sessions, every hour",
        "cron": "0 * * * *", "prefix": "public.", "is_used": False,
        "rules": [
            _RULE | {
                "table": "public.sessions", "column": "expires_at", "older_than": "0 seconds",
                "where": "",
            }
        ],
    },
    rules=list_of(CleanupRuleView),
)  # fmt: skip


class NewCleanup(Body):
    """Cleanup to create: what to delete, and when."""

    model_config = examples(
        {
            "table": "public.webhook_deliveries", "column": "created_at",
            "older_than_seconds": 604_800, "where": "status <> 'pending'",
        }
    )  # fmt: skip

    table: str = Field(
        min_length=1, max_length=200, description="Table, with its schema (default `public`)."
    )
    column: str = Field(min_length=1, max_length=63, description="Column that holds the time.")
    older_than_seconds: Seconds = Field(
        ge=0, le=LONGEST_SECONDS, description="Minimum age of the rows to delete."
    )
    where: str | None = Field(
        None,
        max_length=2000,
        description="Further conditions, such as `status <> 'pending' and retries > 3`. They are "
        "parsed, not executed as SQL.",
    )
    name: str | None = Field(
        None, min_length=1, max_length=200, description="Name. Default: `cleanup_` and the table."
    )
    cron: str = Field(DEFAULT_CRON, max_length=200, description="When it runs.")
    timezone: str = Field("UTC", max_length=100, description="Time zone of `cron`.")
    description: str = Field("", max_length=10_000, description="Description.")
    reason: Reason = None


class UseRecipe(Body):
    """Tables to use, if the recipe fits several."""

    model_config = examples({"prefix": "public."})

    prefix: str | None = Field(
        None, max_length=200, description="Prefix of the tables, with or without their schema."
    )
    name: str | None = Field(
        None, min_length=1, max_length=200, description="Name. Default: that of the recipe."
    )
    reason: Reason = None


class RunCleanup(Body):
    """Reason for the action."""

    model_config = examples({"reason": "the disk is filling up"})

    reason: Reason = None


class CleanupStarted(Body):
    """The run that was enqueued."""

    model_config = examples({"name": "webhook_delivery_prune", "run_id": 4711})

    name: str = Field(description="Cleanup.")
    run_id: int = Field(description="Run.")
