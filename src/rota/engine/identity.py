"""A row of rota.workers with everything that belongs to it; discarded as a whole when the lease is
lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from psycopg import errors

from rota.config import Config
from rota.engine.attempts.attempt import Services, Stop
from rota.engine.attempts.isolation import Isolation
from rota.engine.attempts.observer import AttemptObserver
from rota.engine.attempts.runner import Runner
from rota.engine.attempts.tracing import find_spans
from rota.engine.background import Background
from rota.engine.claiming.calls import Calls
from rota.engine.claiming.loop import ClaimLoop
from rota.engine.claiming.plan import ClaimPlan, QueueSearch
from rota.engine.claiming.slots import Slots
from rota.engine.executors.base import ExecutorContext
from rota.engine.executors.threads import ThreadPool
from rota.engine.lease.health import Health
from rota.engine.lease.lease import Lease
from rota.engine.lease.pool_statements import PoolStatements
from rota.engine.loops.retention import served
from rota.engine.pace import Pace
from rota.engine.processes.parent import Parent
from rota.jobs.registry import Registry
from rota.model.outcome import CUT_OFF
from rota.postgres.pipeline.exchange import Exchange
from rota.postgres.queries import Query
from rota.postgres.sessions.pool import Database
from rota.postgres.sessions.session_cache import SessionCache
from rota.postgres.workers import life
from rota.telemetry.lines import LEVELS
from rota.telemetry.logger import get_logger

T = TypeVar("T")
_CUT_OFF_SECONDS = 10.0
# Between two polls of an idle worker.
_LOOK_SECONDS = 6.0
# A shutdown does not wait longer for a server that does not respond.
_SAY_SECONDS = 5.0


class Identity:
    """Slots, claim loop, runner and lease of one worker id.

    `on_lost` and `on_weak` are called on the event loop; `on_weak` gets whether the lease may
    expire.
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
        threads: ThreadPool,
        app_ref: str | None,
        owns_process: bool,
        parent: Parent | None,
        health: Health,
        channel: str,
        pace: Pace,
        on_lost: Callable[[Identity], None],
        on_weak: Callable[[Identity, bool], None],
        state: Mapping[str, Any],
    ) -> None:
        self.worker = worker
        self.is_weak = False
        self._is_draining = False
        self._config = config.worker
        self._parent = parent
        self._health = health
        self._log = get_logger("worker")
        self.runner = Runner(
            registry=registry,
            services=_services(config, database, background, worker, state),
            means=ExecutorContext(config, database, threads, app_ref),
            worker=worker,
            sql_jobs=background.sql_jobs,
            observers=_observers(parent),
        )
        self.slots = Slots(config.worker.concurrency, self.runner.run)
        self.feed = Exchange(database, worker, jobs)
        self._channel = channel
        self._pace = pace
        self.claim_loop = self._make_claim_loop(
            database, registry, background, lambda: on_lost(self)
        )
        self.runner.serve(self.claim_loop)
        self.isolation = self._make_isolation(background, app_ref)
        loop = asyncio.get_running_loop()
        self.lease = Lease(
            database,
            worker,
            seconds=config.worker.lease_seconds,
            watched=_Watch(self.claim_loop, self.runner),
            on_lost=lambda: loop.call_soon_threadsafe(on_lost, self),
            on_weak=lambda weak: loop.call_soon_threadsafe(on_weak, self, weak),
            may_exit=owns_process,
            report=lambda: health.report,
            borrow=PoolStatements(database, loop).fetch,
        )

    def _make_claim_loop(
        self,
        database: Database,
        registry: Registry,
        background: Background,
        on_lost: Callable[[], None],
    ) -> ClaimLoop:
        config = self._config
        queues = served(config.queues)
        own = sorted({job.queue or "default" for job in registry})
        resting_seconds = self._pace.stretched(_LOOK_SECONDS)
        return ClaimLoop(
            feed=self.feed,
            ends_feed=Exchange(database, self.worker, name="rota worker ends"),
            slots=self.slots,
            plan=ClaimPlan(
                concurrency=config.concurrency,
                most=config.claim_size,
                queues=queues or own,
            ),
            search=QueueSearch(queues=queues, own=own, pace=self._pace),
            calls=Calls(
                poll_seconds=config.poll_seconds,
                resting_seconds=resting_seconds,
                worker=self.worker,
                fetch=self.feed.fetch,
                channel=self._channel,
            ),
            rollups=background.rollups,
            shared_loops=background.shared_loops,
            admission=background.admission,
            health=self._health,
            longest_rest=max(config.poll_seconds, resting_seconds),
            on_lost=on_lost,
        )

    def _make_isolation(self, background: Background, app_ref: str | None) -> Isolation:
        config = self._config
        isolation = Isolation(
            feed=self.feed,
            claim_loop=self.claim_loop,
            slots=self.slots,
            runner=self.runner,
            queues=served(config.queues),
            # Without the name of an application, a child process cannot load the jobs.
            has_processes=app_ref is not None and config.isolation == "process",
            poll_seconds=config.poll_seconds,
        )
        isolation.on_turn = background.count_turn
        isolation.pace = self._pace
        isolation.turns = self._health.of(isolation.name)
        return isolation

    def start(self) -> None:
        self.slots.start()
        self.claim_loop.start()
        self.isolation.start()
        if self._parent is None or self._parent.is_gone:
            self.lease.start()
        else:
            self._parent.registered(self.worker)

    @property
    def holds_nothing(self) -> bool:
        """Return whether no run is claimed or running, and no end waits to be written."""
        return not self.runner.running and not self.claim_loop.held_ids()

    def set_weak(self, is_weak: bool) -> None:
        """Claim nothing while the lease may expire."""
        self.is_weak = is_weak
        self.claim_loop.pause_claiming(self.is_weak or self._is_draining)

    def set_draining(self, is_draining: bool) -> None:
        """Stop claiming and hand back runs that have not started; running attempts take their
        time."""
        self._is_draining = is_draining
        self.claim_loop.pause_claiming(self.is_weak or self._is_draining)

    async def know(self, jobs: Sequence[str], intakes: Sequence[int]) -> bool:
        """Store the jobs that this worker knows, so that their runs are not treated as unknown.
        Return False if another transaction holds the worker's row; call again then."""
        self.claim_loop.set_jobs(jobs)
        return await self._write(life.set_jobs(self.worker, jobs, intakes))

    async def _write(self, query: Query[None]) -> bool:
        """Write into the worker's row. Return False if another open transaction holds the row."""
        try:
            await self.feed.fetch(query)
        except errors.LockNotAvailable:
            return False
        return True

    async def drop(self) -> None:
        """The lease is lost: stop everything, write nothing."""
        self.lease.stop()
        self.claim_loop.pause_claiming(True)
        self.claim_loop.take_unstarted()
        self.runner.stop_all(Stop("lost"))
        await self.isolation.stop()
        await self.claim_loop.abandon()
        drained = asyncio.create_task(self.slots.drained())
        await asyncio.wait([drained], timeout=self._config.lease_seconds)
        drained.cancel()
        await self.slots.stop()
        await self.runner.close()

    async def finish_running(self) -> None:
        """Stop claiming, hand back runs that have not started, and wait for running attempts until
        the limit; then interrupt them. Their runs continue on other workers, without using an
        attempt."""
        before = self.claim_loop.handed_back
        self.claim_loop.pause_claiming(True)
        await self.isolation.stop()
        try:
            async with asyncio.timeout(_SAY_SECONDS):
                await self._write(life.set_state(self.worker, "stopping"))
                await self.claim_loop.hand_back()
        except Exception as error:
            self._log.warning("could not return unstarted runs at shutdown", error=error)
        handed_back = self.claim_loop.handed_back - before
        running = len(self.runner.running)
        self._log.info("worker stopping", handed_back=handed_back, running=running)
        drained = asyncio.create_task(self.slots.drained())
        done, _ = await asyncio.wait([drained], timeout=self._config.shutdown_seconds)
        if not done:
            self._log.warning(
                "interrupting attempts that have not finished", runs=list(self.runner.running)
            )
            self.runner.stop_all(Stop("shutdown"))
            await asyncio.wait([drained], timeout=_CUT_OFF_SECONDS)
        drained.cancel()
        # A handler ignores its cancellation: the process ends without it, and the run is requeued.
        for attempt in list(self.runner.running.values()):
            self.claim_loop.ended(attempt.claim, attempt.duration_ms, CUT_OFF)

    @property
    def busy_at(self) -> float:
        """Return when the worker was last busy; now, if it is busy."""
        is_busy = self._is_draining or self.is_weak or bool(self.claim_loop.held_ids())
        return time.monotonic() if is_busy else self.claim_loop.claimed_at

    def hold_still(self) -> bool:
        """Stop claiming if the worker holds no run. Return False if it holds runs; it continues
        then."""
        self.claim_loop.pause_claiming(True)
        if self.claim_loop.held_ids():
            self.set_weak(self.is_weak)
            return False
        return True

    async def fall_asleep(self, *, most: float, ticking: bool) -> float:
        """Sign off until the worker wakes; return for how many seconds. `hold_still` must have
        returned True."""
        await self.isolation.stop()
        tell_parent = self._parent.unregistered if self._parent is not None else None
        sleeping = life.fall_asleep(self.worker, most=most, ticking=ticking)
        return await self._go(tell_parent, sleeping) or 0.0

    async def leave(self) -> None:
        """Write the last ends, and sign off."""
        tell_parent = self._parent.leave if self._parent is not None else None
        await self._go(tell_parent, life.set_state(self.worker, "gone"))

    async def _go(self, tell_parent: Callable[[], None] | None, query: Query[T]) -> T | None:
        """Return None if the state could not be stored."""
        answer: T | None = None
        try:
            await self.claim_loop.stop()
            if tell_parent is not None:
                tell_parent()
            async with asyncio.timeout(_SAY_SECONDS):
                # If another transaction holds the row, the lease expires by itself.
                with suppress(errors.LockNotAvailable):
                    answer = await self.feed.fetch(query)
        except Exception as error:
            self._log.warning("could not mark the worker as gone", error=error)
        self.lease.stop()
        await self.slots.stop()
        await self.runner.close()
        await self.feed.end()
        await asyncio.to_thread(self.lease.join)
        return answer


