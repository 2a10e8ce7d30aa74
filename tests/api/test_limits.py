"""Sizes, rates and times; and what is no JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psycopg
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

import rota
from rota.api import create_api
from rota.api.errors import ProblemError
from rota.api.request_limits import BodyLimit, RateLimit
from tests.api.conftest import HEADERS, TOKEN, client_of, problem
from tests.conftest import MakeApp

JSON = {"Content-Type": "application/json"}
RUNS = "/api/v1/runs"
CONFIG = "/api/v1/config"


async def test_large_bodies_are_refused(make_app: MakeApp) -> None:
    app = make_app(**{"server.token": TOKEN, "server.body_bytes": 1024})

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b" " * 100

    async with client_of(create_api(app), **HEADERS) as api:
        problem(await api.post(RUNS, content=b" " * 2000, headers=JSON), 413, "body_too_large")
        problem(await api.post(RUNS, content=chunks(), headers=JSON), 413, "body_too_large")


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"nonsense", b"\xff\xfe", b'{"job": NaN}', b'{"job": "\\u0000"}',
        b'{"job": "\\ud800"}', b"[" * 100_000, b"1" * 5000,
        # Read as UTF-16, these would pass the checks that look at the bytes.
        '{"job": "hello\\u0000"}'.encode("utf-16"), '{"job": "hello"}'.encode("utf-16-le"),
        '{"job": "hello"}'.encode("utf-32"), '{"job": "hello"}'.encode("utf-8-sig"),
    ],
)  # fmt: skip
async def test_what_is_no_json_is_refused(api: httpx.AsyncClient, body: bytes) -> None:
    problem(await api.post(RUNS, content=body, headers=JSON), 400, "malformed")


async def test_other_types_and_nul_characters_are_refused(api: httpx.AsyncClient) -> None:
    response = await api.post(RUNS, content=b"job=send", headers={"Content-Type": "text/plain"})
    problem(response, 415, "unsupported_media_type")
    problem(await api.get(f"{RUNS}?job=%00"), 400, "malformed")
    problem(await api.get("/api/v1/jobs/a%00b"), 400, "malformed")


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    async def nothing(*_: Any) -> None: ...

    gate = BodyLimit(nothing, most=10, seconds=0.01)
    with pytest.raises(ProblemError) as raised:
        await gate({"type": "http", "method": "POST", "headers": []}, never, nothing)
    assert raised.value.status_code == 408


@pytest.fixture
def slow_app(make_app: MakeApp) -> rota.App:
    """One failure a second, and two at once."""
    return make_app(**{"server.token": TOKEN, "server.failures_per_second": 1.0})


def guesser_of(api: Any, address: str, **headers: str) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(api, client=(address, 1234))
    return httpx.AsyncClient(transport=transport, base_url="http://rota.test", headers=headers)


async def guesses(client: httpx.AsyncClient, count: int = 4, **headers: str) -> list[int]:
    answers = [await client.get(CONFIG, headers=headers) for _ in range(count)]
    return [one.status_code for one in answers]


async def test_only_failures_are_limited_and_the_token_always_passes(slow_app: rota.App) -> None:
    """From one address: strangers do not lock out whoever has the token."""
    api = create_api(slow_app)
    async with guesser_of(api, "192.0.2.7") as client:
        assert await guesses(client, Authorization="Bearer wrong") == [401, 401, 429, 429]
        late = await client.get(CONFIG)
        problem(late, 429, "too_many_requests")
        assert int(late.headers["retry-after"]) >= 1
        assert await guesses(client, 20, **HEADERS) == [200] * 20
        assert (await client.get("/health")).status_code == 200
    async with guesser_of(api, "192.0.2.8") as other:
        assert await guesses(other, 1) == [401]


@pytest.mark.parametrize("status", [401, 403])
async def test_refusals_of_ones_own_check_are_failures_too(slow_app: rota.App, status: int) -> None:
    def refuse(_: Request) -> str:
        raise HTTPException(status, "not you")

    async with guesser_of(create_api(slow_app, authenticate=refuse), "192.0.2.7") as client:
        assert await guesses(client) == [status, status, 429, 429]


async def test_a_forged_header_is_not_believed(slow_app: rota.App) -> None:
    """Neither from elsewhere nor from this machine."""
    api = create_api(slow_app)
    for address in ("192.0.2.7", "127.0.0.1", "::1"):
        async with guesser_of(api, address) as client:
            names = ("X-Forwarded-For", "Forwarded", "X-Real-IP")
            codes = [
                (await client.get(CONFIG, headers=dict.fromkeys(names, f"198.51.100.{number}")))
                for number in range(4)
            ]
            assert [one.status_code for one in codes] == [401, 401, 429, 429]


async def test_trusted_proxies_say_who_asks(make_app: MakeApp) -> None:
    app = make_app(
        **{
            "server.token": TOKEN,
            "server.failures_per_second": 1.0,
            "server.trusted_proxies": ["10.0.0.0/8"],
        }
    )
    async with guesser_of(create_api(app), "10.1.1.1") as proxy:
        assert await guesses(proxy, **{"X-Forwarded-For": "192.0.2.7"}) == [401, 401, 429, 429]
        assert await guesses(proxy, 1, **{"X-Forwarded-For": "192.0.2.8"}) == [401]
        # What the client has written stands to the left of what the proxy wrote.
        assert await guesses(proxy, 1, **{"X-Forwarded-For": "192.0.2.9, 192.0.2.7"}) == [429]


async def test_no_authorization_header_is_an_error(slow_app: rota.App) -> None:
    api = create_api(slow_app)
    right = f"Bearer {TOKEN}".encode()
    for number, given in enumerate(ODD_AUTHORIZATION):
        async with guesser_of(api, f"192.0.2.{number}") as client:
            headers: list[tuple[bytes, bytes]] = [(b"Authorization", one) for one in given]
            response = await client.get(CONFIG, headers=headers)
            assert response.status_code == (200 if given == [right] else 401), given


ODD_AUTHORIZATION: list[list[bytes]] = [
    [],
    [b""],
    [b" "],
    [b"Bearer"],
    [b"Bearer "],
    [b"bearer  "],
    [b"Bearer\t" + TOKEN.encode()],
    [b"Bearer \xff\xfe"],
    [b"\xff\xfe " + TOKEN.encode()],
    [b"Basic " + TOKEN.encode()],
    [TOKEN.encode()],
    [b"Bearer " + TOKEN.encode() + b"\x00"],
    [b"Bearer " + TOKEN.encode() * 1000],
    [f"Bearer {TOKEN}, Bearer {TOKEN}".encode()],
    [f"Bearer {TOKEN}".encode(), b"Bearer wrong"],
    [b"Bearer wrong", f"Bearer {TOKEN}".encode()],
    [f"Bearer {TOKEN}".encode()],
]


async def test_a_token_may_hold_any_letter(make_app: MakeApp) -> None:
    token = "zwölf Boxkämpfer"
    async with client_of(create_api(make_app(**{"server.token": token}))) as client:
        headers: Any = [(b"Authorization", f"Bearer {token}".encode())]
        assert (await client.get(CONFIG, headers=headers)).status_code == 200


def test_buckets_refill_and_do_not_pile_up() -> None:
    now = [0.0]
    rate = RateLimit(10, now=lambda: now[0])
    for _ in range(20):
        rate.take("ada")
    with pytest.raises(ProblemError):
        rate.take("ada")
    rate.take("bob")
    now[0] = 0.1
    rate.take("ada")
    for number in range(20_000):
        rate.take(str(number))
    assert len(rate._buckets) == 10_000


async def test_a_statement_that_takes_too_long_is_given_up(
    make_app: MakeApp, conn: psycopg.Connection[Any]
) -> None:
    app = make_app(**{"server.token": TOKEN, "server.statement_seconds": 0.2})
    await app.database.open()
    with psycopg.connect(app.database.url) as blocker:
        blocker.execute("LOCK TABLE rota.queues IN ACCESS EXCLUSIVE MODE")
        async with client_of(create_api(app), **HEADERS) as api:
            response = await api.post("/api/v1/queues/mail/pause")
            problem(response, 504, "database_timeout")
        blocker.rollback()
    # The limit ends with its transaction.
    async with app.database.connection() as own:
        shown = await (await own.execute("SHOW statement_timeout")).fetchone()
    assert shown == ("0",)


async def test_a_database_that_is_away(make_app: MakeApp) -> None:
    app = rota.App("postgresql://nobody@127.0.0.1:1/nowhere", server={"token": TOKEN})
    async with client_of(create_api(app), **HEADERS) as api:
        response = await api.get("/api/v1/runs")
        found = problem(response, 503, "database_unavailable")
        assert "127.0.0.1" not in found["detail"]
        problem(await api.get("/ready"), 503, "not_ready")
        assert (await api.get("/health")).status_code == 200
    await app.close()


async def test_a_schema_that_is_too_old_is_not_ready(
    shop: rota.App, conn: psycopg.Connection[Any]
) -> None:
    async with client_of(create_api(shop), **HEADERS) as api:
        assert (await api.get("/ready")).status_code == 200
        conn.execute("DELETE FROM rota.migrations")
        problem(await api.get("/ready"), 503, "not_ready")
