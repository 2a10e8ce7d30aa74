"""The audit: who changed what, when and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.audit import AuditEntry
from rota.model.cursors import write_cursor
from rota.web.audit_words import brief, deeds
from rota.web.context import Page
from rota.web.filters.audit import AuditQuery
from rota.web.page_scope import PageScope, zone_of
from rota.web.schedule_values import label_of

PAGE_SIZE = 50
_LOOKED_AT = 200  # a deed may have as many entries
_KIND = "audit newest"
_LONG = 20_000
# The path of a record's page, by its noun.
_PLACES = {
    "run": "/runs",
    "job": "/jobs",
    "queue": "/queues",
    "worker": "/workers",
    "bulk": "/bulk",
    "error": "/errors",
    "schedule": "/schedules",
    "tenant": "/tenants",
    "limit": "/limits",
    "calendar": "/calendars",
    "event": "/events",
    "watch": "/watches",
}


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed field, as text."""

    field: str
    before: str
    after: str
    is_same: bool

    @property
    def label(self) -> str:
        return label_of(self.field) if self.field else "whole value"


@dataclass(frozen=True, slots=True)
class AuditRow:
    entry: AuditEntry
    path: str
    place: str | None
    verb: str
    brief: str
    run: Any  # the ID of the run that it enqueued
    others: list[AuditRow]  # of the same deed
    has_more: bool = False  # of the same deed, on the next page

    @property
    def count(self) -> str:
        return f"{len(self.others) + 1}{'+' * self.has_more}"


@dataclass(frozen=True, slots=True)
class AuditPage(Page):
    template: ClassVar[str] = "audit/list.html"
    section: ClassVar[str] = "audit"

    rows: list[AuditRow]
    query: AuditQuery
    next: str | None

    @property
    def title(self) -> str:
        return "Audit"


@dataclass(frozen=True, slots=True)
class AuditEntryPage(Page):
    template: ClassVar[str] = "audit/one.html"
    section: ClassVar[str] = "audit"

    row: AuditRow
    differences: list[Difference]
    around: str

    @property
    def title(self) -> str:
        return f"Audit entry {self.row.entry.id}"


async def list_entries(request: Request) -> Response:
    scope = PageScope(request)
    query = AuditQuery.read(request.query_params, zone_of(request))
    if request.query_params.get("q", "").strip() and not query.error:
        return scope.go(query.path())
    found = await scope.audit.page(
        cursor=read_cursor(_KIND, query.cursor, int), limit=_LOOKED_AT, **query.filters
    )
    shown = list(deeds(found.items))[:PAGE_SIZE]
    last = shown[-1][-1].id if shown else None
    is_cut = last is not None and last == found.items[-1].id and found.cursor is not None
    has_more = found.cursor is not None or (shown and last != found.items[-1].id)
    onward = query.at(write_cursor(_KIND, last)) if has_more else None
    rows = [row_of(*deed) for deed in shown]
    if is_cut:
        rows[-1] = replace(rows[-1], has_more=True)
    return await scope.show_list(AuditPage(rows, query, onward), query)


async def show_entry(request: Request) -> Response:
    scope = PageScope(request)
    entry = await scope.audit.get(request.path_params["id"])
    around = urlencode({"noun": entry.object_type, "name": entry.object_id})
    page = AuditEntryPage(row_of(entry), differences_of(entry), f"/audit?{around}")
    return await scope.show(page)


def row_of(entry: AuditEntry, *others: AuditEntry) -> AuditRow:
    return AuditRow(
        entry=entry,
        path=f"/audit/{entry.id}",
        place=place_of(entry),
        verb=entry.action.rpartition(".")[2].replace("_", " "),
        brief=brief(entry),
        run=entry.after.get("run_id") if isinstance(entry.after, dict) else None,
        others=[row_of(one) for one in others],
    )


def place_of(entry: AuditEntry) -> str | None:
    """Return the page of the changed record, if its noun has one; the record may be deleted."""
    place = _PLACES.get(entry.object_type)
    if place is None or not entry.object_id:
        return None
    path = f"{place}/{quote(entry.object_id, safe='')}"
    is_schedules = entry.object_type == "schedule" and entry.tenant
    return f"{path}?{urlencode({'tenant': entry.tenant})}" if is_schedules else path


def differences_of(entry: AuditEntry) -> list[Difference]:
    return [
        Difference(it.field, _text(it.before), _text(it.after), it.is_same) for it in entry.changes
    ]


def _text(value: Any) -> str:
    """Write numbers with their stored digits; cut long values."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text):,} characters)"


routes = [Route("/audit", list_entries), Route("/audit/{id:int}", show_entry)]
