"""`Idempotency-Key` on POST: a repeated request gets the response of the first one.

Only successful responses are stored. Any other response means that nothing was done, so the key may
be used again, also with a corrected body.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from contextlib import suppress
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api.errors import ProblemError
from rota.errors import RotaError
from rota.model.response import StoredResponse
from rota.operations.responses import Responses

HEADER = "Idempotency-Key"
REPLAYED = "Idempotency-Replayed"
KEY = re.compile(r"[\x21-\x7e]{1,255}")
_LARGEST = 4 * 1024 * 1024
_KEPT_HEADERS = ("content-type", "etag", "location", "rota-changed")


class Idempotency:
    """Runs after the middleware that identifies the caller and reads the body."""

    def __init__(self, app: ASGIApp, *, stored: Responses) -> None:
        self._app = app
        self._stored = stored

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = None
        if scope["type"] == "http" and scope["method"] == "POST":
            key = Headers(scope=scope).get(HEADER)
        if key is None:
            await self._app(scope, receive, send)
        else:
            await self._once(key, scope, receive, send)

    async def _once(self, key: str, scope: Scope, receive: Receive, send: Send) -> None:
        if KEY.fullmatch(key) is None:
            raise ProblemError(
                422,
                "invalid",
                f"{HEADER} must have 1 to 255 visible ASCII characters",
                field=HEADER,
            )
        key_hash, request_hash = _hashes(key, scope)
        claim = str(uuid.uuid4())
        found = await self._stored.claim(key_hash, request_hash, claim)
        if found is not None:
            await _replay(found, request_hash)(scope, receive, send)
            return
        held = _Held()
        try:
            await self._app(scope, receive, held.take)
        except BaseException:
            await self._release(key_hash, claim)
            raise
        await self._settle(key_hash, claim, held)
        for message in held.messages:
            await send(message)

    async def _settle(self, key_hash: bytes, claim: str, held: _Held) -> None:
        body = held.body()
        if 200 <= held.status < 300 and len(body) <= _LARGEST:
            await self._stored.keep(key_hash, claim, held.status, held.headers(), body)
        else:
            await self._release(key_hash, claim)

    async def _release(self, key_hash: bytes, claim: str) -> None:
        with suppress(RotaError):  # the key expires after a minute
            await self._stored.release(key_hash, claim)


class _Held:
    """Holds a response back until it is stored, so that a client that has received it gets it
    again."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.status = 0

    async def take(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        self.messages.append(message)

    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.messages)

    def headers(self) -> dict[str, str]:
        start = MutableHeaders(raw=list(self.messages[0]["headers"]))
        return {name: start[name] for name in _KEPT_HEADERS if name in start}


def _hashes(key: str, scope: Scope) -> tuple[bytes, bytes]:
    parts: tuple[Any, ...] = (
        scope["method"].encode(),
        scope["path"].encode(),
        scope.get("query_string", b""),
        scope.get("rota.body", b""),
    )
    actor = str(scope.get("rota.actor", ""))
    return _hash(actor.encode(), key.encode()), _hash(*parts)


def _hash(*parts: bytes) -> bytes:
    """Hash the parts with their lengths, so that no two lists of parts have the same hash."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "big") + part)
    return found.digest()


def _replay(found: StoredResponse, request_hash: bytes) -> Response:
    if found.request_hash != request_hash:
        raise ProblemError(
            422,
            "idempotency_key_reused",
            "this key was used for a different request",
            field=HEADER,
            hint="use a new key for a new request",
        )
    if found.status is None:
        raise ProblemError(
            409,
            "request_under_way",
            "a request with this key is still in progress",
            headers={"Retry-After": "1"},
        )
    return Response(found.body, found.status, headers=found.headers | {REPLAYED: "true"})
