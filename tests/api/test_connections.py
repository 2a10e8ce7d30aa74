"""Connections of strangers, over real sockets to a real `rota server`."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from itertools import count
from typing import Any

import httpx
import pytest

import rota
from rota.api import create_api
from rota.api.connections import Room, find_places
from rota.api.serve import ApiServer, address, listen
from rota.testing import eventually
from tests.api.conftest import HEADERS
from tests.api.programs import LOOPS, TOKEN, Served, here, serve

__all__ = ["here", "serve"]
Serve = Callable[..., Served]

PATIENCE = 60
GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n"
BEARER = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
HALF = GET % b"/health" + b"X-Half: "
HALF_BODY = b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\ntoken="
AFTER_401 = b"POST /api/v1/runs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"


@contextlib.contextmanager
def dialled(port: int, data: bytes = b"") -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as one:
        one.sendall(data)
        yield one


def ask(port: int, data: bytes) -> bytes:
    """What is answered, up to its headers; empty if nothing is."""
    with dialled(port, data) as one:
        return _head(one)


def _head(one: socket.socket) -> bytes:
    found = b""
    with contextlib.suppress(ConnectionError):
        while b"\r\n\r\n" not in found and (more := one.recv(65_536)):
            found += more
    return found


def status(answer: bytes) -> int:
    return int(answer.split()[1]) if answer.startswith(b"HTTP/1.1 ") else 0


def health(port: int) -> int:
    return status(ask(port, GET % b"/health" + b"\r\n"))


def is_ended(one: socket.socket) -> bool:
    """Waits for the other side to close it."""
    with contextlib.suppress(ConnectionError):
        while one.recv(65_536):
            pass
    return True


@pytest.mark.slow
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize(("files", "many"), [(None, 1500), (256, 600)])
@pytest.mark.parametrize("half", [HALF, HALF_BODY], ids=["header", "body"])
def test_half_open_connections_keep_nobody_out(
    serve: Serve, loop: str, files: int | None, many: int, half: bytes
) -> None:
    server = serve(
        "server", "--port", "0", loop=loop, files=files,
        ROTA_SERVER_TOKEN=TOKEN, ROTA_SERVER_HEADER_SECONDS="1",
    )  # fmt: skip
    port = server.port
    with contextlib.ExitStack() as stack:
        half_open = []
        for number in range(many):
            half_open.append(stack.enter_context(dialled(port, half)))
            if number % 100 == 0:
                assert health(port) == 200
        assert health(port) == 200
        with httpx.Client(base_url=server.url, headers=HEADERS, timeout=PATIENCE) as operator:
            assert operator.get("/api/v1/jobs").status_code == 200
        if half is HALF:
            assert all(is_ended(one) for one in half_open)
    assert health(port) == 200
    assert server.stop() == 0
    assert "Traceback" not in server.output


@pytest.mark.parametrize("loop", LOOPS)
def test_whoever_sends_bit_by_bit_gets_no_more_time(serve: Serve, loop: str) -> None:
    """Of headers; after an answer, of the next ones; and of a body that nobody wants."""
    server = serve(
        "server", "--port", "0", loop=loop,
        ROTA_SERVER_TOKEN=TOKEN, ROTA_SERVER_HEADER_SECONDS="0.5",
    )  # fmt: skip
    answered = GET % b"/health" + b"\r\n"
    for begin, drip in ((b"", HALF), (answered, HALF), (AFTER_401, b"1\r\na\r\n")):
        with dialled(server.port, begin) as one:
            if begin:
                assert _head(one)
            one.settimeout(0.02)
            for number in count():
                try:
                    one.sendall(drip[number % len(drip) :][:1])
                    if not one.recv(65_536):
                        break
                except TimeoutError:
                    continue
                except ConnectionError:
                    break
    assert health(server.port) == 200
    assert "Traceback" not in server.output


ODD_HOSTS = (
    b"[::1", b"[::1]x", b"::1", b"[", b"]", b"localhost:99999999", b"localhost:x", b"a:b:c", b"",
    b"\xff\xfe", b"localhost@evil.example", b"localhost.evil.example", b"evil.example",
    b"127.0.0.1.evil.example", b"localhost/", b"localhost?", b"[v1.x]", b"%31",
)  # fmt: skip
TWO_LENGTHS = b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n"
# It depends on how much of it comes at once.
TOO_LARGE = (400, 431)
ODD_REQUESTS: tuple[tuple[bytes, int | tuple[int, ...]], ...] = (
    (b"GET /api/v1/jobs/%zz HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/jobs/%ff%fe HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/jobs/%ed%a0%80 HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/jobs/a%2fb%ff HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/jobs/% HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/runs?job=%ff HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/runs?%c3=%28 HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/runs?job=%u1234 HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /api/v1/jobs/z%C3%BC%25 HTTP/1.1\r\nHost: a\r\n", 404),
    (b"GET /api/\xff HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET http://[::1/health HTTP/1.1\r\nHost: a\r\n", 400),
    (b"OPTIONS * HTTP/1.1\r\nHost: a\r\n", 400),
    (b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /sign-in?next=%ff HTTP/1.1\r\nHost: a\r\n", 400),
    (b"GET /sign-in HTTP/1.1\r\nHost: a\r\nCookie: \xff=;;rota_session=\xff.\xff\r\n", 200),
    (b"GET /runs HTTP/1.1\r\nHost: a\r\nCookie: rota_session=e30.e30\r\n", 303),
    (b"POST /sign-in HTTP/1.1\r\nHost: a\r\nOrigin: http://[\r\nContent-Length: 0\r\n", 403),
    (b"POST /sign-in HTTP/1.1\r\nHost: a\r\nContent-Length: 20000\r\n", 413),
    (b"POST /runs HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n", 303),
    (b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n", 400),
    (b"GET /health HTTP/1.1\r\n", 400),
    (b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 200_000 + b"\r\n", TOO_LARGE),
    (b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: a\r\n" * 10_000, TOO_LARGE),
    (b"GET /health HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n", 200),
    (b"GET /api/v1/stream HTTP/1.1\r\nHost: a\r\nLast-Event-ID: \xff\r\n", 200),
    (b"POST /api/v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n", 400),
    (b"POST /api/v1/runs HTTP/1.1\r\nHost: a\r\n" + TWO_LENGTHS, 400),
    (b"POST /sign-in HTTP/1.1\r\nHost: a\r\n" + TWO_LENGTHS, 400),
    (b"POST /api/v1/runs HTTP/1.1\r\nHost: a\r\nIdempotency-Key: \xff\r\n", 422),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n", 400),
)  # fmt: skip


@pytest.mark.parametrize("loop", LOOPS)
def test_requests_that_make_no_sense(serve: Serve, loop: str) -> None:
    """Each is told so, none is an error of the server, and none of them fills its log."""
    server = serve("server", "--port", "0", loop=loop, ROTA_SERVER_TOKEN=TOKEN)
    port = server.port
    for request, expected in ODD_REQUESTS:
        wanted = expected if isinstance(expected, tuple) else (expected,)
        assert status(ask(port, request + BEARER + b"\r\n")) in wanted, request[:100]
    for host in ODD_HOSTS:
        for path, expected in ((b"/api/v1/config", 200), (b"/runs?a=b", 303), (b"/sign-in", 200)):
            request = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\n"
            assert status(ask(port, request + BEARER + b"\r\n")) == expected, host
    with dialled(port, GET % b"/health" + TWO_LENGTHS + b"\r\n") as one:
        assert status(_head(one)) == 400
        assert is_ended(one)
    with dialled(port, AFTER_401) as one:
        assert status(_head(one)) == 401
        one.sendall(b"no chunk\r\n")
        assert is_ended(one)
    lines = server.output.splitlines()
    assert [line for line in lines if not line.startswith("rota server on ")] == []


def test_dev_answers_to_no_host_without_its_token(serve: Serve, here: Any) -> None:
    (here / "jobs.py").write_text("import rota\napp = rota.App()\n")
    dev = serve("dev", "jobs.py", "--no-reload")
    request = b"GET /api/v1/config HTTP/1.1\r\nHost: %s\r\n\r\n"
    for host in (*ODD_HOSTS, b"localhost", b"127.0.0.1:1", b"[::1]:80"):
        # One after another: so many failures in a second are refused for that.
        assert status(ask(dev.port, request % host)) in (401, 429), host
    assert "Traceback" not in dev.output


class Open:
    """A server in this process, with a room that loses patience soon."""

    def __init__(self, server: ApiServer, port: int, room: Room) -> None:
        self.server, self.port, self.room = server, port, room


@pytest.fixture
async def impatient(shop: rota.App) -> AsyncIterator[Open]:
    bound = listen("127.0.0.1", 0)
    async with ApiServer(create_api(shop), bound) as server:
        room = server._room
        room._unread_seconds = 0.2
        yield Open(server, int(address(bound).rpartition(":")[2]), room)


@pytest.mark.slow
async def test_whoever_does_not_read_is_let_go(impatient: Open) -> None:
    """Also where it takes many small answers to fill what the system keeps for them."""
    for path, headers in ((b"/api/openapi.json", BEARER), (b"/nowhere", b"")):
        request = GET % path + headers + b"\r\n"
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            one.connect(("127.0.0.1", impatient.port))
            one.setblocking(False)
            await eventually(lambda one=one, data=request * 100: _is_let_go(one, data))
        await eventually(lambda: not impatient.room._all)


def _is_let_go(one: socket.socket, data: bytes) -> bool:
    try:
        one.send(data)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return False


async def test_a_newcomer_takes_the_place_of_the_longest_silent(impatient: Open) -> None:
    impatient.room._places = 3
    url = f"http://127.0.0.1:{impatient.port}"
    async with (
        httpx.AsyncClient(base_url=url, headers=HEADERS, timeout=PATIENCE) as client,
        client.stream("GET", "/api/v1/stream") as busy,
    ):
        with dialled(impatient.port, HALF) as first:
            await eventually(lambda: len(impatient.room._all) == 2)
            with dialled(impatient.port, HALF) as second:
                await eventually(lambda: len(impatient.room._all) == 3)
                assert (await client.get("/health")).status_code == 200
                assert is_ended(first)
                second.settimeout(0)
                with pytest.raises(BlockingIOError):
                    second.recv(1)
        assert await anext(busy.aiter_lines()) == ": connected"


def test_as_many_places_as_files_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    limits = [(1024, 1024)]
    monkeypatch.setattr("resource.getrlimit", lambda _: limits[0])
    monkeypatch.setattr("resource.setrlimit", lambda _, given: asked.append(given))
    assert find_places(100).connections == 100
    small = find_places(1000)
    assert small.connections + small.in_line < 1024 - 64
    limits[0] = (1024, 1_000_000)
    assert find_places(1000) == (1000, 512)
    limits[0] = (-1, -1)
    assert find_places(1000) == (1000, 512)
    assert all(soft <= hard for soft, hard in asked)
