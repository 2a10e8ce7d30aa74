"""The pages of workers."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.sql_engine import Engine
from tests.web.conftest import Browser


@pytest.fixture
def engine(conn: Any) -> Engine:
    return Engine(conn)


@pytest.fixture
async def worker(shop: rota.App, engine: Engine) -> int:
    """Live, with one run."""
    await shop.runs.enqueue("send", {"user_id": 1})
    worker = engine.worker("send", "clean", queues=["mail"])
    engine.claim(worker, queues=["mail"], jobs=["send"])
    engine.conn.execute(
        "SELECT rota.beat(%s, memory_bytes => 148226048, cpu_seconds => 3661)", [worker]
    )
    return worker


async def test_the_list(web: Browser, worker: int) -> None:
    await web.get("/workers")

    assert f"live w {worker} mail 1 /10 148 MB" in web.text
    assert f'href="/workers/{worker}/drain"' in web.page


async def test_more_workers_than_are_counted(
    web: Browser, worker: int, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.worker("send")
    await web.get("/workers")
    assert "Current 2 " in web.text
    monkeypatch.setattr("rota.web.pages.workers._COUNTED", 1)
    await web.get("/workers")
    assert "Current 1+ " in web.text
    assert "Live 1+ " in web.text


async def test_a_list_of_one_state(web: Browser, worker: int) -> None:
    await web.get("/workers?status=lost&host=web-1")
    assert "No worker is lost on host web-1" in web.text
    assert "Remove the filter host web-1" in web.page, "what narrows is seen"
    await web.get("/workers?status=live&host=host")
    assert f'data-id="{worker}"' in web.page
    await web.get("/workers?status=dreaming", 422)
    assert "unknown state 'dreaming'" in web.text


async def test_no_workers(web: Browser) -> None:
    await web.get("/workers")

    assert "No worker is running, so runs wait" in web.text
    assert "rota worker --app" in web.text


async def test_one_worker(web: Browser, worker: int, engine: Engine) -> None:
    await web.get(f"/workers/{worker}")

    assert "Running 1 of 10 slots" in web.text
    assert "Memory 148 MB its process and its children" in web.text
    assert "1 h 1 min since it started" in web.text
    run = engine.one("SELECT id FROM rota.open_runs")
    assert f'href="/runs/{run}"' in web.page
    assert 'href="/jobs/send"' in web.page
    assert 'href="/queues/mail"' in web.page


async def test_the_release_of_its_application(web: Browser, worker: int, conn: Any) -> None:
    conn.execute("SELECT rota.start_worker(%s, 'shop', 'b1', true, 'v7')", [worker])
    await web.get(f"/workers/{worker}")
    assert "Application shop, release v7" in web.text


async def test_what_blocks_a_worker_comes_first(
    web: Browser, worker: int, engine: Engine, conn: Any
) -> None:
    other = engine.worker("clean")
    conn.execute("UPDATE rota.workers SET is_stuck = true WHERE id = %s", [worker])
    (run,) = conn.execute("SELECT id FROM rota.open_runs WHERE state = 'running'").fetchone()
    await web.get("/workers")
    assert web.page.index(f'data-id="{worker}"') < web.page.index(f'data-id="{other}"')
    assert "Current 2 Stuck 1" in web.text or "Current 2 Live 1 Stuck 1" in web.text
    assert f"Its event loop is blocked by a handler: run {run} of send" in web.text
    await web.get(f"/workers/{worker}")
    assert f'most likely by <a href="/runs/{run}">run {run}</a>' in web.page


async def test_what_failed_there(web: Browser, worker: int, engine: Engine) -> None:
    await web.get(f"/workers/{worker}")
    assert (
        "Recent failures runs whose last attempt was on this worker All its runs None" in web.text
    )
    run = engine.one("SELECT id FROM rota.open_runs")
    (claim,) = engine.rows("SELECT id, attempt FROM rota.open_runs")
    engine.fail(worker, claim, error="<b>no luck")
    await web.get(f"/workers/{worker}")
    assert f"{run} send <b>no luck" in web.text
    assert "<b>no luck" not in web.page


async def test_a_worker_is_stopped(web: Browser, worker: int, shop: rota.App) -> None:
    await web.get(f"/workers/{worker}/stop")
    assert "1 attempt is running now" in web.text
    assert "they are requeued without using an attempt" in web.text
    await web.post(f"/workers/{worker}/stop", reason="it leaks")
    assert "is draining, then stops" in web.text
    found = await shop.workers.get(worker)
    assert (found.is_to_stop, found.is_to_hurry) == (True, False)
    await web.get(f"/workers/{worker}/stop")
    await web.post(f"/workers/{worker}/stop")
    assert f"Worker {worker} was already draining, then stops" in web.text
    await web.get(f"/workers/{worker}/stop")
    await web.post(f"/workers/{worker}/stop", at_once="true")
    assert (await shop.workers.get(worker)).is_to_hurry
    assert f'href="/workers/{worker}/stop"' not in web.page


async def test_one_that_is_lost_cannot_be_told(web: Browser, worker: int, engine: Engine) -> None:
    engine.lose(worker)
    await web.get(f"/workers/{worker}")
    assert "Lost" in web.text
    assert "/drain" not in web.page
    await web.get(f"/workers/{worker}/drain")
    await web.post(f"/workers/{worker}/drain", 422)
    await web.get("/workers/999", 404)


async def test_one_that_sleeps(web: Browser, worker: int, engine: Engine) -> None:
    engine.rows("DELETE FROM rota.open_runs")
    engine.one("SELECT rota.fall_asleep(%s, 600, true)", worker)
    await web.get("/workers?status=asleep")
    assert "It has closed its connections" in web.text
    await web.get(f"/workers/{worker}")
    assert "Asleep" in web.text
    assert "/drain" not in web.page


async def test_what_a_failing_worker_says_is_text(web: Browser, worker: int, conn: Any) -> None:
    conn.execute(
        "UPDATE rota.workers SET trouble = %s, name = %s, host = %s, queues = %s, jobs = %s",
        ["feeder: <b>boom</b>", "<i>w", '"><x', ["<q>/a b"], ["<j>&"]],
    )
    for path in ("/workers", f"/workers/{worker}", f"/workers/{worker}/drain"):
        await web.get(path)
        for bad in ("<b>boom", "<i>w", '"><x', "<q>", "<j>"):
            assert bad not in web.page
    await web.get(f"/workers/{worker}")
    assert "Live, but failing: feeder: <b>boom</b>" in web.text
