"""Commands about error groups: list them, and mark them as handled."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Unpack

from rota.model.error_group import ErrorDetails, ErrorFilters, ErrorGroup, ErrorOrder, ErrorPage
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.postgres.plans import Plan
from rota.postgres.runs import error_groups

DAY = timedelta(days=1)
Found = list[ErrorGroup]
Range = datetime | timedelta


class ErrorCommands(Commands):
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
            filters, since=since or counted, is_active=since is not None, order=order,
            cursor=cursor, limit=limit,
        )  # fmt: skip

    @command
    def standings(self, **filters: Unpack[ErrorFilters]) -> Plan[dict[str, int]]:
        """The number of groups by standing, whenever they occurred."""
        return error_groups.count_standings(filters)

    @command
    def get(self, group: str, *, since: Range = DAY) -> Plan[ErrorDetails]:
        """One group with the traceback of its last failure, and what its runs have in common.
        Raises ErrorGroupNotFound if there is none."""
        return error_groups.find_error(group, since=since)

    @command
    def handle(self, group: str, reason: str | None = None) -> Plan[None]:
        """Mark it as handled: it needs no attention until it recurs."""
        return error_groups.handle_error(group, reason=reason, actor=self.actor)

    @command
    def reopen(self, group: str, reason: str | None = None) -> Plan[None]:
        """Undo `handle`."""
        return error_groups.reopen_error(group, reason=reason, actor=self.actor)


class Errors(ErrorCommands, AsyncCommands):
    """`app.errors`"""

    @property
    def sync(self) -> SyncErrors:
        return SyncErrors(self.database, self.actor)


class SyncErrors(ErrorCommands, SyncCommands):
    """`app.errors.sync`"""
