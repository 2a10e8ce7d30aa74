"""One row of rota.workers and all that is bound to it: thrown away together when it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from rota.config import Config
from rota.executors.threads import ThreadExecutor
from rota.jobs.registry import Registry
from rota.model.outcome import CUT_OFF
from rota.runtime.attempt import Services, Stop
from rota.runtime.background import Background
from rota.runtime.claiming import ClaimPlan
from rota.runtime.feeder import Feeder
from rota.runtime.health import Health
from rota.runtime.isolation import Isolation
from rota.runtime.lease import Lease
from rota.runtime.parent import Parent
from rota.runtime.retention import served
from rota.runtime.runner import Runner
from rota.runtime.slots import Slots
from rota.runtime.tracing import make_runner
from rota.runtime.waiting import Waiting
from rota.store.feed import Feed
from rota.store.pool import Database
from rota.telemetry.logging import LEVELS, get_logger

_CUT_OFF_SECONDS = 10.0
# A server that does not answer is told nothing: a shutdown does not wait for it.
_SAY_SECONDS = 5.0


class Identity:
    """Slots, feeder, runner and lease of one worker number.

    `on_lost` is called on the event loop, `on_weak` too: it says whether the lease may run out.
    """

    def __init__(
        self,
        worker: int,
        *,
        config: Config,
        database: Database,
        registry: Registry,
        jobs: Sequence[str],
        background: Background,
        threads: ThreadExecutor,
        app_ref: str | None,
        owns_process: bool,
        parent: Parent | None,
        health: Health,
        on_lost: Callable[[], None],
        on_weak: Callable[[bool], None],
    ) -> None:
        self.worker = worker
        self.is_weak = False
        self._is_draining = False
        self._config = config.worker
        self._parent = parent
        self._health = health
        self._log = get_logger("worker")
        self.runner = make_runner(
            config=config,
            registry=registry,
            services=_services(config, database, background),
            worker=worker,
            app_ref=app_ref,
            threads=threads,
            sql_jobs=background.sql_jobs,
        )
        if parent is not None:
            self.runner.running = parent.show()
        self.slots = Slots(config.worker.concurrency, self.runner.run)
        self.feed = Feed(database, worker, jobs)
        self.feeder = self._make_feeder(database, registry, background, on_lost)
        self.runner.serve(self.feeder)
        self.isolation = self._make_isolation(background, app_ref)
        loop = asyncio.get_running_loop()
        self.lease = Lease(
            database,
            worker,
            seconds=config.worker.lease_seconds,
            watched=_Watch(self.feeder, self.runner),
            on_lost=lambda: loop.call_soon_threadsafe(on_lost),
            on_weak=lambda weak: loop.call_soon_threadsafe(on_weak, weak),
            may_exit=owns_process,
            report=lambda: health.report,
        )

    def _make_feeder(
        self,
        database: Database,
        registry: Registry,
        background: Background,
        on_lost: Callable[[], None],
    ) -> Feeder:
        config = self._config
        queues = served(config.queues)
        own = sorted({one.queue or "default" for one in registry})
        return Feeder(
            feed=self.feed,
            second=Feed(database, self.worker, name="rota worker ends"),
            slots=self.slots,
            plan=ClaimPlan(
                concurrency=config.concurrency,
                most=config.claim_size,
                queues=queues or own,
            ),
            waiting=Waiting(poll_seconds=config.poll_seconds, say=self.feed.run),
            rollups=background.rollups,
            queues=queues,
            own_queues=own,
            on_lost=on_lost,
            on_later=background.promoter.wake,
            health=self._health,
            poll_seconds=config.poll_seconds,
        )

    def _make_isolation(self, background: Background, app_ref: str | None) -> Isolation:
        config = self._config
        isolation = Isolation(
            feed=self.feed,
            feeder=self.feeder,
            slots=self.slots,
            runner=self.runner,
            queues=served(config.queues),
            # Without the name of an application a child would have to load the program itself.
            has_processes=app_ref is not None and config.isolation == "process",
            poll_seconds=config.poll_seconds,
        )
        isolation.on_turn = background.count_turn
        isolation.turns = self._health.of(isolation.name)
        return isolation

    def start(self) -> None:
        self.slots.start()
        self.feeder.start()
        self.isolation.start()
        if self._parent is None or self._parent.is_gone:
            self.lease.start()
        else:
            self._parent.registered(self.worker)

    def set_weak(self, is_weak: bool) -> None:
        """The lease may run out: claim nothing meanwhile."""
        self.is_weak = is_weak
        self.feeder.pause_claiming(self.is_weak or self._is_draining)

    def set_draining(self, is_draining: bool) -> None:
        """Claim no more, hand back what has not started, and let the rest take its time."""
        self._is_draining = is_draining
        self.feeder.pause_claiming(self.is_weak or self._is_draining)

    async def know(self, jobs: Sequence[str]) -> None:
        """What it can run has changed: say so, that such runs are not taken for unknown."""
        self.feeder.know(jobs)
        await self.feed.run("workers/set_jobs", jobs=list(jobs))

    async def drop(self) -> None:
        """The lease is lost: stop everything, write nothing."""
        self.lease.stop()
        self.feeder.pause_claiming(True)
        self.feeder.take_unstarted()
        self.runner.stop_all(Stop("lost"))
        await self.isolation.stop()
        await self.feeder.abandon()
        drained = asyncio.create_task(self.slots.drained())
        await asyncio.wait([drained], timeout=self._config.lease_seconds)
        drained.cancel()
        await self.slots.stop()
        await self.runner.close()

    async def finish_running(self) -> None:
        """Claim no more, hand back what has not started, wait for the rest until the limit, then
        cut it off: those runs go on elsewhere, with no attempt spent."""
        self.feeder.pause_claiming(True)
        await self.isolation.stop()
        try:
            async with asyncio.timeout(_SAY_SECONDS):
                await self.feed.run("workers/set_state", state="stopping")
                handed_back = await self.feeder.hand_back()
        except Exception as error:
            self._log.warning("could not hand back at the shutdown", error=error)
            handed_back = 0
        running = len(self.runner.running)
        self._log.info("worker stopping", handed_back=handed_back, running=running)
        drained = asyncio.create_task(self.slots.drained())
        done, _ = await asyncio.wait([drained], timeout=self._config.shutdown_seconds)
        if not done:
            self._log.warning("cutting off what still runs", runs=list(self.runner.running))
            self.runner.stop_all(Stop("shutdown"))
            await asyncio.wait([drained], timeout=_CUT_OFF_SECONDS)
        drained.cancel()
        # A body that ignores its cancellation: the process ends without it, the run goes on.
        for attempt in list(self.runner.running.values()):
            self.feeder.ended(attempt.claim, attempt.duration_ms, CUT_OFF)

    async def leave(self) -> None:
        """Write the last ends, and be gone."""
        try:
            await self.feeder.stop()
            if self._parent is not None:
                self._parent.leave()
            async with asyncio.timeout(_SAY_SECONDS):
                await self.feed.run("workers/set_state", state="gone")
        except Exception as error:
            self._log.warning("could not sign off", error=error)
        self.lease.stop()
        await self.slots.stop()
        await self.runner.close()
        await self.feed.end()
        await asyncio.to_thread(self.lease.join)


def _services(config: Config, database: Database, background: Background) -> Services:
    return Services(
        database=database,
        logs=background.logs,
        progress=background.progress,
        stored_level=LEVELS[config.logs.stored_level],
        lease_seconds=config.worker.lease_seconds,
        is_capturing=config.logs.capture,
    )


class _Watch:
    """What the watchdog sees of an identity."""

    def __init__(self, feeder: Feeder, runner: Runner) -> None:
        self._feeder = feeder
        self._runner = runner

    def take_unstarted(self) -> list[tuple[int, int]]:
        return [(claim.id, claim.attempt) for claim in self._feeder.take_unstarted()]

    def overdue(self, grace: float) -> list[tuple[int, int, float]]:
        return [
            (attempt.claim.id, attempt.claim.attempt, attempt.timeout)
            for attempt in list(self._runner.running.values())
            if attempt.timeout is not None
            and time.monotonic() - attempt.started > attempt.timeout + grace
        ]
