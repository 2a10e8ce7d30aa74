"""The network between a program and its database, which a test may break.

States hold until `heal()`: `freeze`, `delay`, `refuse`. Accidents happen once, to the connections
that exist: `reset`, `half_open`, `cut`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit, urlunsplit
from weakref import WeakSet

from tests.ports import free_port

T = TypeVar("T")
Way = Literal["to_server", "to_client"]
_NO_LINGER = struct.pack("ii", 1, 0)
_LAST_LOOKS = 10


class Proxy:
    """Forwards from a port of its own to the server of `url`; its thread ends with `close()`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.port = free_port()
        self._upstream = (parts.hostname or "127.0.0.1", parts.port or 5432)
        account, _, _ = parts.netloc.rpartition("@")
        self.url = urlunsplit(parts._replace(netloc=f"{account}@127.0.0.1:{self.port}"))
        self._links: set[_Link] = set()
        self._writers: WeakSet[asyncio.StreamWriter] = WeakSet()
        self._network: _Network
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._do(self._open())

    @property
    def connections(self) -> int:
        """Those that still forward."""
        return self._do(self._count())

    def freeze(self) -> None:
        """Nothing passes either way, nothing is lost: what was sent arrives after `heal()`."""
        self._tell(lambda: self._network.flows.clear())

    def delay(self, seconds: float) -> None:
        """Whatever passes takes longer."""
        self._tell(lambda: setattr(self._network, "delay", seconds))

    def refuse(self) -> None:
        """New connections are refused; those that exist go on."""
        self._do(self._stop_listening())

    def heal(self) -> None:
        """Back to normal. What an accident has ended stays ended."""
        self._do(self._heal())

    def reset(self) -> int:
        """Every connection is torn down by RST, on both sides. How many there were."""
        return self._each(_Link.reset)

    def reset_half_open(self) -> int:
        """What was half-open is torn down at last."""
        return self._each(_Link.reset, whole=False)

    def half_open(self) -> int:
        """The server's side goes away and the client is never told, as behind a router that
        forgot the connection: what the client sends is swallowed."""
        return self._each(_Link.half_open)

    def cut(self, after: int = 0, way: Way = "to_client") -> int:
        """Every connection ends by RST after `after` more bytes this way, in whatever message."""
        return self._each(lambda link: link.cut(after, way))

    def close(self) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # What follows runs in the proxy's own thread.

    def _do(self, body: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(body, self._loop).result(30)

    def _tell(self, change: Callable[[], None]) -> None:
        async def body() -> None:
            change()

        self._do(body())

    def _each(self, accident: Callable[[_Link], None], whole: bool = True) -> int:
        async def body() -> int:
            struck = [link for link in self._links if link.is_whole is whole]
            for link in struck:
                accident(link)
            return len(struck)

        return self._do(body())

    async def _count(self) -> int:
        return sum(link.is_whole for link in self._links)

    async def _open(self) -> None:
        self._network = _Network()
        self._server: asyncio.Server | None = None
        await self._listen()

    async def _listen(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _heal(self) -> None:
        self._network.delay = 0.0
        self._network.flows.set()
        await self._listen()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link(self._network, writer)
        self._links.add(link)
        self._writers.add(writer)
        try:
            # A frozen network answers a connection's first packet as little as any other.
            await self._network.flows.wait()
            upstream = await asyncio.open_connection(*self._upstream)
            self._writers.add(upstream[1])
            await link.forward(reader, upstream)
        except OSError:
            link.reset()
        finally:
            self._links.discard(link)

    async def _close(self) -> None:
        await self._stop_listening()
        self._network.flows.set()
        for _ in range(_LAST_LOOKS):
            for link in list(self._links):
                link.reset()
            # A link that has ended may leave a writer that nobody reads from.
            for writer in list(self._writers):
                _abort(writer)
            waiting = asyncio.all_tasks() - {asyncio.current_task()}
            if not waiting:
                return
            # One that was accepted at the last moment comes after another task.
            await asyncio.wait(waiting, timeout=1)


class _Network:
    """What holds for all connections."""

    def __init__(self) -> None:
        self.flows = asyncio.Event()
        self.flows.set()
        self.delay = 0.0


class _Link:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, network: _Network, client: asyncio.StreamWriter) -> None:
        self._network = network
        self._client = client
        self._server: asyncio.StreamWriter | None = None
        self._budget: dict[Way, int | None] = {"to_server": None, "to_client": None}
        self.is_whole = True

    async def forward(
        self,
        client: asyncio.StreamReader,
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        server, self._server = upstream
        if not self.is_whole:  # it was reset before it was whole
            _abort(self._server)
            return
        await asyncio.gather(
            self._pump(client, self._server, "to_server"),
            self._pump(server, self._client, "to_client"),
        )

    async def _pump(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, way: Way
    ) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._network.flows.wait()
                if self._network.delay:
                    await asyncio.sleep(self._network.delay)
                if self.is_whole:
                    self._send(target, data, way)
                    await target.drain()
        await self._network.flows.wait()
        # The end of a connection, too, has to get through.
        if self.is_whole or way == "to_server":
            self.is_whole = False
            for writer in filter(None, (self._client, self._server)):
                writer.close()

    def _send(self, target: asyncio.StreamWriter, data: bytes, way: Way) -> None:
        left = self._budget[way]
        if left is None:
            target.write(data)
        elif len(data) < left:
            self._budget[way] = left - len(data)
            target.write(data)
        else:
            target.write(data[:left])
            self.reset()

    def cut(self, after: int, way: Way) -> None:
        self._budget[way] = after
        if after == 0:
            self.reset()

    def half_open(self) -> None:
        self.is_whole = False
        if self._server is not None:
            _abort(self._server)

    def reset(self) -> None:
        self.is_whole = False
        for writer in filter(None, (self._client, self._server)):
            _abort(writer)


def _abort(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with suppress(OSError, AttributeError):  # it may have been closed
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    writer.transport.abort()
