"""Commands about limits."""

from __future__ import annotations

from typing import Any, TypedDict, Unpack

from rota.admin.commands import AsyncCommands, Commands, Cursor, SyncCommands, command
from rota.admin.scope import Scope
from rota.errors import LimitError
from rota.model.limit import LimitDetails, LimitInfo, LimitKind, LimitOrder, NextAfter, OnFull
from rota.model.list_filters import LimitFilters
from rota.model.page import Page
from rota.store import limits
from rota.store.plans import Plan

Found = list[LimitInfo]


class LimitChanges(TypedDict, total=False):
    """Fields of a limit; omitted ones do not change. None removes a value: no key, any queue, any
    job, any schedule."""

    kind: LimitKind
    cap: int
    period_seconds: float | None
    burst: int | None
    cost: str | None
    next_after: NextAfter | None
    on_full: OnFull
    queue: str | None
    jobs: list[str] | None
    schedule: str | None
    key: str | None


class LimitCommands(Commands):
    scope = Scope(takes=frozenset({"list", "page", "get", "set", "remove", "unblock"}))

    @command
    def list(self, *, order: LimitOrder = "name", **filters: Unpack[LimitFilters]) -> Plan[Found]:
        """List all limits with their use: by `name`, the `fullest` first, or the one with the
        `longest` backlog. Filters: `tenant`, `kind`, `job`, `queue`."""
        return limits.list_limits(order=order, **filters)

    @command
    def page(
        self,
        *,
        order: LimitOrder = "name",
        cursor: Cursor = None,
        limit: int = 50,
        **filters: Unpack[LimitFilters],
    ) -> Plan[Page[LimitInfo]]:
        """One page of that list, with the cursor of the next."""
        return limits.page_limits(order=order, cursor=cursor, limit=limit, **filters)

    @command
    def get(self, name: str, tenant: str = "") -> Plan[LimitDetails]:
        """One limit with its counters, the runs that hold a slot and the runs that wait. Raises
        LimitNotFound if there is none."""
        return limits.read_limit(name, tenant)

    @command
    def set(
        self,
        name: str,
        *,
        tenant: str = "",
        reason: str | None = None,
        **changes: Unpack[LimitChanges],
    ) -> Plan[LimitInfo]:
        """Create a limit, or change the given fields of an existing one: `app.limits.set("mail",
        queue="mail", cap=5)`. Takes effect at once: running attempts continue, and nothing new
        starts until there is room."""
        known = LimitChanges.__annotations__
        odd: list[Any] = [field for field in changes if field not in known]
        if odd:
            raise LimitError(
                f"unknown limit setting {odd[0]!r}", hint=f"choose from {', '.join(known)}"
            )
        return limits.set_limit(name, changes, tenant=tenant, reason=reason, actor=self.actor)

    @command
    def remove(self, name: str, *, tenant: str = "", reason: str | None = None) -> Plan[str]:
        """Remove a limit; waiting runs continue. Returns `removed`, or `reset` for a limit that the
        code declares: then an operator's values are removed and the code's apply again."""
        return limits.remove_limit(name, tenant=tenant, reason=reason, actor=self.actor)

    @command
    def unblock(
        self,
        name: str,
        value: str | None = None,
        *,
        tenant: str = "",
        reason: str | None = None,
    ) -> Plan[int]:
        """Let a sequence that waits for the success of a failed run continue without it; with a
        value, only that counter. Returns how many counters were unblocked."""
        return limits.unblock_limit(name, value, tenant=tenant, reason=reason, actor=self.actor)


class Limits(LimitCommands, AsyncCommands):
    """`app.limits`"""

    @property
    def sync(self) -> SyncLimits:
        return SyncLimits(self.database, self.actor).of_tenant(self.tenant)


class SyncLimits(LimitCommands, SyncCommands):
    """`app.limits.sync`"""
