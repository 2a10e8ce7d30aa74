"""Jobs that need no help from a test."""

from __future__ import annotations

from tests.apps.run import make_app

app = make_app()


@app.job
async def add(a: int, b: int) -> int:
    return a + b
