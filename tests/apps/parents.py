"""A job that asks for another one from a process of its own."""

from __future__ import annotations

from tests.apps.making import make_app

app = make_app()


@app.job
async def leaf() -> None: ...


@app.job(executor="process")
def ask_apart() -> None:
    leaf.enqueue_sync()
