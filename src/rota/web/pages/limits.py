"""Limits: their rules, the runs that hold a slot and those that wait; set, remove, unblock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.model.fields import settings_of
from rota.model.limit import LimitChanges, LimitDetails, LimitInfo
from rota.web.context import Page
from rota.web.operations import path_of, routes_of
from rota.web.page_scope import PageScope

ON_FULL = next(one for one in settings_of(LimitChanges) if one.name == "on_full").field.choices


@dataclass(frozen=True, slots=True)
class LimitRow:
    limit: LimitInfo
    path: str

    @property
    def is_full(self) -> bool:
        return self.limit.full > 0

    @property
    def share(self) -> float:
        """How much of it is in use, between 0 and 1: of all its counters."""
        whole = self.limit.cap * max(1, self.limit.keys if self.limit.key else 1)
        return min(1.0, self.limit.in_use / whole) if whole else 0.0

    @property
    def rank(self) -> tuple[bool, bool, float, str]:
        """Those that hold runs back first, then the fullest."""
        one = self.limit
        return not (one.waiting and self.is_full), not one.waiting, -self.share, one.name


@dataclass(frozen=True, slots=True)
class LimitsPage(Page):
    template: ClassVar[str] = "limits/list.html"
    section: ClassVar[str] = "limits"

    limits: list[LimitRow]
    text: str
    which: str
    counts: dict[str, int]

    @property
    def title(self) -> str:
        return "Limits"


@dataclass(frozen=True, slots=True)
class LimitPage(Page):
    template: ClassVar[str] = "limits/one.html"
    section: ClassVar[str] = "limits"

    details: LimitDetails
    path: str
    query: str
    on_full: Mapping[str, str] | None

    @property
    def title(self) -> str:
        return self.details.limit.name


async def list_limits(request: Request) -> Response:
    scope, given = PageScope(request), request.query_params
    text, which = given.get("text", "").strip()[:200], given.get("which", "")
    found = await scope.limits.list(order="longest")
    rows = [
        LimitRow(limit, path_of("limits", limit.name, limit.tenant))
        for limit in found
        if text.casefold() in f"{limit.name} {limit.scope}".casefold()
    ]
    waiting = [row for row in rows if row.limit.waiting]
    counts = {"": len(rows), "waiting": len(waiting)}
    shown = sorted(waiting if which == "waiting" else rows, key=lambda row: row.rank)
    return await scope.show(LimitsPage(shown, text, which, counts))


async def show_limit(request: Request) -> Response:
    scope = PageScope(request)
    tenant = request.query_params.get("tenant", "")
    details = await scope.limits.get(scope.name(), tenant)
    query = "?" + urlencode({"tenant": tenant}) if tenant else ""
    page = LimitPage(details, path_of("limits", scope.name()), query, ON_FULL)
    return await scope.show(page)


routes = [
    Route("/limits", list_limits),
    *routes_of("limits"),
    Route("/limits/{name}", show_limit),
]
