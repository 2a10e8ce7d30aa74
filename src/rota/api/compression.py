"""Compresses responses for clients that accept it.

Streams are not compressed, because an event would wait until its block is full. Neither are
responses to requests from other sites, which could guess their content from their length.
"""

from __future__ import annotations

import asyncio
import gzip

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEVEL = 5
_LEAST = 1000
# Compress larger bodies in a thread, because they would block other requests.
_LARGE = 65_536
_KINDS = ("text/html", "text/plain", "application/json", "application/problem+json")


class Compressed:
    """Compresses texts that are sent as one message."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_taken(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        start: Message | None = None

        async def pack(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start" and _is_text(message):
                start = message
                return
            if start is not None:
                first, start = start, None
                await _pack(first, message)
                await send(first)
            await send(message)

        await self._app(scope, receive, pack)


def is_taken(headers: Headers) -> bool:
    """Return whether gzip is accepted; `gzip;q=0` refuses it."""
    if headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return False
    for part in headers.get("accept-encoding", "").lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return weight.replace(" ", "").rstrip("0.") not in ("q=", "q")
    return False


def _is_text(start: Message) -> bool:
    headers = Headers(raw=start["headers"])
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind in _KINDS and "content-encoding" not in headers


async def _pack(start: Message, body: Message) -> None:
    headers = MutableHeaders(raw=start["headers"])
    headers.add_vary_header("Accept-Encoding")
    plain = body.get("body", b"")
    if body["type"] != "http.response.body" or body.get("more_body") or len(plain) < _LEAST:
        return
    if len(plain) < _LARGE:
        packed = _compress(plain)
    else:
        packed = await asyncio.to_thread(_compress, plain)
    body["body"] = packed
    headers["Content-Encoding"] = "gzip"
    headers["Content-Length"] = str(len(packed))


def _compress(plain: bytes) -> bytes:
    return gzip.compress(plain, LEVEL, mtime=0)
