"""The API behind a real socket, for clients that bring an event loop of their own, or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import rota
from rota.api import create_api
from rota.api.serve import ApiServer, address, listen


@contextmanager
def served(app: rota.App) -> Iterator[str]:
    """The URL of an API that is served from a thread; it ends with the block."""
    bound = listen("127.0.0.1", 0)
    server = ApiServer(create_api(app), bound)

    async def body() -> None:
        try:
            await server.serve()
        finally:
            await app.close()

    thread = threading.Thread(target=lambda: asyncio.run(body()), name="api of a test")
    url = address(bound)
    thread.start()
    try:
        yield url
    finally:
        server.stop()
        thread.join(30)
