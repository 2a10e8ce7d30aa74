"""Preferences of a viewer: time zone and theme, stored in the browser."""

from __future__ import annotations

from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from rota.errors import TimingError
from rota.timing.zones import zone
from rota.web.forms import inside, read_form
from rota.web.page_scope import THEME, THEMES, ZONE, PageScope
from rota.web.session import delete_cookie, set_cookie

_YEAR = 365 * 86400


async def keep(request: Request) -> Response:
    """Store the given preferences; others stay unchanged."""
    scope, form = PageScope(request), await read_form(request)
    response = RedirectResponse(f"{scope.root}{inside(form.get('next', '/'))}", 303)
    if name := form.text("zone"):
        try:
            zone(name)
            set_cookie(response, request, ZONE, quote(name), seconds=_YEAR)
        except TimingError:
            return scope.go("/settings", f"There is no time zone {name}.")
    if (theme := form.text("theme")) in THEMES:
        set_cookie(response, request, THEME, str(theme), seconds=_YEAR)
    elif theme == "system":
        delete_cookie(response, request, THEME)
    return response


routes = [Route("/preferences", keep, methods=["POST"])]
