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
    api = create_api(app)
    api.openapi()  # takes a while: nobody shall wait for it over the socket
    server = ApiServer(api, bound)

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
