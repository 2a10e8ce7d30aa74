"""One file that uses what is installed: a job, an embedded Postgres, the dashboard's page."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

import rota
from rota.web import create_site


async def main(home: Path) -> None:
    app = rota.App(embedded=True, data_dir=home / "postgres", server={"token": "x" * 40})

    @app.job
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    async with app, app.worker():
        run = await greet.enqueue("world")
        assert await run.wait(timeout=60) == "Hello, world!"
    assert await status_of(create_site(app), "/sign-in") == 200
    await app.close()


async def status_of(site: object, path: str) -> int:
    """As a server asks an ASGI application."""
    scope = {
        "type": "http", "method": "GET", "path": path, "raw_path": path.encode(),
        "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
        "http_version": "1.1",
        "root_path": "", "server": ("localhost", 80), "client": ("127.0.0.1", 1), "state": {},
    }  # fmt: skip
    told: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, object]) -> None:
        told.append(message)

    await site(scope, receive, send)  # type: ignore[operator]
    return int(str(told[0]["status"]))


if __name__ == "__main__":
    venv = Path(sys.argv[1]).resolve()
    assert Path(rota.__file__).resolve().is_relative_to(venv), rota.__file__
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o711)
        asyncio.run(main(Path(place)))
