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
from rota.api.limits import RateLimit

Authenticate = Callable[[Request], "str | Awaitable[str | None] | None"]

OPEN_PATHS = frozenset({"/health", "/ready"})
# A page of another site can have any name point here, but not make a browser send an address.
_LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?", re.IGNORECASE)
# What proxies add.
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
ADMIN = "api:admin"
DEVELOPER = "api:dev"


def new_token() -> str:
    return secrets.token_urlsafe(32)


class TokenCheck:
    """One token for everything. Digests are compared, so that time tells nothing of its length."""

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
    """For `rota dev` on loopback, behind a LocalOnly."""
    return DEVELOPER


class Access:
    """Lets in who is known to `authenticate`. Only failures are counted against an address, and
    only after a look at who asks: strangers cannot use up what others behind it have."""

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
        """Whoever authenticates in another way knows best what is missing."""
        asks_for_token = isinstance(self._authenticate, TokenCheck)
        detail = "authentication required: send Authorization: Bearer …"
        return ProblemError(
            401,
            "unauthorized",
            detail if asks_for_token else "this application did not authenticate the request",
            headers={"WWW-Authenticate": 'Bearer realm="rota"'},
        )


class LocalOnly:
    """For an API that asks for no token: only clients on this machine, connected directly. What a
    page of another site makes a browser send, under whatever name of this machine, is refused, and
    so is what a proxy on this machine passes on."""

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
    cookies and passwords of the browser travel with it. A program that sends a bearer token does so
    by itself, and needs no origin."""
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
    """A client without an address may be anybody: a proxy that passes on requests by a Unix socket
    has none."""
    try:
        address = ip_address(client or "")
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def path_of(scope: Scope) -> str:
    """The path inside this application, wherever it is mounted."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", "")) or "/"
