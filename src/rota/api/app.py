"""The API as an ASGI application: its routes, and the gates that a request passes before them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from rota.api import errors
from rota.api.auth import Access, Authenticate, LocalOnly, TokenCheck, developer
from rota.api.limits import BodyLimit, RateLimit
from rota.api.routes import health, runs
from rota.api.routing import Paths
from rota.api.schemas.problem import ALWAYS, Problem, problems
from rota.api.state import ApiState
from rota.errors import ConfigError

if TYPE_CHECKING:
    from rota.app import App

PREFIX = "/api/v1"
OPENAPI = "/api/openapi.json"
# Every noun below PREFIX; and what stands beside it.
ROUTES = (runs.routes,)
ROOT_ROUTES = (health.routes,)


def create_api(
    app: App, *, authenticate: Authenticate | None = None, is_local: bool = False
) -> FastAPI:
    """The API of an application, to be served or mounted: `main.mount("/rota", create_api(app))`.

    `authenticate` gets each request and answers who it is (the audit's word for the caller), or
    None; without it, the token of `[server] token` is asked for. `is_local` asks for nothing, but
    answers only what comes from this machine by its own name. The database is opened by the first
    request, and closed by whoever owns the application.
    """
    api = FastAPI(
        title="Rota",
        version="1",
        description=__doc__,
        openapi_url=OPENAPI,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    state = api.state.rota = ApiState(app)
    for one in ROOT_ROUTES:
        api.include_router(one)
    for one in ROUTES:
        api.include_router(one, prefix=PREFIX, responses=problems(*ALWAYS))
    state.routes = [
        (prefix, route)
        for prefix, routers in (("", ROOT_ROUTES), (PREFIX, ROUTES))
        for one in routers
        for route in one.routes
    ]
    errors.install(api)
    _add_gates(api, app, authenticate, is_local)
    api.openapi = lambda: _openapi(api)  # type: ignore[method-assign]
    return api


def _add_gates(api: FastAPI, app: App, authenticate: Authenticate | None, is_local: bool) -> None:
    """The last one added is the first one passed."""
    settings = app.config.server
    api.add_middleware(BodyLimit, most=settings.body_bytes)
    api.add_middleware(
        Access,
        authenticate=authenticate or (developer if is_local else _token_check(app)),
        rate=RateLimit(settings.requests_per_second),
        open_paths={"/metrics"} if settings.public_metrics else set(),
    )
    if is_local:
        api.add_middleware(LocalOnly)
    api.add_middleware(Paths)


def _token_check(app: App) -> TokenCheck:
    token = app.config.server.token
    if token is None:
        raise ConfigError(
            "the API has no token, and nothing may answer without one",
            hint="`rota server token` makes one; set it as ROTA_SERVER_TOKEN",
        )
    return TokenCheck(token)


def _openapi(api: FastAPI) -> dict[str, Any]:
    if api.openapi_schema is None:
        found = get_openapi(
            title=api.title,
            version=api.version,
            description=api.description,
            routes=api.routes,
        )
        schemas = found.setdefault("components", {}).setdefault("schemas", {})
        made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas |= made.pop("$defs", {}) | {"Problem": made}
        found["components"]["securitySchemes"] = {
            "token": {"type": "http", "scheme": "bearer", "description": "The admin token."}
        }
        found["security"] = [{"token": []}]
        for path in ("/health", "/ready"):
            found["paths"][path]["get"]["security"] = []
        api.openapi_schema = found
    return api.openapi_schema
