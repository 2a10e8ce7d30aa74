"""Webhooks: `POST /hooks/NAME`, authenticated only by the signature.

They run before the check of the token, and read the body themselves, because its bytes are signed.
A refusal is recorded and counted, without the content of the request.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from rota.api.addresses import Addresses
from rota.api.auth import path_of
from rota.api.errors import ProblemError
from rota.api.request_limits import RateLimit
from rota.config.hooks import Webhook
from rota.errors import InputError
from rota.model.json_bounds import parse_json
from rota.model.signatures import find_fault

if TYPE_CHECKING:
    from rota.app import App

PREFIX = "/hooks/"
UNKNOWN = "(unknown)"
_BODY_SECONDS = 30.0
_ODD = re.compile(r"[^\w.:-]+")
_KINDS = {"github": "x-github-event"}
_SIGNED_NAMES = ("stripe", "slack")
_DELIVERIES = {"github": "x-github-delivery"}
# The answer to the sender; the reason itself is only for the operator.
_UNSIGNED = "the signature is missing, wrong or too old"
_ANSWERS = {
    "unknown_hook": (404, "not_found", "there is no such webhook"),
    "no_signature": (401, "unauthorized", _UNSIGNED),
    "bad_signature": (401, "unauthorized", _UNSIGNED),
    "stale": (401, "unauthorized", _UNSIGNED),
    "too_large": (413, "body_too_large", "the body is too large"),
    "not_json": (422, "invalid", "the body is not JSON that can be stored"),
}


class Webhooks:
    """Handles requests to webhooks; passes all others on."""

    def __init__(self, app: ASGIApp, *, owner: App) -> None:
        server = owner.config.server
        self._app = app
        self._hooks = owner.config.hooks
        self._events = owner.events.within(server.statement_seconds)
        self._failures = RateLimit(server.failures_per_second)
        self._addresses = Addresses(server.trusted_proxies)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not path_of(scope).startswith(PREFIX):
            await self._app(scope, receive, send)
            return
        if scope["method"] != "POST":
            raise ProblemError(
                405, "method_not_allowed", "webhooks accept only POST", headers={"Allow": "POST"}
            )
        answer = await self._take(scope, receive)
        await JSONResponse(answer)(scope, receive, send)

    async def _take(self, scope: Scope, receive: Receive) -> dict[str, Any]:
        hook = self._hooks.get(path_of(scope).removeprefix(PREFIX))
        if hook is None:
            await self._refuse(scope, UNKNOWN, "unknown_hook")
        body = await _read(receive, hook.body_bytes)
        if body is None:
            await self._refuse(scope, hook.name, "too_large")
        headers = dict(Headers(scope=scope).items())
        if fault := find_fault(hook.signed, headers, body, time.time()):
            await self._refuse(scope, hook.name, fault)
        try:
            parsed = _parse(body)
        except ValueError:
            await self._refuse(scope, hook.name, "not_json")
        if hook.scheme == "slack" and said_of(parsed, "type") == "url_verification":
            return {"challenge": said_of(parsed, "challenge")}
        return await self._emit(scope, hook, headers, body, parsed)

    async def _emit(
        self, scope: Scope, hook: Webhook, headers: Mapping[str, str], body: bytes, said: Any
    ) -> dict[str, Any]:
        kind = kind_of(hook, headers, said)
        delivery = delivery_of(hook, headers, said)
        payload = {"hook": hook.name, "type": kind, "delivery": delivery, "body": said}
        try:
            found = await self._events.receive(
                hook.event.replace("{type}", kind)[:200],
                payload,
                tenant=hook.tenant,
                key=key_of(hook, headers, body, said)[:400],
                key_period=hook.key_seconds,
                key_scope=f"webhook {hook.name}",
                source={"webhook": hook.name},
            )
        except InputError:
            await self._refuse(scope, hook.name, "not_json")
        return {"event_id": found.event_id, "is_duplicate": found.is_duplicate}

    async def _refuse(self, scope: Scope, hook: str, reason: str) -> NoReturn:
        """Refuse the request; a client that fails too often is refused before anything is
        written."""
        address = self._addresses.of(scope)
        self._failures.take(address)
        await self._events.refuse(hook, reason, address)
        status, code, detail = _ANSWERS[reason]
        headers = {"Connection": "close"} if reason == "too_large" else None
        raise ProblemError(status, code, detail, headers=headers)


async def _read(receive: Receive, most: int) -> bytes | None:
    """Return None if the body is too large."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(400, "malformed", "the body is incomplete")
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > most:
                    return None
                if not message.get("more_body"):
                    return b"".join(parts)
    except TimeoutError:
        raise ProblemError(
            408,
            "request_timeout",
            "the body did not arrive in time",
            headers={"Connection": "close"},
        ) from None


def _parse(body: bytes) -> Any:
    """Raise ValueError if the body is not JSON, or not a valid payload."""
    try:
        found = parse_json(body)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if "\\u0000" in json.dumps(found):
        raise ValueError("a string contains a NUL character")
    return found


def said_of(said: Any, *path: str) -> str | None:
    """Return a text inside the body, if there is one."""
    for name in path:
        said = said.get(name) if isinstance(said, Mapping) else None
    return said if isinstance(said, str) and said else None


def kind_of(hook: Webhook, headers: Mapping[str, str], said: Any) -> str:
    """Return the sender's type of the event, as part of a name. If the body contains a signed type,
    headers are ignored. GitHub's type is in a header only."""
    inner = said_of(said, "event", "type") if hook.scheme == "slack" else None
    signed = None if hook.scheme == "github" else inner or said_of(said, "type")
    header = None
    if hook.scheme not in _SIGNED_NAMES:
        header = headers.get(_KINDS.get(hook.scheme, hook.type_header.lower()))
    return _ODD.sub("_", signed or header or "received")[:100]


def delivery_of(hook: Webhook, headers: Mapping[str, str], said: Any) -> str | None:
    """Return the sender's id of this delivery."""
    if hook.scheme in _SIGNED_NAMES:
        return said_of(said, "id" if hook.scheme == "stripe" else "event_id")
    return headers.get(_DELIVERIES.get(hook.scheme, hook.delivery_header.lower())) or None


def key_of(hook: Webhook, headers: Mapping[str, str], body: bytes, said: Any) -> str:
    """Return the idempotency key, made only of what the sender has signed: a captured request that
    is sent again with another id or type in its headers is a duplicate. Keys of a webhook hold for
    all of its types."""
    if hook.scheme in _SIGNED_NAMES and (delivery := delivery_of(hook, headers, said)):
        return delivery
    return f"sha256:{hashlib.sha256(_signed_part(hook, headers) + body).hexdigest()}"


def _signed_part(hook: Webhook, headers: Mapping[str, str]) -> bytes:
    """Return the timestamp: two requests with the same body are two deliveries if their times
    differ."""
    return headers.get((hook.timestamp_header or "").lower(), "").encode()
