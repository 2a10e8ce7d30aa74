"""Serves the API on a socket, inside an event loop that the caller runs."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Generator
from functools import partial
from typing import Any, Protocol

from starlette.datastructures import State
from starlette.types import Receive, Scope, Send

from rota.api.addresses import Addresses, BehindProxies
from rota.errors import ConfigError
from rota.extras import needing

with needing("server", "the API"):
    import uvicorn

    from rota.api.connections import Connection, Room, find_places

_GRACE_SECONDS = 10
_UNREAD_SECONDS = 30


def listen(host: str, port: int) -> socket.socket:
    """Bind before anything else starts, so that a port in use is reported at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol: asyncio disables Nagle's algorithm only for sockets that name it, and the
    # delay costs each response 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # a vanished client must not keep its stream
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * _UNREAD_SECONDS)
        bound.bind((host, port))
        bound.listen()
        return bound
    except OSError as error:
        bound.close()
        raise ConfigError(
            f"cannot listen on {host}, port {port}: {error.strerror or error}",
            hint="choose another --port, or [server] port",
        ) from None


def listen_near(host: str, port: int, tries: int = 20) -> socket.socket:
    """Return the port, or one of the next if it is in use."""
    for offset in range(tries):
        with contextlib.suppress(ConfigError):
            return listen(host, port + offset)
    return listen(host, 0)


def address(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class _Uvicorn(uvicorn.Server):
    """Leaves signals to the code that runs the event loop."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Served(Protocol):
    """An ASGI application whose `state.rota` is an ApiState."""

    state: State

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...


class ApiServer:
    """`async with ApiServer(api, socket): …` serves until the block is left, then in order: streams
    end, requests under way are answered, connections are closed."""

    def __init__(self, api: Served, bound: socket.socket) -> None:
        self._api = api
        self._socket = bound
        settings = api.state.rota.app.config.server
        places = find_places(settings.max_connections)
        self._room = Room(places.connections, settings.header_seconds, _UNREAD_SECONDS)
        http: Any = partial(Connection, room=self._room)
        self._server = _Uvicorn(
            uvicorn.Config(
                BehindProxies(api, Addresses(settings.trusted_proxies)),
                http=http,
                backlog=places.in_line,
                log_config=None,
                # Its warnings are about malformed requests: any client could fill the disk with
                # them.
                log_level="error",
                access_log=False,
                # `server.trusted_proxies` says which proxies to trust; uvicorn trusts this machine.
                proxy_headers=False,
                lifespan="off",
                ws="none",
                server_header=False,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> ApiServer:
        self._task = asyncio.create_task(self.serve(), name="rota api")
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.stop()
        if self._task is not None:
            await self._task

    async def serve(self) -> None:
        """Serve until `stop`."""
        keeping = asyncio.create_task(self._room.keep(), name="rota api connections")
        try:
            await self._server.serve(sockets=[self._socket])
        finally:
            keeping.cancel()
            self._socket.close()

    def stop(self) -> None:
        """Stop; the second call does not wait for requests."""
        if self._server.should_exit:
            self._server.force_exit = True
        self._api.state.rota.stopping.set()
        self._server.should_exit = True
