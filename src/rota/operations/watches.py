"""Watched tables: `app.watches`."""

from __future__ import annotations

from rota.model.table_watch import (
    Columns,
    EventName,
    EventTenant,
    On,
    Table,
    TenantColumn,
    WatchId,
    WatchInfo,
    When,
    read_operations,
)
from rota.operations.commands import AsyncCommands, Commands, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.postgres.audit import because
from rota.postgres.events import find_watch, list_watches
from rota.postgres.plans import Plan, call

Found = list[WatchInfo]


def _added(made: WatchInfo, is_changed: bool, at: ShowTime) -> str:
    names = ", ".join(f"{made.event}.{operation}" for operation in made.operations)
    return f"watch {made.id}: {made.table_name} emits {names}"


def _removed(result: None, is_changed: bool, at: ShowTime) -> str:
    return "is removed"


def _before_remove(it: WatchInfo) -> str:
    return (
        f"{it.table_name} no longer emits {it.event}.* on {it.watched}. Existing events are kept."
    )


class WatchCommands(Commands):
    noun = Noun("watch", "watches", WatchInfo, key="id")

    @command
    def list(self) -> Plan[Found]:
        """List watched tables, and where the database differs from what was installed."""
        return list_watches()

    @command
    def get(self, watch: WatchId) -> Plan[WatchInfo]:
        """Get one watch.

        Raises WatchNotFound if there is none."""
        return find_watch(watch)

    @operation(says=_added, has_target=False, creates=True, status=201, title="Watch a table")
    def add(
        self,
        table: Table,
        *,
        on: On = "insert,update,delete",
        when: When = None,
        columns: Columns = None,
        event: EventName = None,
        tenant: EventTenant = "",
        tenant_column: TenantColumn = None,
        reason: Reason = None,
    ) -> Plan[WatchInfo]:
        """Emit an event for each row written to a table, in the writer's transaction.

        `app.watches.add("orders", on="insert,update[status]", when="new.total > 100")`. Requires
        ownership of the table. Adding the same watch again changes nothing."""
        operations, update_of = read_operations(on)
        added = call(
            "watch_table",
            table_name=table,
            operations=operations,
            update_of=update_of,
            condition=when,
            columns=columns,
            event=event,
            tenant=tenant,
            tenant_column=tenant_column,
            actor=self.actor,
        )
        return (yield from find_watch((yield from because(reason, added))))

    @operation(says=_removed, asks=_before_remove, is_dangerous=True, is_reason_optional=True)
    def remove(self, watch: WatchId, *, reason: Reason = None) -> Plan[None]:
        """Remove a watch and its triggers.

        Raises WatchNotFound if there is none."""
        yield from call("unwatch_table", watch=watch, reason=reason, actor=self.actor)


class Watches(WatchCommands, AsyncCommands):
    """`app.watches`"""

    @property
    def sync(self) -> SyncWatches:
        return SyncWatches(self.database, self.actor)


class SyncWatches(WatchCommands, SyncCommands):
    """`app.watches.sync`"""
