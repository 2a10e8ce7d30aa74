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
# What changes by time alone is not older than this.
_SECONDS, _MOST = 1.0, 200


@dataclass
class Part:
    """As it was made, with a mark where each viewer's own token goes."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    mark: bytes

    @cached_property
    def packed(self) -> bytes | None:
        """Compressed once for all, where there is no token in it."""
        return None if self.mark in self.body else gzip.compress(self.body, LEVEL, mtime=0)

    def response(self, token: str, takes_gzip: bool) -> Response:
        packed = self.packed if takes_gzip else None
        body = packed or self.body.replace(self.mark, mask(token).encode())
        response = Response(body, self.status)
        response.raw_headers = [it for it in self.headers if it[0] != b"content-length"]
        headers = MutableHeaders(raw=response.raw_headers)
        headers["Content-Length"] = str(len(body))
        if packed is not None:
            headers["Content-Encoding"] = "gzip"
            headers.add_vary_header("Accept-Encoding")
        return response


class SharedParts:
    """A page that is open asks for its parts again after news. `place` says up to where there has
    been news: what was made since then is what everybody else would get, too."""

    def __init__(self, app: ASGIApp, *, place: Callable[[], str]) -> None:
        self._app = app
        self._place = place
        # Nobody can write it into a page: it is another one at each start.
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
        """All that the answer depends on; None where it is not to be shared."""
        headers, place = Headers(scope=scope), self._place()
        part = headers.get(PART)
        if part is None or scope["method"] != "GET" or not place:
            return None
        cookies = Request(scope).cookies
        if CSRF not in cookies or SAID in cookies:
            return None
        found: list[Any] = [
            place, part, headers.get("host"), scope.get("root_path"), scope["path"],
            scope["query_string"], scope.get("rota.viewer"), cookies.get(ZONE), cookies.get(THEME),
        ]  # fmt: skip
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
