"""The reference of the API as a page, without external files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from rota.web.api_reference import Reference
from rota.web.context import Page
from rota.web.page_scope import PageScope

PATH = "/api/docs"


@dataclass(frozen=True, slots=True)
class ApiDocsPage(Page):
    template: ClassVar[str] = "api_docs.html"
    section: ClassVar[str] = ""

    reference: Reference
    base: str

    @property
    def title(self) -> str:
        return "API"


async def show(request: Request) -> Response:
    scope = PageScope(request)
    if request.query_params.get("as") == "json":
        name = {"Content-Disposition": 'attachment; filename="openapi.json"'}
        return JSONResponse(scope.web.api.describe(), headers=name)
    base = f"{request.url.scheme}://{request.url.netloc}{scope.root}"
    return await scope.show(ApiDocsPage(scope.web.reference, base))


routes = [Route(PATH, show)]
