"""What a page works with: the use cases on behalf of its viewer, and the way back to them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rota.api.errors import ProblemError
from rota.api.routing import given_name
from rota.api.state import ApiState, Desk
from rota.errors import TimingError
from rota.timing.zones import zone
from rota.web import nav
from rota.web.access import Door, Viewer
from rota.web.context import Page, Said, Shell
from rota.web.render import render
from rota.web.session import CSRF, delete_cookie, new_csrf, set_cookie

if TYPE_CHECKING:
    from rota.app import App

SAID, ZONE, THEME = "rota_said", "rota_zone", "rota_theme"
THEMES = ("light", "dark")


@dataclass
class WebState:
    """What the dashboard holds for as long as it lives."""

    api: ApiState
    door: Door
    release: str

    @property
    def app(self) -> App:
        return self.api.app


class WebDesk(Desk):
    """Of one request."""

    def __init__(self, request: Request) -> None:
        self.web: WebState = request.app.state.web
        self.request = request
        self.viewer: Viewer = request.scope["rota.viewer"]
        super().__init__(self.web.api, self.viewer.actor)

    @property
    def root(self) -> str:
        return str(self.request.scope.get("root_path", ""))

    def name(self, part: str = "name") -> str:
        """What the address calls the thing that this page is about."""
        return given_name(self.request.path_params[part])

    def check(self, action: str) -> None:
        """Before an action: whether this viewer may."""
        if not self.viewer.may(action):
            raise ProblemError(403, "forbidden", f"{self.viewer.actor} may not do this: {action}")

    async def show(self, page: Page, *, status: int = 200) -> Response:
        """The page, or, when a script asks for a part of it by name, that part."""
        part = self.request.headers.get("x-rota-part")
        shell = await self._shell(page.section)
        response = HTMLResponse(render(page, shell, part), status)
        if CSRF not in self.request.cookies:
            set_cookie(response, self.request, CSRF, shell.csrf)
        if shell.said is not None and part is None:
            delete_cookie(response, self.request, SAID)
        return response

    async def _shell(self, section: str) -> Shell:
        cookies = self.request.cookies
        return Shell(
            root=self.root,
            nav=nav.items(),
            section=section,
            viewer=self.viewer,
            application=self.app.name,
            release=self.web.release,
            now=await self.clock.now(),
            zone=zone_of(self.request),
            theme=cookies[THEME] if cookies.get(THEME) in THEMES else "",
            csrf=cookies.get(CSRF) or new_csrf(),
            said=_read_said(cookies.get(SAID)),
        )

    def go(self, path: str, said: str | None = None, *, see: str | None = None) -> Response:
        """After an action: on to a page, which says once what was done."""
        response = RedirectResponse(f"{self.root}{path}", 303)
        if said is not None:
            text = quote(json.dumps([said[:500], see]))
            set_cookie(response, self.request, SAID, text, seconds=60)
        return response


def zone_of(request: Request) -> tzinfo:
    """The viewer's, chosen once; UTC until then."""
    try:
        return zone(unquote(request.cookies.get(ZONE, "UTC")))
    except TimingError:
        return UTC


def _read_said(cookie: str | None) -> Said | None:
    try:
        found: Any = json.loads(unquote(cookie or "null"))
        return None if found is None else Said(str(found[0]), found[1])
    except (ValueError, LookupError, TypeError):
        return None
