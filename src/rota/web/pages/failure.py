"""Error pages, shown inside the dashboard if that can still be rendered."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api.errors import ProblemError, of_any
from rota.web.context import Page
from rota.web.page_scope import PageScope
from rota.web.words import PAGES

_TITLES = {
    403: "Not allowed",
    404: "Not found",
    409: "Not possible in the current state",
    422: "Invalid request",
    503: "The database is unavailable",
    504: "The database took too long",
}
_OFFLINE = (503, 504)


@dataclass(frozen=True, slots=True)
class FailurePage(Page):
    template: ClassVar[str] = "failure.html"

    status: int
    detail: str
    hint: str | None
    is_unknown_page: bool = False
    is_retried: bool = False  # the page reloads when the database answers again
    stale_since: datetime | None = None  # when the database was last read

    @property
    def title(self) -> str:
        return _TITLES.get(self.status, "Something went wrong")


async def show(request: Request, error: Exception) -> Response:
    problem = of_any(error, PAGES)
    status = problem.status_code
    page = _page(request, error, status, problem.detail, problem.hint)
    for is_offline in (True,) if status in _OFFLINE else (False, True):
        with suppress(Exception):  # the database may be gone meanwhile
            return await PageScope(request).show(page, status=status, is_offline=is_offline)
    return PlainTextResponse(f"{page.title}: {problem.detail}\n", status)


def _page(
    request: Request, error: Exception, status: int, detail: str, hint: str | None
) -> FailurePage:
    is_of_router = isinstance(error, HTTPException) and not isinstance(error, ProblemError)
    is_unknown = status == 404 and is_of_router
    text = f"There is no page at {request.url.path}." if is_unknown else detail
    is_retried = status in _OFFLINE and request.method == "GET"
    since = request.app.state.web.api.hub.stale_since if is_retried else None
    return FailurePage(status, text, hint, is_unknown, is_retried, since)


class Failures:
    """Renders the exception of a page, unless the response has started."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_started = False

        async def watch(message: Message) -> None:
            nonlocal is_started
            is_started = is_started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:
            if is_started:
                raise
            await (await show(Request(scope), error))(scope, receive, send)
