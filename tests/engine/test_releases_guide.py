"""docs/guides/releases.md, followed with two releases whose workers are real processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rota
from rota.testing import eventually
from tests.apps import welcome
from tests.conftest import load_config
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

StartWorker = Callable[..., WorkerProcess]


@pytest.fixture
async def releases(app_url: str) -> Any:
    """What web processes of the two releases have."""
    apps = [rota.App(config=load_config(app_url, {}), name="tests") for _ in range(2)]
    yield welcome.first(apps[0]), welcome.second(apps[1]), apps[1]
    for app in apps:
        await app.close()


async def _enqueue(old: dict[str, Any], new: dict[str, Any]) -> dict[Any, set[str]]:
    """One of everything by each release, and by plain callers; with what may come out."""
    return {
        await old["optional"].enqueue(n=1): {"1 1", "2 1 en"},
        await new["optional"].enqueue(n=2): {"1 2", "2 2 en"},
        await new["optional"].enqueue(n=3, language="de"): {"2 3 de"},
        await old["required"].enqueue(n=4): {"1 4", "2 4 en"},
        await new["required"].enqueue(n=5, language="de"): {"2 5 de"},
        await old["renamed"].enqueue(user="6"): {"1 6", "2 6"},
        await old["renamed"].enqueue(user="7", is_test=True): {"1 7", "2 7"},
        await new["renamed"].enqueue(user_id=8): {"2 8"},
        await old["send_welcome"].enqueue(n=9): {"1 9", "2 9"},
        await new["greet_user"].enqueue(n=10): {"2 10"},
    }


async def _stop(worker: WorkerProcess) -> None:
    worker.terminate()
    await eventually(lambda: worker.returncode is not None, 60)


async def _ended(expected: dict[Any, set[str]], engine: Engine) -> None:
    for run, results in expected.items():
        assert await run.wait(60) in results
        assert engine.run(run.id)["attempts_used"] == 1


@pytest.mark.parametrize("order", ["workers first", "web first"])
async def test_a_rolling_deployment_loses_no_run(
    releases: tuple[dict[str, Any], dict[str, Any], rota.App],
    worker_process: StartWorker,
    engine: Engine,
    order: str,
) -> None:
    old, new, app = releases
    before = worker_process("tests.apps.welcome_first:app")
    assert await (await old["required"].enqueue(n=0)).wait(30) == "1 0"
    schedule = engine.one("SELECT id FROM rota.schedules WHERE name = 'send_welcome'")
    waiting = {
        await old["required"].options(delay=2).enqueue(n=20): {"1 20", "2 20 en"},
        await old["send_welcome"].options(delay=2, key="k").enqueue(n=21): {"1 21", "2 21"},
    }
    if order == "web first":
        # Nobody can take it yet; it waits, and says why.
        early = await new["optional"].enqueue(n=30, language="de")
        await eventually(lambda: engine.run(early.id)["held_by"] == "payload", 30)
        codes = [reason.code for reason in (await app.why(early.id)).reasons]
        assert "payload_refused" in codes
        waiting[early] = {"2 30 de"}
    after = worker_process("tests.apps.welcome_second:app")
    await _ended(await _enqueue(old, new), engine)
    await _stop(before)
    await _ended(waiting | await _enqueue(old, new), engine)
    # The job has its new name, with its schedule; who names the old one means it.
    found = engine.rows("SELECT id, name, job FROM rota.schedules WHERE job = 'greet_user'")
    assert found == [{"id": schedule, "name": "greet_user", "job": "greet_user"}]
    assert engine.one("SELECT count(*) FROM rota.jobs WHERE name = 'send_welcome'") == 0
    assert engine.one("SELECT count(*) FROM rota.runs WHERE state <> 'succeeded'") == 0
    listed = [len(await app.runs.list(job=it, limit=50)) for it in ("send_welcome", "greet_user")]
    assert listed == [5, 5]
    assert after.returncode is None


async def test_a_roll_back_holds_what_only_the_new_release_takes(
    releases: tuple[dict[str, Any], dict[str, Any], rota.App],
    worker_process: StartWorker,
    engine: Engine,
) -> None:
    old, new, _ = releases
    await _stop(worker_process("tests.apps.welcome_first:app"))
    first = worker_process("tests.apps.welcome_second:app")
    assert await (await new["required"].enqueue(n=1, language="de")).wait(30) == "2 1 de"
    await _stop(first)
    run = await new["required"].enqueue(n=2, language="de")
    moved = await new["greet_user"].enqueue(n=3)
    worker_process("tests.apps.welcome_first:app")
    assert await moved.wait(30) == "1 3"
    await eventually(lambda: engine.run(run.id)["held_by"] == "payload", 30)
    assert await (await old["required"].enqueue(n=4)).wait(30) == "1 4"
    worker_process("tests.apps.welcome_second:app")
    assert await run.wait(30) == "2 2 de"
