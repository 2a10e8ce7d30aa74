"""The API as an ASGI application: its routes, and the gates that a request passes before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

from rota.api import errors, openapi
from rota.api.addresses import Addresses
from rota.api.auth import Access, Authenticate, LocalOnly, TokenCheck, developer
from rota.api.compression import Compressed
from rota.api.hooks import Webhooks
from rota.api.idempotency import Idempotency
from rota.api.operations import routes_of
from rota.api.request_limits import BodyLimit, RateLimit
from rota.api.routes import (
    bulk,
    cleanup,
    error_groups,
    events,
    find,
    health,
    jobs,
    logs,
    metrics,
    retention,
    run_batches,
    runs,
    schedules,
    settings,
    stats,
    stream,
    tenants,
    timings,
    views,
    watches,
)
from rota.api.routing import Paths
from rota.api.schemas.problem import ALWAYS, problems
from rota.api.security import SecureHeaders
from rota.api.state import ApiState
from rota.errors import ConfigError
from rota.operations.responses import Responses

if TYPE_CHECKING:
    from rota.app import App

PREFIX = "/api/v1"
OPENAPI = "/api/openapi.json"
# The nouns below PREFIX, and the routes outside of it.
ROUTES = (
    jobs.routes,
    runs.routes,
    run_batches.routes,
    bulk.routes,
    views.routes,
    error_groups.routes,
    logs.routes,
    schedules.routes,
    timings.routes,
    routes_of("calendars", float, str),
    routes_of("templates", float, str),
    routes_of("queues", float, str),
    routes_of("tenants", float, str),
    tenants.routes,
    routes_of("limits", float, str, str),
    routes_of("workers", int),
    events.routes,
    watches.routes,
    routes_of("audit", int),
    retention.routes,
    cleanup.routes,
    settings.routes,
    stats.routes,
    find.why_routes,
    find.routes,
    stream.routes,
)
ROOT_ROUTES = (health.routes, metrics.routes)


def _all_routes() -> APIRouter:
    routes = APIRouter()
    for one in ROOT_ROUTES:
        routes.include_router(one)
    for one in ROUTES:
        routes.include_router(one, prefix=PREFIX, responses=problems(*ALWAYS))
    return routes


# Shared by all applications of a process: FastAPI takes a tenth of a second to prepare them.
_ALL = _all_routes()


def create_api(
    app: App, *, authenticate: Authenticate | None = None, is_local: bool = False
) -> FastAPI:
    """Return the API of an application, to be served or mounted: `main.mount("/rota",
    create_api(app))`.

    `authenticate` gets each request and returns the name of the caller for the audit, or None to
    refuse it; without it, requests need the token of `[server] token`. `is_local` requires no
    authentication, but accepts only requests from this machine that use its own name. The database
    is opened by the first request, and must be closed by the owner of the application.
    """
    api = FastAPI(
        title="Rota",
        version="1",
        description=__doc__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        routes=_ALL.routes,
    )
    state = api.state.rota = ApiState(app)
    state.routes = [
        (prefix, route)
        for prefix, routers in (("", ROOT_ROUTES), (PREFIX, ROUTES))
        for router in routers
        for route in router.routes
    ]
    errors.install(api)
    _add_gates(api, app, authenticate, is_local)
    openapi.install(api)
    state.describe = api.openapi
    return api


def _add_gates(api: FastAPI, app: App, authenticate: Authenticate | None, is_local: bool) -> None:
    """Add the middleware; the last one added runs first."""
    server = app.config.server
    api.add_middleware(Idempotency, stored=Responses(app.database).within(server.statement_seconds))
    api.add_middleware(BodyLimit, most=server.body_bytes)
    api.add_middleware(
        Access,
        authenticate=authenticate or (developer if is_local else _token_check(app)),
        failures=RateLimit(server.failures_per_second),
        addresses=Addresses(server.trusted_proxies),
        open_paths={"/metrics"} if server.public_metrics else set(),
    )
    api.add_middleware(Webhooks, owner=app)
    if is_local:
        api.add_middleware(LocalOnly)
    api.add_middleware(Paths)
    api.add_middleware(SecureHeaders)
    api.add_middleware(Compressed)


def _token_check(app: App) -> TokenCheck:
    token = app.config.server.token
    if token is None:
        raise ConfigError(
            "the API needs a token, and none is configured",
            hint="`rota server --new-token` creates one; set it as ROTA_SERVER_TOKEN",
        )
    return TokenCheck(token)
