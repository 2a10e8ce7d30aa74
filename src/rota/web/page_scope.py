"""The context of a page: the use cases on behalf of its viewer, rendering and redirects."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.api.errors import ProblemError
from rota.api.routing import given_name
from rota.api.shared import SharedBy
from rota.api.state import ApiState, RequestScope
from rota.errors import TimingError
from rota.model.run_counts import StateCount
from rota.timing.zones import zone
from rota.web import api_reference, nav
from rota.web.access import Authenticator, Viewer
from rota.web.api_reference import Reference
from rota.web.context import Flash, Frame, Page
from rota.web.filters.list_query import ListQuery
from rota.web.forecasts import Forecasts
from rota.web.forms import CAME_FROM
from rota.web.render import render
from rota.web.session import CSRF, delete_cookie, mask, new_csrf, set_cookie
from rota.web.shared_reads import SharedReads

if TYPE_CHECKING:
    from rota.app import App

SAID, ZONE, THEME = "rota_said", "rota_zone", "rota_theme"
# Key in the ASGI scope of a part that is rendered for several viewers: the placeholder of their
# tokens.
MARK = "rota.mark"
THEMES = ("light", "dark")
# Response header: the page that a script opens after an action.
GO = "X-Rota-Go"


@dataclass
class WebState:
    """The state that the dashboard keeps while it runs."""

    api: ApiState
    authenticator: Authenticator
    release: str
    watch: SharedReads
    has_runs: bool = False  # there has been a run
    loads: Forecasts = field(default_factory=Forecasts)
    # Pages that show the same list reload at the same time and share one count. A page reloads
    # later than this after a change, so it never shows the count from before the change.
    run_counts: SharedBy[list[StateCount]] = field(default_factory=lambda: SharedBy(0.3))

    @property
    def app(self) -> App:
        return self.api.app

    @cached_property
    def reference(self) -> Reference:
        """The reference of the API, as its page shows it."""
        return api_reference.read(self.api.describe())


class PageScope(RequestScope):
    """The use cases and the viewer of one request."""

    def __init__(self, request: Request) -> None:
        self.web: WebState = request.app.state.web
        self.request = request
        self.viewer: Viewer = request.scope["rota.viewer"]
        self._now: datetime | None = None
        self._place = self.web.api.hub.place  # before anything is read
        super().__init__(self.web.api, self.viewer.actor)

    @property
    def root(self) -> str:
        return str(self.request.scope.get("root_path", ""))

    def name(self, part: str = "name") -> str:
        """Return the name in the address of the page's subject."""
        return given_name(self.request.path_params[part])

    async def now(self) -> datetime:
        """Return the database's time, read once per request."""
        if self._now is None:
            self._now = await self.clock.now()
        return self._now

    def check(self, action: str) -> None:
        """Refuse an action that this viewer may not perform."""
        if not self.viewer.may(action):
            raise ProblemError(
                403, "forbidden", f"{self.viewer.actor} is not allowed to do this: {action}"
            )

    async def show(
        self,
        page: Page,
        *,
        status: int = 200,
        section: str | None = None,
        is_offline: bool = False,
    ) -> Response:
        """Return the page, or the part of it that a script asks for by name. With `is_offline`,
        nothing is read from the database."""
        part = self.request.headers.get("x-rota-part")
        token = self.request.cookies.get(CSRF) or new_csrf()
        shell = await self._shell(page.section if section is None else section, token, is_offline)
        response = HTMLResponse(render(page, shell, part), status)
        if not self.request.cookies.get(CSRF):
            set_cookie(response, self.request, CSRF, token)
        if shell.said is not None and part is None:
            delete_cookie(response, self.request, SAID)
        return response

    def _is_left(self, came: str, path: str) -> bool:
        """Return whether the page that asked is there after the action. `/jobs/a/rename` and
        `/jobs/a/delete` lead elsewhere than to `/jobs/a`, so that is gone."""
        subject = self.request.url.path.removeprefix(self.root).rpartition("/")[0]
        return unquote(_bare(came)) != unquote(subject) or _bare(came) == _bare(path)

    async def show_list(self, page: Page, query: ListQuery) -> Response:
        """Return the page of a list. What could not be read of its filter is said beside it; a part
        that is renewed is renewed even then."""
        is_part = "x-rota-part" in self.request.headers
        return await self.show(page, status=200 if is_part else query.status)

    async def _shell(self, section: str, token: str, is_offline: bool) -> Frame:
        cookies = self.request.cookies
        watch = self.web.watch
        found = None if is_offline else await watch.attention()
        report = None if is_offline else await watch.findings()
        return Frame(
            root=self.root,
            nav=nav.items(found, report),
            attention=0 if found is None else found.total,
            section=section,
            viewer=self.viewer,
            application=self.app.name,
            release=self.web.release,
            now=datetime.now(UTC) if is_offline else await self.now(),
            is_offline=is_offline,
            zone=zone_of(self.request),
            theme=cookies[THEME] if cookies.get(THEME) in THEMES else "",
            csrf=self.request.scope.get(MARK) or mask(token),
            place=self._place,
            said=_read_said(cookies.get(SAID)),
        )

    def go(self, path: str, said: str | None = None, *, see: str | None = None) -> Response:
        """Redirect after an action to a page that shows the result once: to the one that asked, if
        that was a dialog and the page still exists; it links to `path` then."""
        self.web.watch.forget()
        came = self.request.scope.get(CAME_FROM)
        if came is not None and self._is_left(came, path):
            path, see = came, see or (None if _bare(came) == _bare(path) else path)
        response: Response = RedirectResponse(f"{self.root}{path}", 303)
        if self.request.headers.get("x-rota-part"):  # a script follows by itself
            response = Response(status_code=204, headers={GO: response.headers["location"]})
        if said is not None:
            text = quote(json.dumps([said[:500], see]))
            set_cookie(response, self.request, SAID, text, seconds=60)
        return response


def _bare(path: str) -> str:
    return path.partition("?")[0]


def zone_of(request: Request) -> tzinfo:
    """Return the viewer's zone; UTC until one is chosen."""
    return zone_named(unquote(request.cookies.get(ZONE, "UTC")))


def zone_named(name: str) -> tzinfo:
    """Return UTC if there is no such zone, so that the page is still shown."""
    try:
        return zone(name)
    except TimingError:
        return UTC


def _read_said(cookie: str | None) -> Flash | None:
    try:
        found: Any = json.loads(unquote(cookie or "null"))
        return None if found is None else Flash(str(found[0]), found[1])
    except (ValueError, LookupError, TypeError):
        return None
