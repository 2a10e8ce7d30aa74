"""The audit: who changed what, when and why."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.model.audit import AuditEntry
from rota.model.cursors import write_cursor
from rota.web.audit_query import AuditQuery
from rota.web.context import Page
from rota.web.page_scope import PageScope, zone_of

PAGE_SIZE = 50
_KIND = "audit newest"
_BRIEF, _LONG = 60, 20_000
# The path of a record's page, by its noun.
_PLACES = {
    "run": "/runs", "job": "/jobs", "queue": "/queues", "worker": "/workers", "bulk": "/bulk",
    "error": "/errors", "schedule": "/schedules", "tenant": "/tenants",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Difference:
    """One changed field, as text."""

    field: str
    before: str
    after: str
    is_same: bool

    @property
    def brief(self) -> str:
        arrow = f"{_cut(self.before)} → " if self.before else ""
        return f"{self.field} {arrow}{_cut(self.after) or 'nothing'}".strip()


@dataclass(frozen=True, slots=True)
class AuditRow:
    entry: AuditEntry
    path: str
    place: str | None
    verb: str
    brief: str


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
    found = await scope.audit.page(
        cursor=read_cursor(_KIND, query.cursor, int), limit=PAGE_SIZE, **query.filters
    )
    onward = found.cursor and query.at(write_cursor(_KIND, *found.cursor))
    return await scope.show(AuditPage([row_of(one) for one in found.items], query, onward or None))


async def show_entry(request: Request) -> Response:
    scope = PageScope(request)
    entry = await scope.audit.get(request.path_params["id"])
    around = urlencode({"noun": entry.object_type, "name": entry.object_id})
    page = AuditEntryPage(row_of(entry), differences_of(entry), f"/audit?{around}")
    return await scope.show(page)


def row_of(entry: AuditEntry) -> AuditRow:
    changed = [change.brief for change in differences_of(entry) if not change.is_same]
    return AuditRow(
        entry=entry,
        path=f"/audit/{entry.id}",
        place=place_of(entry),
        verb=entry.action.rpartition(".")[2].replace("_", " "),
        brief=", ".join(changed[:8]) + (f" and {len(changed) - 8} more" if changed[8:] else ""),
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


def _cut(text: str) -> str:
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"


routes = [Route("/audit", list_entries), Route("/audit/{id:int}", show_entry)]
