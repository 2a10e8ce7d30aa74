"""Renders a part of a page once for all viewers who reload it after the same change."""

from __future__ import annotations

import gzip
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rota.api.compression import LEVEL, is_taken
from rota.api.shared import SharedBy
from rota.web.page_scope import MARK, SAID, THEME, ZONE
from rota.web.session import CSRF, mask

PART = "x-rota-part"
# Content that changes with time alone is at most this old.
_SECONDS, _MOST = 1.0, 200


@dataclass
class Part:
    """A rendered part, with a mark in the place of each viewer's token."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    mark: bytes

    @cached_property
    def packed(self) -> bytes | None:
        """The compressed body, shared by all viewers, if it contains no token."""
        return None if self.mark in self.body else gzip.compress(self.body, LEVEL, mtime=0)

    def response(self, token: str, takes_gzip: bool) -> Response:
        packed = self.packed if takes_gzip else None
        body = packed or self.body.replace(self.mark, mask(token).encode())
        response = Response(body, self.status)
        response.raw_headers = [header for header in self.headers if header[0] != b"content-length"]
        headers = MutableHeaders(raw=response.raw_headers)
        headers["Content-Length"] = str(len(body))
        if packed is not None:
            headers["Content-Encoding"] = "gzip"
            headers.add_vary_header("Accept-Encoding")
        return response


class SharedParts:
    """Open pages reload their parts after a change. `place` is the position of the last change: a
    part that was rendered since then is the same for every viewer."""

    def __init__(self, app: ASGIApp, *, place: Callable[[], str]) -> None:
        self._app = app
        self._place = place
        # A new value at each start, so that no content of a page can contain it.
        self._mark = secrets.token_hex(16)
        self._shared: SharedBy[Part] = SharedBy(_SECONDS, _MOST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = self._key(scope) if scope["type"] == "http" else None
        if key is None:
            await self._app(scope, receive, send)
            return

        async def make() -> Part:
            return await self._make(scope, receive)

        part = await self._shared.get(key, make)
        request = Request(scope)
        takes_gzip = is_taken(request.headers)
        await part.response(request.cookies[CSRF], takes_gzip)(scope, receive, send)

    def _key(self, scope: Scope) -> str | None:
        """Return all that the response depends on; None if it must not be shared."""
        headers, place = Headers(scope=scope), self._place()
        part = headers.get(PART)
        if part is None or scope["method"] != "GET" or not place:
            return None
        cookies = Request(scope).cookies
        if CSRF not in cookies or SAID in cookies:
            return None
        found: list[Any] = [
            place,
            part,
            headers.get("host"),
            scope.get("root_path"),
            scope["path"],
            scope["query_string"],
            scope.get("rota.viewer"),
            cookies.get(ZONE),
            cookies.get(THEME),
        ]
        return repr(found)

    async def _make(self, scope: Scope, receive: Receive) -> Part:
        start: dict[str, Any] = {}
        body: list[bytes] = []

        async def keep(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                body.append(message.get("body", b""))

        await self._app({**scope, MARK: self._mark}, receive, keep)
        return Part(start["status"], start["headers"], b"".join(body), self._mark.encode())
