"""Commands about error groups: list them, and mark them as handled."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Unpack

from rota.model.error_group import (
    ErrorDetails,
    ErrorFilters,
    ErrorGroup,
    ErrorOrder,
    ErrorPage,
    GroupId,
)
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.postgres.plans import Plan, call
from rota.postgres.runs import error_groups

DAY = timedelta(days=1)
Found = list[ErrorGroup]
Range = datetime | timedelta


def _handled(group: ErrorGroup, is_changed: bool, at: ShowTime) -> str:
    return "handled"


def _before_handle(group: ErrorGroup) -> str:
    runs = f" ({group.runs:,})" if group.runs > 1 else ""
    return (
        f"{group.error_type}: {group.error}. Neither it nor the runs that failed with it{runs} "
        "need attention until it recurs. Nothing is retried or deleted."
    )


def _reopened(group: ErrorGroup, is_changed: bool, at: ShowTime) -> str:
    return "reopened"


def _before_reopen(group: ErrorGroup) -> str:
    why = f": {group.handled_reason}" if group.handled_reason else ""
    by = f"{group.handled_by} marked it as handled{why}. " if group.handled_by else ""
    return f"{by}It will need attention again."


class ErrorCommands(Commands):
    noun = Noun("error", "errors", ErrorGroup, key="id", part="group")

    @command
    def list(
        self,
        *,
        since: Range | None = None,
        order: ErrorOrder = "last",
        limit: int = 50,
        **filters: Unpack[ErrorFilters],
    ) -> Plan[Found]:
        """List error groups; with `since`, only those that occurred since then. Sorted by `last`
        failure, by `most` failures, or by `first` failure, in descending order. Counts cover that
        range, or the last day."""
        return error_groups.list_errors(
            filters, since=since or DAY, is_active=since is not None, order=order, limit=limit
        )

    @command
    def page(
        self,
        *,
        since: Range | None = None,
        counted: Range = DAY,
        order: ErrorOrder = "last",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[ErrorFilters],
    ) -> Plan[ErrorPage]:
        """One page of that list, the number of groups by standing, and the cursor of the next page.
        Without `since`, `counted` is the range of the counts."""
        return error_groups.page_errors(
            filters,
            since=since or counted,
            is_active=since is not None,
            order=order,
            cursor=cursor,
            limit=limit,
        )

    @command
    def standings(self, **filters: Unpack[ErrorFilters]) -> Plan[dict[str, int]]:
        """The number of groups by standing, whenever they occurred."""
        return error_groups.count_standings(filters)

    @command
    def types(self, groups: Collection[GroupId]) -> Plan[dict[str, str]]:
        """The type of the errors of each of these groups."""
        return error_groups.read_types(groups)

    @command
    def get(self, group: GroupId, *, since: Range = DAY) -> Plan[ErrorDetails]:
        """One group with the traceback of its last failure, and what its runs have in common.
        Raises ErrorGroupNotFound if there is none."""
        return error_groups.find_error(group, since=since)

    @operation(says=_handled, asks=_before_handle, is_reason_optional=True)
    def handle(self, group: GroupId, reason: Reason = None) -> Plan[None]:
        """Mark an error group as handled. It and its runs need no attention until it recurs."""
        yield from call("handle_error", error_group=group, reason=reason, actor=self.actor)

    @operation(says=_reopened, asks=_before_reopen, is_reason_optional=True)
    def reopen(self, group: GroupId, reason: Reason = None) -> Plan[None]:
        """Mark a handled error group as unhandled again."""
        yield from call("reopen_error", error_group=group, reason=reason, actor=self.actor)


class Errors(ErrorCommands, AsyncCommands):
    """`app.errors`"""

    @property
    def sync(self) -> SyncErrors:
        return SyncErrors(self.database, self.actor)


class SyncErrors(ErrorCommands, SyncCommands):
    """`app.errors.sync`"""
