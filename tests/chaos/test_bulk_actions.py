"""A bulk action goes on after the worker that carries it out was killed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually
from tests.workers import WorkerProcess

pytestmark = [pytest.mark.chaos, pytest.mark.slow]
RUNS = 3000


async def test_kill_9_loses_no_run_and_does_none_twice(
    app: rota.App,
    conn: psycopg.Connection[tuple[Any, ...]],
    worker_process: Callable[..., WorkerProcess],
) -> None:
    @app.job(name="wait", queue="nobody")
    async def wait() -> None: ...

    await app.enqueue_many(wait.call() for _ in range(RUNS))
    first = worker_process("tests.apps.basic:app", **{"worker.queues": ["default"]})
    action = await app.bulk.start("cancel", job="wait", rate=2000)

    async def is_under_way() -> bool:
        return (await app.bulk.get(action.id)).done > 0

    await eventually(is_under_way)
    first.kill()
    cut = await app.bulk.get(action.id)
    assert 0 < cut.done < RUNS, "killed in the middle"
    done = conn.execute(
        "SELECT count(*), count(DISTINCT object_id) FROM rota.audit WHERE action = 'run.cancelled'"
    ).fetchone()
    assert done == (cut.done, cut.done), "counts and deeds are one"

    worker_process("tests.apps.basic:app", **{"worker.queues": ["default"]})

    async def is_over() -> bool:
        return (await app.bulk.get(action.id)).state == "finished"

    await eventually(is_over, 60)
    ended = await app.bulk.get(action.id)
    assert (ended.done, ended.skipped, ended.failed, ended.total) == (RUNS, 0, 0, RUNS)
    done = conn.execute(
        "SELECT count(*), count(DISTINCT object_id) FROM rota.audit WHERE action = 'run.cancelled'"
    ).fetchone()
    assert done == (RUNS, RUNS)


async def test_two_workers_share_it_without_doing_a_run_twice(
    app: rota.App,
    conn: psycopg.Connection[tuple[Any, ...]],
    worker_process: Callable[..., WorkerProcess],
) -> None:
    @app.job(name="wait", queue="nobody")
    async def wait() -> None: ...

    await app.enqueue_many(wait.call() for _ in range(1000))
    for _ in range(2):
        worker_process("tests.apps.basic:app", **{"worker.queues": ["default"]})
    action = await app.bulk.start("cancel", job="wait")
    ended = await app.bulk.carry_out(action.id)
    assert (ended.done, ended.skipped) == (1000, 0)
    done = conn.execute("SELECT count(*) FROM rota.audit WHERE action = 'run.cancelled'").fetchone()
    assert done == (1000,)
