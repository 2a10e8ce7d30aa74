"""Limits: reading them, and what people do with them."""

from __future__ import annotations

import json
from typing import Any, Unpack

from rota.errors import LimitError
from rota.model.formatting import plural
from rota.model.limit import (
    CounterValue,
    LimitChanges,
    LimitDetails,
    LimitFilters,
    LimitInfo,
    LimitName,
    LimitTenant,
    Order,
)
from rota.model.page import Page
from rota.model.tenant import split_name
from rota.operations.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.operations.registry import Noun, Reason, ShowTime, operation
from rota.operations.scope import Scope
from rota.postgres import limits
from rota.postgres.plans import Plan, call
from rota.postgres.schedules.lists import named

Found = list[LimitInfo]


def _set(limit: LimitInfo, is_changed: bool, at: ShowTime) -> str:
    return f"set for {limit.scope}: {limit.rule}"


def _before_set(limit: LimitInfo) -> str:
    return (
        f"It takes effect at once: {plural(limit.in_use, 'running attempt')} will continue, and "
        "nothing new starts until there is room."
    )


def _complete(changes: dict[str, Any]) -> dict[str, Any]:
    """A form shows the fields of all kinds: those of other kinds are removed."""
    if changes.get("kind") != "rate":
        changes |= {"period_seconds": None, "burst": None, "cost": None}
    if changes.get("kind") == "sequence":
        return changes | {"cap": 1, "next_after": changes.get("next_after") or "end"}
    return changes | {"next_after": None}


def _removed(result: str, is_changed: bool, at: ShowTime) -> str:
    return "removed" if result == "removed" else "reset to the values in the code"


def _before_remove(limit: LimitInfo) -> str:
    waiting = plural(limit.waiting, "waiting run")
    if limit.is_declared:
        return f"The code declares this limit: its values apply again. {waiting.capitalize()}."
    return f"{waiting} will start without it."


def _unblocked(result: int, is_changed: bool, at: ShowTime) -> str:
    return f"has {plural(result, 'sequence')} unblocked"


def _before_unblock(limit: LimitInfo) -> str:
    return "The sequence continues without the failed run that it waits for."


def _schedule(name: str, tenant: str) -> Plan[str]:
    """A limit knows a schedule by its name alone; lists print it as `TENANT/NAME`."""
    owner, rest = split_name(name)
    if owner is None or (yield from named(name, "")) is not None:
        return name
    if owner != tenant:
        raise LimitError(
            f'schedule "{rest}" belongs to tenant "{owner}", and the limit does not',
            hint="use a limit of the same tenant",
            field="schedule",
        )
    return rest


class LimitCommands(Commands):
    scope = Scope(takes=frozenset({"list", "page", "get", "set", "remove", "unblock"}))
    noun = Noun("limit", "limits", LimitInfo, LimitError)

    @command
    def list(self, *, order: Order = "name", **filters: Unpack[LimitFilters]) -> Plan[Found]:
        """List limits and their usage, sorted by name or by `order`."""
        return limits.list_limits(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: Order = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[LimitFilters],
    ) -> Plan[Page[LimitInfo]]:
        """One page of that list, with the cursor of the next."""
        return limits.page_limits(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: LimitName, tenant: LimitTenant = "") -> Plan[LimitDetails]:
        """Get one limit with its counters, and the runs that hold or wait for a slot.

        Raises LimitNotFound if there is none."""
        return limits.read_limit(name, tenant)

    @operation(says=_set, asks=_before_set, creates=True, completes=_complete)
    def set(
        self,
        name: LimitName,
        *,
        tenant: LimitTenant = "",
        reason: Reason = None,
        **changes: Unpack[LimitChanges],
    ) -> Plan[LimitInfo]:
        """Create a limit, or update the given fields of an existing one. Takes effect at once:
        running attempts continue, and nothing new starts until there is room.

        `app.limits.set("mail", queue="mail", cap=5)`"""
        if changes.get("period_seconds") is not None:
            changes.setdefault("kind", "rate")
        if changes.get("schedule") is not None:
            changes["schedule"] = yield from _schedule(str(changes["schedule"]), tenant)
        given = {"name": name, "changes": json.dumps(changes), "tenant": tenant, "reason": reason}
        yield from call("set_limit", **given, actor=self.actor)
        return (yield from limits.find_limit(name, tenant))

    @operation(says=_removed, asks=_before_remove, is_dangerous=True, example="removed")
    def remove(
        self, name: LimitName, *, tenant: LimitTenant = "", reason: Reason = None
    ) -> Plan[str]:
        """Remove a limit and release the runs waiting for it. For a limit declared in code, only
        operator overrides are removed.

        Returns `removed`, or `reset` if the code's values apply again."""
        yield from limits.find_limit(name, tenant)
        given = {"name": name, "tenant": tenant, "reason": reason, "actor": self.actor}
        return str((yield from call("remove_limit", **given)))

    @operation(says=_unblocked, asks=_before_unblock, result_name="unblocked", example=1)
    def unblock(
        self,
        name: LimitName,
        value: CounterValue = None,
        *,
        tenant: LimitTenant = "",
        reason: Reason = None,
    ) -> Plan[int]:
        """Unblock a sequence that waits for a failed run to succeed.

        With a value, only that counter. Returns how many counters were unblocked."""
        yield from limits.find_limit(name, tenant)
        given = {"name": name, "value": value, "tenant": tenant, "reason": reason}
        return int((yield from call("unblock_limit", **given, actor=self.actor)))


class Limits(LimitCommands, AsyncCommands):
    """`app.limits`"""

    @property
    def sync(self) -> SyncLimits:
        return SyncLimits(self.database, self.actor).of_tenant(self.tenant)


class SyncLimits(LimitCommands, SyncCommands):
    """`app.limits.sync`"""
