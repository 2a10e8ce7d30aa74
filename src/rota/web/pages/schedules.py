"""The list of schedules: when each runs next, and what became of its last times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.api.schemas.values import read_cursor, write_cursor
from rota.errors import FilterError
from rota.model.list_filters import ScheduleOrder
from rota.model.schedule_info import ScheduleInfo
from rota.model.strip import Strip
from rota.web.context import Page
from rota.web.desk import WebDesk

STATES = ("active", "pending", "paused", "disabled", "parked", "finished")
ORDERS = get_args(ScheduleOrder)
PAGE_SIZE = 50


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    schedule: ScheduleInfo
    path: str
    trigger_path: str
    strip: Strip


@dataclass(frozen=True, slots=True)
class SchedulesPage(Page):
    template: ClassVar[str] = "schedules/list.html"
    section: ClassVar[str] = "schedules"

    schedules: list[ScheduleRow]
    query: ScheduleQuery
    next: str | None

    @property
    def title(self) -> str:
        return "Schedules"


@dataclass(frozen=True, slots=True)
class ScheduleQuery:
    """What the address asks for."""

    state: str | None = None
    job: str | None = None
    tag: str | None = None
    tenant: str | None = None
    order: str = "name"
    system: bool = False
    cursor: str | None = None

    @property
    def states(self) -> tuple[str, ...]:
        return STATES

    @property
    def orders(self) -> tuple[str, ...]:
        return ORDERS

    @property
    def is_narrowed(self) -> bool:
        return any((self.state, self.job, self.tag, self.tenant))

    def path(self, **changes: str | bool | None) -> str:
        """The same with some of it changed; another list begins at its beginning."""
        given = {
            "state": self.state, "job": self.job, "tag": self.tag, "tenant": self.tenant,
            "order": None if self.order == "name" else self.order,
            "system": "1" if self.system else None,
        } | changes  # fmt: skip
        pairs = {key: value for key, value in given.items() if value is not None}
        return f"/schedules?{urlencode(pairs)}" if pairs else "/schedules"


def path_of(name: str, tenant: str, verb: str = "") -> str:
    path = f"/schedules/{quote(name, safe='')}{f'/{verb}' if verb else ''}"
    return f"{path}?{urlencode({'tenant': tenant})}" if tenant else path


async def list_schedules(request: Request) -> Response:
    desk = WebDesk(request)
    query = _read(request)
    kind = f"schedules {query.order}"
    types: tuple[type, type] = (str, str) if query.order == "name" else (float, int)
    found = await desk.schedules.page(
        order=query.order,  # type: ignore[arg-type]
        cursor=read_cursor(kind, query.cursor, *types),
        limit=PAGE_SIZE,
        state=query.state,
        job=query.job,
        tag=query.tag,
        tenant=query.tenant,
        system=query.system,
    )
    strips = await desk.schedules.strips([one.id for one in found.items])
    rows = [
        ScheduleRow(
            one,
            path_of(one.name, one.tenant),
            path_of(one.name, one.tenant, "trigger"),
            strips.get(one.id, Strip()),
        )
        for one in found.items
    ]
    onward = None if found.cursor is None else query.path(cursor=write_cursor(kind, *found.cursor))
    return await desk.show(SchedulesPage(rows, query, onward))


def _read(request: Request) -> ScheduleQuery:
    given = request.query_params
    order, state = given.get("order", "name"), given.get("state") or None
    if order not in ORDERS:
        raise FilterError(f"there is no order {order!r}", hint=f"there is {', '.join(ORDERS)}")
    if state is not None and state not in STATES:
        raise FilterError(f"{state!r} is no state", hint=f"there are {', '.join(STATES)}")
    return ScheduleQuery(
        state=state,
        job=given.get("job") or None,
        tag=given.get("tag") or None,
        tenant=given.get("tenant"),
        order=order,
        system=given.get("system") == "1",
        cursor=given.get("cursor"),
    )


routes = [Route("/schedules", list_schedules)]
