"""The list of schedules: next times, and the results of the last occurrences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, cast, get_args
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor
from rota.errors import FilterError, InputError
from rota.model.cursors import write_cursor
from rota.model.fields import arguments_of
from rota.model.list_filters import ScheduleFilters, ScheduleOrder
from rota.model.schedule_info import ScheduleInfo
from rota.model.strip import Strip
from rota.operations.registry import commands_of, plan_of
from rota.web.context import Page
from rota.web.page_scope import PageScope
from rota.web.selected import selected_of

STATES = ("active", "pending", "paused", "disabled", "parked", "orphaned", "finished")
# Filters that the tabs set.
TABS = ("state", "attention")
ORDERS = dict(
    zip(
        get_args(ScheduleOrder),
        ("name", "next time", "last run", "newest", "last changed"),
        strict=True,
    )
)
PAGE_SIZE = 50
_NEEDS = "those that need attention"


VERBS = (
    "trigger",
    "pause",
    "resume",
    "enable",
    "disable",
    "reschedule",
    "delete",
    "edit",
    "backfill",
    "revert",
    "duplicate",
)


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    schedule: ScheduleInfo
    path: str
    paths: dict[str, str]
    strip: Strip
    state: str

    @property
    def pick(self) -> str:
        """Its part of an address, by which a selection names it."""
        return self.path.removeprefix("/schedules/")

    @property
    def verbs(self) -> str:
        """What a selection may do with it."""
        return " ".join(fitting(self.schedule))


def fitting(one: ScheduleInfo) -> tuple[str, ...]:
    """The verbs that fit its state."""
    pause = "pause" if one.paused_at is None else "resume"
    return "trigger", pause, "disable" if one.is_enabled else "enable"


@dataclass(frozen=True, slots=True)
class Tab:
    """A state, how many schedules of the filter are in it, and its list; `attention` counts those
    that need attention, whatever their state."""

    state: str | None
    path: str
    count: int
    attention: bool = False


@dataclass(frozen=True, slots=True)
class SchedulesPage(Page):
    template: ClassVar[str] = "schedules/list.html"
    section: ClassVar[str] = "schedules"

    schedules: list[ScheduleRow]
    query: ScheduleQuery
    tabs: list[Tab]
    next: str | None

    @property
    def title(self) -> str:
        return "Schedules"


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    """The filters in the address: `texts` as they are written there, `values` as the list takes
    them. Templates read a filter by its name."""

    texts: Mapping[str, str]
    values: ScheduleFilters
    order: str
    cursor: str | None

    def __getitem__(self, name: str) -> str | None:
        return self.texts.get(name)

    @property
    def orders(self) -> dict[str, str]:
        return ORDERS

    @property
    def counted(self) -> ScheduleFilters:
        """The filters without those that the tabs set."""
        kept = {name: it for name, it in self.values.items() if name not in TABS}
        return cast(ScheduleFilters, kept)

    @property
    def tokens(self) -> list[tuple[str, str, str]]:
        """Every active filter, with the list without it."""
        found = [
            (name, text or "none", self.path(**{name: None}))
            for name, text in self.texts.items()
            if name not in ("order", "attention", "system")
        ]
        only = [("only", _NEEDS, self.path(attention=None))] if self["attention"] else []
        return [*found, *only]

    def path(self, **changes: str | None) -> str:
        """Return the address with some parts changed, at the first page."""
        pairs = {name: it for name, it in {**self.texts, **changes}.items() if it is not None}
        return f"/schedules?{urlencode(pairs)}" if pairs else "/schedules"


def path_of(name: str, tenant: str, verb: str = "") -> str:
    path = f"/schedules/{quote(name, safe='')}{f'/{verb}' if verb else ''}"
    return f"{path}?{urlencode({'tenant': tenant})}" if tenant else path


def paths_of(one: ScheduleInfo) -> dict[str, str]:
    return {verb: path_of(one.name, one.tenant, verb) for verb in VERBS}


def state_of(one: ScheduleInfo, now: datetime) -> str:
    """Return `late` if its time passed longer ago than counts as on time, and nothing was
    decided."""
    due = one.next_run_at
    if one.state != "active" or due is None:
        return one.state
    return "late" if due < now - timedelta(seconds=max(one.grace_seconds, 15)) else one.state


async def list_schedules(request: Request) -> Response:
    scope = PageScope(request)
    query = _read(request)
    kind = f"schedules {query.order}"
    types: tuple[type, type] = (str, str) if query.order == "name" else (float, int)
    found = await scope.schedules.page(
        order=query.order,  # type: ignore[arg-type]
        cursor=read_cursor(kind, query.cursor, *types),
        limit=PAGE_SIZE,
        **query.values,
    )
    counts = await scope.schedules.counts(**query.counted)
    attention: ScheduleFilters = {**query.counted, "attention": True}
    needy = await scope.schedules.counts(**attention)
    now = await scope.now()
    strips = await scope.schedules.strips([schedule.id for schedule in found.items])
    rows = [
        ScheduleRow(
            schedule,
            path_of(schedule.name, schedule.tenant),
            paths_of(schedule),
            strips.get(schedule.id, Strip()),
            state_of(schedule, now),
        )
        for schedule in found.items
    ]
    onward = None if found.cursor is None else query.path(cursor=write_cursor(kind, *found.cursor))
    return await scope.show(
        SchedulesPage(rows, query, _tabs(query, counts, sum(needy.values())), onward)
    )


def _tabs(query: ScheduleQuery, counts: dict[str, int], needy: int) -> list[Tab]:
    """List states without schedules only if they are common or selected."""
    attention = Tab(None, query.path(state=None, attention="1"), needy, attention=True)
    return [
        Tab(None, query.path(state=None, attention=None), sum(counts.values())),
        *([attention] if needy or query["attention"] else []),
        *(
            Tab(state, query.path(state=state, attention=None), counts.get(state, 0))
            for state in STATES
            if counts.get(state) or state in ("active", "paused", query["state"])
        ),
    ]


def _read(request: Request) -> ScheduleQuery:
    texts: dict[str, str] = {}
    values: dict[str, Any] = {}
    for one in arguments_of(plan_of(commands_of("schedules"), "list")):
        text = request.query_params.get(one.name, "").strip()
        # An empty tenant is a filter: schedules of no tenant.
        if not text and (one.name != "tenant" or one.name not in request.query_params):
            continue
        try:
            values[one.name] = text == "1" if one.kind == "flag" else one.parse(text)
        except InputError as error:
            raise FilterError(str(error), hint=error.hint, field=one.name) from None
        texts[one.name] = text
    order = values.pop("order", "name")
    if order == "name":
        texts.pop("order", None)
    cursor = request.query_params.get("cursor")
    return ScheduleQuery(texts, cast(ScheduleFilters, values), order, cursor)


routes = [
    Route("/schedules", list_schedules),
    *selected_of("schedules", ("trigger", "pause", "resume", "enable", "disable"), fitting),
]
