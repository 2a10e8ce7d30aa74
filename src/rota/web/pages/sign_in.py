"""Signing in with the token, and out again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from rota.api.errors import ProblemError
from rota.web.forms import inside, read_form
from rota.web.page_scope import THEME, WebState
from rota.web.render import render_alone
from rota.web.session import CSRF, SECONDS, SESSION, delete_cookie, mask, new_csrf, set_cookie


@dataclass(frozen=True, slots=True)
class SignInPage:
    template: ClassVar[str] = "sign_in.html"

    root: str
    theme: str
    application: str
    csrf: str
    next: str
    error: str | None


async def form(request: Request) -> Response:
    if not _state(request).authenticator.has_sign_in:
        return RedirectResponse(f"{_root(request)}/", 303)
    return _show(request, inside(request.query_params.get("next", "/")))


async def sign_in(request: Request) -> Response:
    given = await read_form(request)
    wanted = inside(given.get("next", "/"))
    try:
        cookie = _state(request).authenticator.sign_in(request, given.get("token", ""))
    except ProblemError as error:
        return _show(
            request, wanted, f"{error.detail}. Wait a moment and try again.", error.status_code
        )
    if cookie is None:
        return _show(request, wanted, "This token is not valid for this server.", 403)
    response = RedirectResponse(f"{_root(request)}{wanted}", 303)
    set_cookie(response, request, SESSION, cookie, seconds=SECONDS)
    return response


async def sign_out(request: Request) -> Response:
    await read_form(request)
    response = RedirectResponse(f"{_root(request)}/sign-in", 303)
    delete_cookie(response, request, SESSION)
    return response


def _show(request: Request, wanted: str, error: str | None = None, status: int = 200) -> Response:
    state = _state(request)
    csrf = request.cookies.get(CSRF) or new_csrf()
    theme = request.cookies.get(THEME, "")
    page = SignInPage(_root(request), theme, state.app.name, mask(csrf), wanted, error)
    response = HTMLResponse(render_alone(page), status)
    set_cookie(response, request, CSRF, csrf)
    return response


def _state(request: Request) -> WebState:
    state: WebState = request.app.state.web
    return state


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))


routes = [
    Route("/sign-in", form),
    Route("/sign-in", sign_in, methods=["POST"]),
    Route("/sign-out", sign_out, methods=["POST"]),
]
