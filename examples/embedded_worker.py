"""A worker inside your own program, here beside a function that stands for a web server."""

from __future__ import annotations

import asyncio

import rota

app = rota.App(worker={"concurrency": 4})


@app.job(max_attempts=3, backoff={"base": 0.1, "jitter": 0})
async def fetch(ctx: rota.Context, page: int) -> int:
    ctx.log.info("fetching", page=page)
    if ctx.attempt == 1 and page == 2:
        raise ConnectionError("connection refused")  # retried after the backoff
    return page * page


async def serve() -> list[int]:
    """Handles a request: enqueues a few runs and waits for their results."""
    runs = await app.enqueue_many(fetch.call(page) for page in range(5))
    answers: list[int] = await asyncio.gather(*(run.wait(timeout=30) for run in runs))
    return answers


async def main() -> None:
    async with app, app.worker():
        print(await serve())
    # Leaving the block stops the worker: running attempts may finish, waiting runs stay queued.


if __name__ == "__main__":
    asyncio.run(main())
