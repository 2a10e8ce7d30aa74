"""The API inside other people's applications, with their own idea of who may ask."""

from __future__ import annotations

import sys
import types
from typing import Any

import httpx
import psycopg
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Mount

import rota
from rota.api import create_api
from rota.web import create_site
from tests.api.conftest import HEADERS, client_of, problem

USERS = {"s3cret": "ada"}


async def by_cookie(request: Request) -> str | None:
    return USERS.get(request.cookies.get("session", ""))


async def check(outer: Any, conn: psycopg.Connection[Any], prefix: str = "/rota") -> None:
    """Open where it should be, closed elsewhere, and the audit has their word for the caller."""
    async with client_of(outer) as stranger:
        assert (await stranger.get(f"{prefix}/health")).status_code == 200
        problem(await stranger.get(f"{prefix}/api/v1/runs"), 401, "unauthorized")
        problem(await stranger.get(f"{prefix}/api/openapi.json"), 401, "unauthorized")
    async with client_of(outer, Cookie="session=s3cret") as ada:
        paused = await ada.post(f"{prefix}/api/v1/queues/a%2Fb/pause", json={"reason": "x"})
        assert (paused.status_code, paused.json()["name"]) == (200, "a/b"), paused.text
        run = await ada.post(
            f"{prefix}/api/v1/runs", json={"job": "send", "payload": {"user_id": 1}}
        )
        assert (await ada.get(run.headers["location"])).json()["id"] == run.json()["run_id"]
        response = await ada.put(f"{prefix}/api/v1/runs")
        problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == "GET, POST"
        assert (await ada.get(f"{prefix}/api/openapi.json")).status_code == 200
    rows = conn.execute("SELECT actor, action FROM rota.audit ORDER BY id").fetchall()
    assert rows == [("ada", "queue.paused"), ("ada", "run.enqueued")]


async def test_in_fastapi(shop: rota.App, conn: psycopg.Connection[Any]) -> None:
    outer = FastAPI()

    @outer.get("/")
    async def home() -> str:
        return "theirs"

    outer.mount("/rota", create_api(shop, authenticate=by_cookie))
    await check(outer, conn)
    async with client_of(outer) as client:
        assert (await client.get("/")).json() == "theirs"


async def test_in_starlette(shop: rota.App, conn: psycopg.Connection[Any]) -> None:
    await check(Starlette(routes=[Mount("/rota", create_api(shop, authenticate=by_cookie))]), conn)


