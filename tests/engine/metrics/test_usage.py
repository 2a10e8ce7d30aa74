"""What a worker's process costs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest

import rota
from rota.engine.metrics import usage
from rota.engine.metrics.usage import Usage, measure
from rota.testing import eventually, eventually_sync
from tests.conftest import MakeApp
from tests.engine.processes.test_supervisor import Supervised, supervised
from tests.sql_engine import Engine

__all__ = ["supervised"]

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="read from /proc")


@linux
def test_it_agrees_with_others_who_measure() -> None:
    found, other = measure(os.getpid()), psutil.Process()
    assert found.memory_bytes is not None
    assert found.memory_bytes >= other.memory_info().rss * 0.5
    assert found.cpu_seconds is not None
    times = [other, *other.children(recursive=True)]
    assert 0 < found.cpu_seconds <= sum(sum(time.cpu_times()[:4]) for time in times) + 0.01


@linux
def test_processes_below_count() -> None:
    """A name that looks like another field must not shift them."""
    code = (
        "import sys; data = bytearray(64_000_000); print(len(data), flush=True); sys.stdin.read()"
    )
    before = measure(os.getpid()).memory_bytes or 0
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with_child = measure(os.getpid()).memory_bytes or 0
        alone = measure(child.pid).memory_bytes or 0
        child.communicate(b"")
    assert alone > 64_000_000
    assert with_child > before + 60_000_000
    assert measure(child.pid) == Usage()


def test_elsewhere_only_the_time_is_known(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(usage, "_PROC", tmp_path)
    found = measure(os.getpid())
    assert found.memory_bytes is None
    assert found.cpu_seconds is not None
    assert measure(1) == Usage()


async def test_a_worker_says_it_with_each_beat(make_app: MakeApp) -> None:
    app = make_app(**{"worker.lease_seconds": 3})

    @app.job
    async def work() -> None: ...

    await work.enqueue()
    async with app.worker() as worker:

        async def told() -> None:
            found = await app.workers.get(worker.id or 0)
            assert found.memory_bytes is not None
            assert found.memory_bytes > 10_000_000
            assert found.cpu_seconds is not None
            assert found.cpu_cores is not None

        await eventually(told)


@linux
def test_a_supervisor_measures_each_of_its_workers(supervised: Callable[..., Supervised]) -> None:
    these = supervised()

    def told() -> bool:
        sql = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND memory_bytes > 10000000"
        return these.conn.execute(sql).fetchone() == (2,)

    eventually_sync(told, 60)


async def test_cores_are_what_was_used_since_the_beat_before(app: rota.App, engine: Engine) -> None:
    worker = engine.worker()
    beat = "SELECT rota.beat(%s, memory_bytes => 5000000000, cpu_seconds => %s)"
    engine.conn.execute(beat, [worker, 100.0])
    first = await app.workers.get(worker)
    assert (first.memory_bytes, first.cpu_seconds, first.cpu_cores) == (5_000_000_000, 100.0, None)
    engine.conn.execute(
        "UPDATE rota.workers SET heartbeat_at = clock_timestamp() - interval '10 s'"
    )
    engine.conn.execute(beat, [worker, 115.0])
    second = await app.workers.get(worker)
    assert second.cpu_cores is not None
    assert 1 < second.cpu_cores <= 1.5
    engine.conn.execute(beat, [worker, 7.0])
    assert (await app.workers.get(worker)).cpu_cores is None, "not known"
    engine.conn.execute("SELECT rota.beat(%s)", [worker])  # one that measures nothing
    assert (await app.workers.get(worker)).memory_bytes is None


async def test_what_a_worker_runs(app: rota.App, engine: Engine) -> None:
    engine.job("send")
    runs = [engine.enqueue("send") for _ in range(3)]
    worker, other = engine.worker("send"), engine.worker("send")
    engine.claim(worker, 2, jobs=["send"])
    engine.claim(other, 2, jobs=["send"])
    assert [it.id for it in await app.workers.running(worker)] == runs[:2]
    assert [(it.id, it.attempt) for it in await app.workers.running(other)] == [(runs[2], 1)]
    assert [it.id for it in await app.workers.running(worker, limit=1)] == runs[:1]
    assert await app.workers.running(99) == []
