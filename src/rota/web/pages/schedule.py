"""One schedule: what comes, what was decided and why, and what can be done with it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.errors import PayloadError, TimingError
from rota.model.occurrence import OccurrenceInfo
from rota.model.schedule_info import ScheduleInfo
from rota.model.strip import Strip, cell_of
from rota.timing.preview import Row
from rota.web.context import Page
from rota.web.desk import WebDesk, zone_of
from rota.web.forms import Form, read_form, read_payload, read_span
from rota.web.pages.schedules import path_of
from rota.web.schedule_words import policies, reason_of

Endpoint = Callable[[Request], Awaitable[Response]]
_COMING, _LEDGER = 10, 60


@dataclass(frozen=True, slots=True)
class LedgerRow:
    occurrence: OccurrenceInfo
    reason: str


@dataclass(frozen=True, slots=True)
class SchedulePage(Page):
    template: ClassVar[str] = "schedules/one.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    paths: dict[str, str]
    coming: list[Row]
    problem: str | None
    ledger: list[LedgerRow]
    strip: Strip
    policies: list[tuple[str, str]]

    @property
    def title(self) -> str:
        return self.schedule.name


@dataclass(frozen=True, slots=True)
class ScheduleQuestion(Page):
    template: ClassVar[str] = "schedules/question.html"
    section: ClassVar[str] = "schedules"

    schedule: ScheduleInfo
    action: str
    back: str
    verb: str
    payload: str
    error: str | None = None

    @property
    def title(self) -> str:
        return f"{self.verb.capitalize()} schedule {self.schedule.name}"


async def show_schedule(request: Request) -> Response:
    desk = WebDesk(request)
    name, tenant = desk.name(), _tenant(request)
    schedule = await desk.schedules.get(name, tenant=tenant)
    coming, problem = await _coming(desk, schedule)
    past = await desk.schedules.history(name, tenant=tenant, limit=_LEDGER)
    cells = tuple(cell_of(it.decision, it.reason, it.state) for it in reversed(past))
    return await desk.show(
        SchedulePage(
            schedule=schedule,
            paths={verb: path_of(name, tenant, verb) for verb in VERBS},
            coming=coming,
            problem=problem,
            ledger=[LedgerRow(it, reason_of(it)) for it in past],
            strip=Strip(cells),
            policies=policies(schedule),
        )
    )


async def _coming(desk: WebDesk, schedule: ScheduleInfo) -> tuple[list[Row], str | None]:
    """None for what has no times, or for a timing that cannot be followed."""
    if schedule.init is not None or not schedule.is_enabled or schedule.finished_at:
        return [], None
    viewer = str(zone_of(desk.request))
    try:
        rows = await desk.schedules.preview(
            schedule.name, tenant=schedule.tenant, count=_COMING, viewer_zone=viewer
        )
    except TimingError as error:
        return [], str(error)
    return rows, None


def _tenant(request: Request) -> str:
    return request.query_params.get("tenant", "")


async def _question(
    desk: WebDesk, verb: str, payload: str = "", error: str | None = None
) -> Response:
    name, tenant = desk.name(), _tenant(desk.request)
    schedule = await desk.schedules.get(name, tenant=tenant)
    if verb == "trigger" and not payload:
        job = await desk.jobs.get(schedule.job)
        given = schedule.payload if schedule.payload is not None else job.default_payload
        payload = json.dumps(given or {}, indent=2, ensure_ascii=False)
    question = ScheduleQuestion(
        schedule, path_of(name, tenant, verb), path_of(name, tenant), verb, payload, error
    )
    return await desk.show(question, status=422 if error else 200)


def asking(verb: str) -> Endpoint:
    async def ask(request: Request) -> Response:
        return await _question(WebDesk(request), verb)

    return ask


def acting(verb: str, act: Callable[[WebDesk, str, str, Form], Awaitable[str]]) -> Endpoint:
    """Does it and says what was done; what was mistyped is asked again."""

    async def handle(request: Request) -> Response:
        desk = WebDesk(request)
        desk.check(f"schedules.{verb}")
        form = await read_form(request)
        name, tenant = desk.name(), _tenant(request)
        try:
            said = await act(desk, name, tenant, form)
        except (PayloadError, TimingError) as error:
            return await _question(desk, verb, form.get("payload", ""), str(error))
        return desk.go("/schedules" if verb == "delete" else path_of(name, tenant), said)

    return handle


async def trigger(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    payload = read_payload(form.get("payload", ""))
    found = await desk.schedules.trigger(name, payload, tenant=tenant, reason=form.text("reason"))
    return f"Run {found.run_id} of {name} is enqueued"


async def pause(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    reason = form.text("reason")
    if reason is None:
        raise TimingError("Say why: whoever finds it paused will want to know.")
    until = _until(form.text("until"), zone_of(desk.request))
    await desk.schedules.pause(name, reason, until, tenant=tenant)
    return f"Schedule {name} is paused"


async def resume(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    is_catching_up = form.get("catch_up") == "1"
    await desk.schedules.resume(name, form.text("reason"), catch_up=is_catching_up, tenant=tenant)
    return f"Schedule {name} goes on"


async def enable(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    await desk.schedules.enable(name, form.text("reason"), tenant=tenant)
    return f"Schedule {name} is enabled"


async def disable(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    await desk.schedules.disable(name, form.text("reason"), tenant=tenant)
    return f"Schedule {name} is disabled"


async def reschedule(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    at = _until(form.text("until"), zone_of(desk.request))
    if at is None:
        raise TimingError("Say when: in 2h, or 2026-11-02 08:00.")
    await desk.schedules.reschedule(name, at, tenant=tenant, reason=form.text("reason"))
    return f"The next time of {name} is moved"


async def delete(desk: WebDesk, name: str, tenant: str, form: Form) -> str:
    is_cancelling = form.get("cancel_waiting") == "1"
    await desk.schedules.delete(
        name, tenant=tenant, cancel_waiting=is_cancelling, reason=form.text("reason")
    )
    return f"Schedule {name} is deleted"


def _until(text: str | None, viewer: tzinfo) -> datetime | timedelta | None:
    """`2h` from now, or an instant, by the viewer's clocks if it names no zone."""
    if text is None:
        return None
    if (span := read_span(text)) is not None:
        return span
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise TimingError(f"{text!r} is no time: write 2h, or 2026-11-02 08:00+01:00") from None
    return at if at.tzinfo else at.replace(tzinfo=viewer)


VERBS = {
    "trigger": trigger,
    "pause": pause,
    "resume": resume,
    "enable": enable,
    "disable": disable,
    "reschedule": reschedule,
    "delete": delete,
}
routes = [Route("/schedules/{name}", show_schedule)]
for _verb, _act in VERBS.items():
    routes += [
        Route(f"/schedules/{{name}}/{_verb}", asking(_verb)),
        Route(f"/schedules/{{name}}/{_verb}", acting(_verb, _act), methods=["POST"]),
    ]
