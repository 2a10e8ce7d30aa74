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
    def state(self) -> str:
        return "late" if self.limit.waiting else "active"


@dataclass(frozen=True, slots=True)
class LimitsPage(Page):
    template: ClassVar[str] = "limits/list.html"
    section: ClassVar[str] = "limits"

    limits: list[LimitRow]

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
    scope = PageScope(request)
    found = await scope.limits.list(order="longest")
    rows = [LimitRow(limit, path_of("limits", limit.name, limit.tenant)) for limit in found]
    return await scope.show(LimitsPage(rows))


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