def _services(
    config: Config,
    database: Database,
    background: Background,
    worker: int,
    state: Mapping[str, Any],
) -> Services:
    size = config.worker.concurrency
    return Services(
        config=config,
        database=database,
        sessions=SessionCache(lambda: database.url, worker=worker, size=size),
        logs=background.logs,
        progress=background.progress,
        stored_level=LEVELS[config.logs.stored_level],
        lease_seconds=config.worker.lease_seconds,
        is_capturing=config.logs.capture,
        state=state,
    )


def _observers(parent: Parent | None) -> list[AttemptObserver]:
    found = (find_spans(), None if parent is None else parent.show())
    return [observer for observer in found if observer is not None]


class _Watch:
    """The view of the watchdog on an identity."""

    def __init__(self, claim_loop: ClaimLoop, runner: Runner) -> None:
        self._claim_loop = claim_loop
        self._runner = runner

    def take_unstarted(self) -> list[tuple[int, int]]:
        return [(claim.id, claim.attempt) for claim in self._claim_loop.take_unstarted()]

    def overdue(self, grace: float) -> list[tuple[int, int, float]]:
        return [
            (attempt.claim.id, attempt.claim.attempt, attempt.timeout)
            for attempt in list(self._runner.running.values())
            if attempt.timeout is not None
            and time.monotonic() - attempt.started > attempt.timeout + grace
        ]
