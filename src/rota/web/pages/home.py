"""Where one begins."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from rota.web import nav
from rota.web.desk import WebDesk


async def begin(request: Request) -> Response:
    return WebDesk(request).go(next(one.path for one in nav.items() if one is not None))


routes = [Route("/", begin)]
