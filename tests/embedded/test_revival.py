"""A killed embedded server is started again by who uses it."""

from __future__ import annotations

from pathlib import Path

import psutil

import rota
from tests.embedded.places import server_pid


def kill(app: rota.App) -> None:
    assert app.embedded_home is not None
    server = psutil.Process(server_pid(app.embedded_home))
    backends = server.children(recursive=True)
    server.kill()
    # A backend notices that it is alone after a moment; one that is used before that has an error.
    psutil.wait_procs([server, *backends], timeout=20)


async def test_by_whoever_enqueues(place: Path) -> None:
    app = rota.App(config=rota.Config.load(env={}, data_dir=place / "data"))

    @app.job
    async def work() -> None: ...

    first = await work.enqueue()
    kill(app)
    second = await work.enqueue()
    kill(app)
    third = work.enqueue_sync()
    assert first.id < second.id < third.id
    assert [run.id for run in await app.runs.list()] == [third.id, second.id, first.id]
    await app.close()


async def test_by_a_worker(place: Path) -> None:
    app = rota.App(config=rota.Config.load(env={}, data_dir=place / "data"))

    @app.job
    async def work(n: int) -> int:
        return n

    async with app.worker():
        assert await (await work.enqueue(n=1)).wait(20) == 1
        kill(app)
        assert await (await work.enqueue(n=2)).wait(60) == 2
    await app.close()
