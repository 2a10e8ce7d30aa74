"""What a page works with: the use cases on behalf of its viewer, and the way back to them."""

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
from rota.web.access import Door, Viewer
from rota.web.api_reference import Reference
from rota.web.context import Page, Said, Shell
from rota.web.loads import Loads
from rota.web.render import render
from rota.web.session import CSRF, delete_cookie, mask, new_csrf, set_cookie
from rota.web.watch import Watch

if TYPE_CHECKING:
    from rota.app import App

SAID, ZONE, THEME = "rota_said", "rota_zone", "rota_theme"
# In the scope of a part that is made for several viewers: what stands for the token of each.
MARK = "rota.mark"
THEMES = ("light", "dark")


@dataclass
class WebState:
    """What the dashboard holds for as long as it lives."""

    api: ApiState
    door: Door
    release: str
    watch: Watch
    loads: Loads = field(default_factory=Loads)
    # Pages that show the same list look again at the same time: they count once. A page looks
    # later than this after what has happened, so it is never shown what was before.
    run_counts: SharedBy[list[StateCount]] = field(default_factory=lambda: SharedBy(0.3))

    @property
    def app(self) -> App:
        return self.api.app

    @cached_property
    def reference(self) -> Reference:
        """Of the API, as its page shows it."""
        return api_reference.read(self.api.describe())


class PageScope(RequestScope):
    """Of one request."""

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
        """What the address calls the thing that this page is about."""
        return given_name(self.request.path_params[part])

    async def now(self) -> datetime:
        """The database's time, which is asked for once a request."""
        if self._now is None:
            self._now = await self.clock.now()
        return self._now

    def check(self, action: str) -> None:
        """Before an action: whether this viewer may."""
        if not self.viewer.may(action):
            raise ProblemError(
                403, "forbidden", f"{self.viewer.actor} is not allowed to do this: {action}"
            )

    async def show(self, page: Page, *, status: int = 200, section: str | None = None) -> Response:
        """The page, or, when a script asks for a part of it by name, that part."""
        part = self.request.headers.get("x-rota-part")
        token = self.request.cookies.get(CSRF) or new_csrf()
        shell = await self._shell(page.section if section is None else section, token)
        response = HTMLResponse(render(page, shell, part), status)
        if not self.request.cookies.get(CSRF):
            set_cookie(response, self.request, CSRF, token)
        if shell.said is not None and part is None:
            delete_cookie(response, self.request, SAID)
        return response

    async def _shell(self, section: str, token: str) -> Shell:
        cookies = self.request.cookies
        found = await self.web.watch.attention()
        return Shell(
            root=self.root,
            nav=nav.items(found, await self.web.watch.findings()),
            attention=0 if found is None else found.total,
            section=section,
            viewer=self.viewer,
            application=self.app.name,
            release=self.web.release,
            now=await self.now(),
            zone=zone_of(self.request),
            theme=cookies[THEME] if cookies.get(THEME) in THEMES else "",
            csrf=self.request.scope.get(MARK) or mask(token),
            place=self._place,
            said=_read_said(cookies.get(SAID)),
        )

    def go(self, path: str, said: str | None = None, *, see: str | None = None) -> Response:
        """After an action: on to a page, which says once what was done."""
        self.web.watch.forget()
        response = RedirectResponse(f"{self.root}{path}", 303)
        if said is not None:
            text = quote(json.dumps([said[:500], see]))
            set_cookie(response, self.request, SAID, text, seconds=60)
        return response


def zone_of(request: Request) -> tzinfo:
    """The viewer's, chosen once; UTC until then."""
    return zone_named(unquote(request.cookies.get(ZONE, "UTC")))


def zone_named(name: str) -> tzinfo:
    """UTC where there is no such zone: a page is shown all the same."""
    try:
        return zone(name)
    except TimingError:
        return UTC


def _read_said(cookie: str | None) -> Said | None:
    try:
        found: Any = json.loads(unquote(cookie or "null"))
        return None if found is None else Said(str(found[0]), found[1])
    except (ValueError, LookupError, TypeError):
        return None
