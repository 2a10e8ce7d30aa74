"""Permissions of viewers: the one place that every page asks.

There is one role today, and it may do everything. `Viewer.may` is where a role with fewer
permissions, or an application that decides by itself, would be checked.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from urllib.parse import quote, urlencode

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api.addresses import Addresses
from rota.api.auth import DEVELOPER, Authenticate, path_of, refuse_cross_site
from rota.api.request_limits import RateLimit
from rota.web.forms import inside
from rota.web.session import SECONDS, SESSION, Sessions, set_cookie

ACTOR = "web:admin"
OPEN = ("/static/", "/sign-in")
LINK = "token"


@dataclass(frozen=True, slots=True)
class Viewer:
    actor: str
    can_sign_out: bool = False
    is_open: bool = False

    def may(self, action: str) -> bool:
        """Return whether to show and to carry out an action such as `runs.cancel`."""
        return bool(action)


class Authenticator:
    """Identifies the viewer of a request: by the application's own check, by a session, or, on
    loopback in development, without a check."""

    def __init__(
        self,
        *,
        sessions: Sessions | None,
        failures: RateLimit,
        addresses: Addresses,
        authenticate: Authenticate | None = None,
        is_local: bool = False,
        has_link: bool = False,
    ) -> None:
        self.has_link = has_link
        self._sessions = sessions
        self._failures = failures
        self._addresses = addresses
        self._authenticate = authenticate
        self._is_local = is_local

    async def viewer(self, request: Request) -> Viewer | None:
        if self._authenticate is not None:
            answer = self._authenticate(request)
            actor = await answer if inspect.isawaitable(answer) else answer
            return Viewer(actor) if actor else None
        if self._is_local:
            return Viewer(DEVELOPER, is_open=True)
        actor = self._sessions.read(request.cookies.get(SESSION, "")) if self._sessions else None
        return Viewer(actor, can_sign_out=True) if actor else None

    @property
    def has_sign_in(self) -> bool:
        return self._sessions is not None

    def sign_in(self, request: Request, token: str) -> str | None:
        """Return the cookie of a new session; None for a wrong token. Failures are counted by
        address, as those of the API are; after too many a ProblemError is raised."""
        if self._sessions is not None and self._sessions.is_token(token):
            return self._sessions.begin(ACTOR)
        self._failures.take(self._addresses.of(request.scope))
        return None


class AuthMiddleware:
    """Require authentication; redirect to the sign-in page."""

    def __init__(self, app: ASGIApp, *, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        refuse_cross_site(request)
        if not path_of(scope).startswith(OPEN):
            if (
                self._authenticator.has_link
                and request.method == "GET"
                and LINK in request.query_params
            ):
                await self._follow_link(request)(scope, receive, send)
                return
            viewer = await self._authenticator.viewer(request)
            if viewer is None:
                await self._refuse(request)(scope, receive, send)
                return
            scope["rota.viewer"] = viewer
            scope["rota.actor"] = viewer.actor
        await self._app(scope, receive, send)

    def _follow_link(self, request: Request) -> Response:
        """Sign in with the token of the address, and redirect to the address without it."""
        cookie = self._authenticator.sign_in(request, request.query_params[LINK])
        left = urlencode([pair for pair in request.query_params.multi_items() if pair[0] != LINK])
        wanted = inside(quote(path_of(request.scope)) + (f"?{left}" if left else ""))
        response = RedirectResponse(f"{request.scope.get('root_path', '')}{wanted}", 303)
        if cookie is not None:
            set_cookie(response, request, SESSION, cookie, seconds=SECONDS)
        return response

    def _refuse(self, request: Request) -> Response:
        if not self._authenticator.has_sign_in:
            return PlainTextResponse("this application did not authenticate the request\n", 401)
        root = request.scope.get("root_path", "")
        wanted = quote(path_of(request.scope))
        if query := request.scope.get("query_string", b""):
            wanted += f"?{query.decode('latin-1')}"
        where = f"{root}/sign-in?next={quote(wanted)}"
        if request.headers.get("hx-request"):
            # The request is for a part of an open page: redirect the whole page to the sign-in
            # page.
            return Response(status_code=401, headers={"HX-Redirect": where})
        return RedirectResponse(where, 303)