async def test_in_django(
    shop: rota.App, conn: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside Django's own ASGI application, by path, as its documentation says."""
    from django.conf import settings
    from django.core.asgi import get_asgi_application
    from django.http import HttpResponse
    from django.urls import path

    urls: Any = types.ModuleType("urls_of_test")
    urls.urlpatterns = [path("", lambda request: HttpResponse("theirs"))]
    monkeypatch.setitem(sys.modules, "urls_of_test", urls)
    if not settings.configured:
        settings.configure(ROOT_URLCONF="urls_of_test", ALLOWED_HOSTS=["*"], SECRET_KEY="x")
    else:
        monkeypatch.setattr(settings, "ROOT_URLCONF", "urls_of_test", raising=False)
        monkeypatch.setattr(settings, "ALLOWED_HOSTS", ["*"], raising=False)
    theirs = get_asgi_application()
    ours = Starlette(routes=[Mount("/rota", create_api(shop, authenticate=by_cookie))])

    async def application(scope: Any, receive: Any, send: Any) -> None:
        is_ours = scope["type"] == "http" and scope["path"].startswith("/rota/")
        await (ours if is_ours else theirs)(scope, receive, send)

    await check(application, conn)
    async with client_of(application) as client:
        assert (await client.get("/")).text == "theirs"


async def test_whoever_authenticates_may_refuse_in_its_own_words(shop: rota.App) -> None:
    from fastapi import HTTPException

    def refuse(_: Request) -> str:
        raise HTTPException(403, "not on Sundays")

    async with client_of(create_api(shop, authenticate=refuse)) as client:
        found = problem(await client.get("/api/v1/runs"), 403, "forbidden")
        assert found["detail"] == "not on Sundays"


def test_without_token_and_authenticator_there_is_no_api(make_app: Any) -> None:
    with pytest.raises(rota.ConfigError, match="needs a token"):
        create_api(make_app())


async def test_one_that_is_local_wants_no_token_but_its_own_name(shop: rota.App) -> None:
    made = create_api(shop, is_local=True)
    transport = httpx.ASGITransport(made)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost:7682") as client:
        assert (await client.get("/api/v1/clock")).status_code == 200
        own = {"Origin": "http://localhost:7682", "Sec-Fetch-Site": "same-origin"}
        assert (await client.post("/api/v1/queues/q/pause", headers=own)).status_code == 200
        for headers, code in (
            ({"Host": "evil.example"}, "wrong_host"),
            ({"Host": "localhost.evil.example:7682"}, "wrong_host"),
            ({"Origin": "http://localhost:3000"}, "cross_site"),
            ({"Origin": "null"}, "cross_site"),
            ({"Sec-Fetch-Site": "cross-site"}, "cross_site"),
        ):
            problem(await client.get("/api/v1/clock", headers=headers), 403, code)
        for header in ("Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"):
            answer = await client.get("/api/v1/clock", headers={header: "127.0.0.1"})
            problem(answer, 403, "not_local")


@pytest.mark.parametrize(("client", "status"), [
    (None, 403),
    (("203.0.113.9", 4000), 403), (("::ffff:203.0.113.9", 4000), 403), (("testclient", 4000), 403),
    (("127.0.0.7", 4000), 200), (("::1", 4000), 200), (("::ffff:127.0.0.1", 4000), 200),
])  # fmt: skip
async def test_one_that_is_local_looks_at_the_peer(
    shop: rota.App, client: tuple[str, int] | None, status: int
) -> None:
    """The Host header says what the client likes, and a proxy's default is this machine's name. One
    that passes on requests by a Unix socket has no address."""
    site = create_site(shop, is_local=True)

    async def served(scope: Any, receive: Any, send: Any) -> None:
        await site({**scope, "client": client}, receive, send)

    transport = httpx.ASGITransport(served)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
        for path in ("/api/v1/jobs", "/queues", "/health"):
            assert (await other.get(path)).status_code == status


UNSAFE = {"POST", "PUT", "PATCH", "DELETE"}


async def test_no_operation_is_carried_out_for_another_site(shop: rota.App) -> None:
    """With an application's own cookie: a form of another site sends that cookie along."""
    made = create_site(shop, authenticate=lambda _: "ada")
    places = [
        (method, prefix + route.path)
        for prefix, route in made.state.rota.routes
        for method in route.methods & UNSAFE
    ]
    assert len(places) > 50
    transport = httpx.ASGITransport(made)
    async with httpx.AsyncClient(transport=transport, base_url="http://rota.test") as client:
        for method, path in places:
            for headers in (
                {"Origin": "https://evil.example"},
                {"Origin": "null"},
                {"Sec-Fetch-Site": "cross-site"},
                {"Origin": "https://evil.example", "Authorization": "Basic YWRhOmFkYQ=="},
            ):
                answer = await client.request(method, path, headers=headers)
                problem(answer, 403, "cross_site")
        pause = "/api/v1/queues/q/pause"
        for headers in ({}, {"Origin": "http://rota.test", "Sec-Fetch-Site": "same-origin"}):
            assert (await client.post(pause, headers=headers)).status_code == 200


async def test_a_program_with_a_token_needs_no_origin(shop: rota.App) -> None:
    async with client_of(create_api(shop), **HEADERS) as client:
        foreign = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert (await client.post("/api/v1/queues/q/pause", headers=foreign)).status_code == 200
