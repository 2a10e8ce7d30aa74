"""Fields that SQL has are shown by the faces too."""

from __future__ import annotations

import rota
from rota.testing import eventually
from tests.conftest import MakeApp


async def test_a_worker_says_the_release_of_its_application(make_app: MakeApp) -> None:
    app = make_app(release="v7")

    @app.job
    async def work() -> None: ...

    async with app.worker():
        (worker,) = await app.workers.list()
        assert (worker.release, worker.version) == ("v7", rota.__version__)


async def test_a_job_says_when_it_ran_and_will_run(make_app: MakeApp) -> None:
    app = make_app()

    @app.job(schedules=[rota.every(3600)])
    async def work() -> None: ...

    found = await app.jobs.get("work")
    assert (found.last_run_at, found.is_system) == (None, False)
    assert found.definition_hash
    async with app.worker():
        run = await work.enqueue()
        await run.wait(20)
        info = await run.info()

        async def is_known() -> bool:
            return (await app.jobs.get("work")).next_run_at is not None

        await eventually(is_known)
    found = await app.jobs.get("work")
    assert found.last_run_at == info.finished_at
    assert found.next_run_at == (await app.schedules.get("work")).next_run_at
    assert [one.is_system for one in await app.jobs.list(system=True)].count(True) > 0


async def test_an_occurrence_says_when_it_was_claimed(make_app: MakeApp) -> None:
    app = make_app()

    @app.job(schedules=[rota.on_start("start")])
    async def work() -> None: ...

    async with app.worker():

        async def has_run() -> bool:
            return bool(await app.schedules.history("work"))

        await eventually(has_run)
    (one,) = await app.schedules.history("work")
    assert one.claimed_at <= one.decided_at
