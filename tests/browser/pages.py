"""Every page of the dashboard, and a sample of its filters. A new page is one line here:
test_pages.py fails until it has one."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import Match, Route

from rota.web.pages import PAGES as MODULES

# Filled in by a world: {job}, {queue}, {schedule}, {tenant}, {worker}, and the id of a run in each
# state: {failed}, {running}, …
PAGES = (
    "/",
    "/?range=7d",
    "/runs",
    "/runs?state=failed&job={job}",
    "/runs?state=failed&job=nothing",
    "/runs?since=soon",
    "/runs/new",
    "/runs/new?job={job}",
    "/runs/new?job={job}&as=json",
    "/runs/selected?verb=retry&id={failed}",
    "/runs/selected?verb=delete&state=failed&all=1",
    "/runs/selected?verb=cancel&id={failed}",
    "/runs/views?state=failed",
    "/runs/views/{view}/delete",
    *(f"/runs/{{{state}}}" for state in ("succeeded", "failed", "running", "queued", "scheduled")),
    "/runs/{running}/cancel",
    "/runs/{failed}/retry",
    "/runs/{failed}/retry?edit=1",
    "/runs/new?from={failed}",
    "/runs/{failed}/delete",
    "/runs/{failed}/handle",
    "/runs/{failed}/reopen",
    "/runs/999999999",
    "/schedules",
    "/schedules?state=paused&order=next",
    "/schedules?job=nothing",
    "/selected/schedules?verb=pause&pick=digest",
    "/schedules/{schedule}",
    "/schedules/paused",
    "/schedules/off",
    *(
        f"/schedules/{{schedule}}/{verb}"
        for verb in ("trigger", "pause", "disable", "reschedule", "delete", "reset")
    ),
    "/schedules/new",
    "/schedules/{schedule}/edit",
    "/schedules/{schedule}/duplicate",
    "/schedules/{schedule}/revert/{edit}",
    "/schedules/{schedule}/backfill",
    "/schedules/paused/backfill?from_at=2026-11-02T08:00&until_at=2026-11-02T09:00",
    "/schedules/paused/resume",
    "/schedules/off/enable",
    "/bulk",
    "/bulk/{bulk}",
    *(f"/bulk/{{bulk}}/{verb}" for verb in ("pause", "resume", "stop", "throttle")),
    "/jobs",
    "/jobs?state=nothing",
    "/jobs/new",
    "/jobs/{job}",
    *(
        f"/jobs/{{job}}/{verb}"
        for verb in ("edit", "enable", "disable", "follow", "rename", "delete")
    ),
    "/queues",
    "/queues?state=paused&text=nothing",
    "/selected/queues?verb=pause&pick={queue}",
    "/queues/{queue}",
    "/queues/{queue}/pause",
    "/queues/{queue}/resume",
    "/queues/{queue}/set",
    "/queues/{queue}/reset",
    "/queues/{queue}/clear",
    "/limits",
    "/limits/new",
    "/limits/{limit}",
    *(f"/limits/{{limit}}/{verb}" for verb in ("set", "remove", "unblock")),
    "/tenants",
    "/tenants?text=nothing",
    "/tenants/{tenant}",
    *(f"/tenants/{{tenant}}/{verb}" for verb in ("pause", "resume", "set", "reset", "delete")),
    "/workers",
    "/workers/{worker}",
    *(f"/workers/{{worker}}/{verb}" for verb in ("drain", "stop", "resume")),
    "/errors",
    "/errors/{group}",
    "/errors/{group}/handle",
    "/errors/{group}/reopen",
    "/events",
    "/events?name=order.*&outcome=unbound",
    "/events?since=soon",
    "/events/emit",
    "/events/{event}",
    "/events/replay?ids={event}",
    "/events/replay?event=order.*&job={job}",
    "/watches",
    "/watches/add",
    "/watches/{watch}",
    "/watches/{watch}/remove",
    "/calendar",
    "/calendars/new",
    "/calendars/{calendar}",
    "/calendars/{calendar}/delete",
    "/cleanup",
    "/cleanup/add",
    "/cleanup/{cleanup}",
    "/cleanup/{cleanup}?count=1",
    *(f"/cleanup/{{cleanup}}/{verb}" for verb in ("run", "remove")),
    "/cleanup/add-recipe?recipe={recipe}",
    "/audit",
    "/audit?actor=nobody",
    "/audit/{edit}",
    "/settings",
    "/settings?all=1",
    "/settings/retention",
    "/doctor",
    "/search",
    "/search?q={job}",
    "/search?q=nothing+like+this",
    "/keys",
    "/api/docs",
    "/logs",
    "/logs?job={job}&level=error&range=7d",
    "/logs?q=nothing+like+this",
    "/logs?range=soon",
    "/logs?run={failed}",
    "/logs/tail",
    "/logs/tail?q=nothing+like+this",
    "/logs/line/{line}",
)
# Not pages: streams, files, and parts of pages.
NOT_PAGES = frozenset(
    {
        "/live",
        "/navigation",
        "/complete/{many}",
        "/runs/{id:int}/payload.json",
        "/runs/{id:int}/result.json",
        "/logs/stream",
        "/logs/earlier",
        "/logs/download",
        "/tenants/{name}/export",
    }
)
# For whoever has not come in.
OUTSIDE = frozenset({"/sign-in"})
# Samples of the one form that confirms all declared operations.
CONFIRMATIONS = frozenset(
    {
        "/queues/{queue}/pause",
        "/queues/{queue}/set",
        "/limits/new",
        "/schedules/{schedule}/trigger",
        "/tenants/{tenant}/delete",
    }
)


class _Ones(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


def routes(method: str) -> list[Route]:
    found = [route for page in MODULES for route in page.routes]
    return [one for one in found if method in (one.methods or ())]


def route_of(path: str) -> Route:
    bare = path.partition("?")[0].format_map(_Ones())
    scope = {"type": "http", "method": "GET", "path": bare, "headers": []}
    return next(one for one in routes("GET") if one.matches(scope)[0] is Match.FULL)


def _looked_at(path: str) -> Any:
    """A page for the tests of looks. That a form is easy to use does not depend on its operation:
    every run looks at samples, deep runs at all."""
    is_form = route_of(path).endpoint.__qualname__ == "_OperationForm.ask"
    is_deep = is_form and path not in CONFIRMATIONS
    return pytest.param(path, id=path, marks=[pytest.mark.deep] if is_deep else [])


each_page = pytest.mark.parametrize("path", list(map(_looked_at, PAGES)))
