"""The first job, as in the README: enqueue a run, execute it here, print its result."""

from __future__ import annotations

import asyncio

import rota

app = rota.App()  # no database configured: an embedded Postgres


@app.job
async def greet(name: str) -> str:
    return f"Hello, {name}!"


async def main() -> None:
    async with app, app.worker():
        run = await greet.enqueue("world")
        print(await run.wait(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
