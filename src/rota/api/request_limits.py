"""Limits on failed requests per client, and on the size of request bodies."""

from __future__ import annotations

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api.errors import ProblemError

MOST_LISTED = 1000
_CLIENTS = 10_000
_BODY_SECONDS = 30.0
_STRANGERS_BYTES = 16 * 1024
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class RateLimit:
    """A token bucket per client: it refills at the rate, and holds two seconds of it.

    Only the most recent clients are remembered, so that many clients cost no memory.
    """

    def __init__(self, rate: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._size = max(2.0, 2 * rate)
        self._now = now
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str) -> None:
        """Count one failure; raise a ProblemError if the bucket is empty."""
        left = self._left(client)
        if left < 1:
            self._keep(client, left)
            self._refuse(left)
        self._keep(client, left - 1)

    def _left(self, client: str) -> float:
        left, at = self._buckets.get(client, (self._size, self._now()))
        return min(self._size, left + (self._now() - at) * self._rate)

    def _keep(self, client: str, left: float) -> None:
        self._buckets[client] = (left, self._now())
        self._buckets.move_to_end(client)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)

    def _refuse(self, left: float) -> None:
        seconds = max(1, math.ceil((1 - left) / self._rate))
        raise ProblemError(
            429,
            "too_many_requests",
            f"more than {self._rate:g} failed requests per second from this address",
            headers={"Retry-After": str(seconds)},
        )


class BodyLimit:
    """Reads the body of a request first, so that its size is known, also if it comes in chunks. No
    route needs long bodies: payloads have their own, smaller limit, and an unauthenticated client
    sends at most a token."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        most: int,
        seconds: float = _BODY_SECONDS,
        check_type: Callable[[str], None] | None = None,
    ) -> None:
        self._app = app
        self._most = most
        self._check_type = check_type or _check_json
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in _WITH_BODY:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        most = self._most if scope.get("rota.actor") else min(self._most, _STRANGERS_BYTES)
        _check_announced(headers, most)
        body = await self._read(receive, most)
        if body is None:
            return  # the client has disconnected
        if body:
            self._check_type(headers.get("content-type", ""))
        scope["rota.body"] = body
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive, most: int) -> bytes | None:
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    if size > most:
                        _refuse_body(most)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise ProblemError(
                408, "request_timeout", "the body did not arrive in time", headers=_CLOSE
            ) from None


def _check_announced(headers: Headers, most: int) -> None:
    announced = headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > most:
        _refuse_body(most)


def _refuse_body(most: int) -> None:
    raise ProblemError(
        413, "body_too_large", f"the body must have at most {most} bytes", headers=_CLOSE
    )


# The rest of the body is not read, so the connection cannot be reused.
_CLOSE = {"Connection": "close"}


def _check_json(given: str) -> None:
    kind = given.partition(";")[0].strip().lower()
    if kind != "application/json" and not (
        kind.startswith("application/") and kind.endswith("+json")
    ):
        raise ProblemError(
            415,
            "unsupported_media_type",
            f"the body must be application/json, not {kind or 'untyped'!r}",
        )


def _replay(body: bytes, receive: Receive) -> Receive:
    is_sent = False

    async def again() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
