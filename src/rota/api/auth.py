"""Authentication: every request needs the token, except those to the health endpoints."""

from __future__ import annotations

import hashlib
import hmac
import inspect
import re
import secrets
from collections.abc import Awaitable, Callable
from ipaddress import ip_address

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api.addresses import Addresses
from rota.api.errors import ProblemError
from rota.api.request_limits import RateLimit

Authenticate = Callable[[Request], "str | Awaitable[str | None] | None"]

OPEN_PATHS = frozenset({"/health", "/ready"})
# Another site can point any host name to this machine, but cannot make a browser send an IP
# address.
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
# Headers that proxies add.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ADMIN = "api:admin"
DEVELOPER = "api:dev"


def new_token() -> str:
    return secrets.token_urlsafe(32)


class TokenCheck:
    """Checks the one token. Digests are compared, so that the time of a comparison does not reveal
    the token's length."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token.encode())

    def __call__(self, request: Request) -> str | None:
        given = [value for name, value in request.scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return None
        scheme, _, token = given[0].partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        return ADMIN if hmac.compare_digest(_digest(token.strip()), self._digest) else None


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()


def developer(_: Request) -> str:
    """Authenticate every request, for `rota dev` on loopback, behind a LocalOnly."""
    return DEVELOPER


class Access:
    """Requires authentication by `authenticate`. Only failures count against an address, and only
    after the check: strangers cannot exhaust the limit of other clients behind the same address."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        authenticate: Authenticate,
        failures: RateLimit,
        addresses: Addresses,
        open_paths: set[str],
    ) -> None:
        self._app = app
        self._authenticate = authenticate
        self._failures = failures
        self._addresses = addresses
        self._open = open_paths | OPEN_PATHS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and path_of(scope) not in self._open:
            request = Request(scope)
            refuse_cross_site(request)
            scope["rota.actor"] = await self._actor(request)
        await self._app(scope, receive, send)

    async def _actor(self, request: Request) -> str:
        try:
            answer = self._authenticate(request)
            actor = await answer if inspect.isawaitable(answer) else answer
        except HTTPException as error:
            if error.status_code in (401, 403):
                self._count_failure(request)
            raise
        if not actor:
            self._count_failure(request)
            raise self._stranger()
        return actor

    def _count_failure(self, request: Request) -> None:
        self._failures.take(self._addresses.of(request.scope))

    def _stranger(self) -> ProblemError:
        """Name the missing header only for token authentication; another method has its own
        message."""
        asks_for_token = isinstance(self._authenticate, TokenCheck)
        detail = "authentication required: send Authorization: Bearer …"
        return ProblemError(
            401,
            "unauthorized",
            detail if asks_for_token else "this application did not authenticate the request",
            headers={"WWW-Authenticate": 'Bearer realm="rota"'},
        )


class LocalOnly:
    """Protects an API without a token: accepts only direct connections from this machine. Requests
    that a page of another site makes a browser send, under any name of this machine, are refused,
    and so are requests that a proxy on this machine forwards."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            self._check(Request(scope))
        await self._app(scope, receive, send)

    def _check(self, request: Request) -> None:
        if not _is_local(request.client.host if request.client else None):
            raise ProblemError(403, "not_local", "this API accepts requests from this machine only")
        if any(name in request.headers for name in _FORWARDED):
            raise ProblemError(403, "not_local", "this API does not accept requests from proxies")
        if _LOOPBACK.fullmatch(request.headers.get("host", "")) is None:
            raise ProblemError(403, "wrong_host", "this API accepts requests to localhost only")
        origin = request.headers.get("origin")
        is_foreign = origin is not None and origin != f"http://{request.headers['host']}"
        if is_foreign or request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
            raise ProblemError(403, "cross_site", "requests from other sites are refused")


def refuse_cross_site(request: Request) -> None:
    """Refuse a request that changes something and that a page of another site made a browser send:
    the browser adds its cookies and passwords. A program sends a bearer token deliberately, and
    needs no origin."""
    if request.method in _SAFE_METHODS:
        return
    if request.headers.get("authorization", "").lower().startswith("bearer "):
        return
    origin, host = request.headers.get("origin"), request.headers.get("host")
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") or (
        origin is not None and origin not in (f"http://{host}", f"https://{host}")
    ):
        raise ProblemError(403, "cross_site", "requests from other sites are refused")


def _is_local(client: str | None) -> bool:
    """Return False without an address: a proxy that forwards requests through a Unix socket has
    none, and its clients may be anywhere."""
    try:
        address = ip_address(client or "")
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def path_of(scope: Scope) -> str:
    """Return the path inside this application, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"
