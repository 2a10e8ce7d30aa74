"""The dashboard as an ASGI application, and the site that has both: pages at /, the API at /api."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from rota import __version__
from rota.api.addresses import Addresses
from rota.api.app import create_api
from rota.api.auth import Authenticate, LocalOnly, path_of
from rota.api.compression import Compressed
from rota.api.errors import ProblemError
from rota.api.request_limits import BodyLimit, RateLimit
from rota.api.routing import whole_names
from rota.api.security import SecureHeaders
from rota.api.state import ApiState
from rota.errors import ConfigError
from rota.web import assets
from rota.web.access import Authenticator, AuthMiddleware
from rota.web.page_scope import WebState
from rota.web.pages import PAGES, failure
from rota.web.parts import SharedParts
from rota.web.session import Sessions
from rota.web.shared_reads import SharedReads

if TYPE_CHECKING:
    from rota.app import App

API_PATHS = frozenset({"/health", "/ready", "/metrics", "/api"})
DOCS = "/api/docs"
_FORM = "application/x-www-form-urlencoded"


class Site:
    """Pages and API of one application, to be served or mounted."""

    def __init__(
        self,
        app: App,
        authenticate: Authenticate | None = None,
        is_local: bool = False,
        *,
        has_link: bool = False,
    ) -> None:
        """`has_link`: a link with the token signs in, for a token that lives as long as this
        process. Addresses are written to histories and logs."""
        self._api = create_api(app, authenticate=authenticate, is_local=is_local)
        self.state = self._api.state
        self._pages = _pages(self.state.rota, authenticate, is_local, has_link)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_api = scope["type"] == "http" and _is_api(path_of(scope))
        await (self._api if is_api else self._pages)(scope, receive, send)


def create_site(
    app: App, *, authenticate: Authenticate | None = None, is_local: bool = False
) -> Site:
    """Return the dashboard with the API: `main.mount("/rota", rota.web.create_site(app))`.

    `authenticate` gets each request and returns the name of the caller for the audit, or None to
    refuse it; without it, people sign in with the token of `[server] token`. `is_local` requires no
    authentication, but accepts only requests from this machine that use its own name.
    """
    return Site(app, authenticate, is_local)


def _is_api(path: str) -> bool:
    return path != DOCS and (path in API_PATHS or path.startswith(("/api/", "/hooks/")))


def _pages(
    state: ApiState, authenticate: Authenticate | None, is_local: bool, has_link: bool
) -> Starlette:
    server = state.app.config.server
    authenticator = Authenticator(
        sessions=_sessions(state.app, authenticate, is_local),
        failures=RateLimit(server.failures_per_second),
        addresses=Addresses(server.trusted_proxies),
        authenticate=authenticate,
        is_local=is_local,
        has_link=has_link,
    )
    watch = SharedReads(state.app)
    gates = [
        Middleware(Compressed),
        Middleware(SecureHeaders),
        Middleware(_Refusals),
        *([Middleware(LocalOnly)] if is_local else []),
        Middleware(AuthMiddleware, authenticator=authenticator),
        Middleware(BodyLimit, most=server.body_bytes, check_type=_check_form),
        Middleware(failure.Failures),
        Middleware(SharedParts, place=partial(_place, state, watch)),
    ]
    routes = [Route("/static/{version}/{name}", assets.serve)]
    routes += [route for page in PAGES for route in page.routes]
    pages = Starlette(
        routes=routes, middleware=gates, exception_handlers={HTTPException: failure.show}
    )
    pages.state.web = WebState(state, authenticator, __version__, watch)
    return pages


def _place(state: ApiState, watch: SharedReads) -> str:
    """Return the position up to which open pages have been notified of changes; empty if they are
    not notified."""
    place = state.hub.place
    return f"{place} {watch.changes}" if place else ""


def _sessions(app: App, authenticate: Authenticate | None, is_local: bool) -> Sessions | None:
    if authenticate is not None or is_local:
        return None
    if app.config.server.token is None:
        raise ConfigError(
            "the dashboard needs a token, and none is configured",
            hint="`rota server --new-token` creates one; set it as ROTA_SERVER_TOKEN",
        )
    return Sessions(app.config.server.token)


def _check_form(given: str) -> None:
    if given.partition(";")[0].strip().lower() != _FORM:
        raise ProblemError(415, "unsupported_media_type", f"the form must be sent as {_FORM}")


class _Refusals:
    """Answers requests that are refused before they reach a page with one line of plain text. An
    application that authenticates may also redirect to its own sign-in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(whole_names(scope), receive, send)
        except HTTPException as error:
            answer = Response(
                f"{error.detail}\n", error.status_code, error.headers, media_type="text/plain"
            )
            await answer(scope, receive, send)
