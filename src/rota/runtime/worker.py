"""A worker: registered, leased, fed, and stopped in order.

An identity is one row of rota.workers. A worker that lost its lease drops what it runs and
comes back under a new identity; everything bound to the old one is thrown away with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time

from rota.config import Config
from rota.errors import RotaError
from rota.executors.threads import ThreadExecutor
from rota.jobs.registry import Registry
from rota.model.outcome import CUT_OFF
from rota.runtime.attempt import Services, Stop
from rota.runtime.claiming import ClaimPlan
from rota.runtime.feeder import Feeder
from rota.runtime.lease import Lease
from rota.runtime.listener import Listener
from rota.runtime.log_buffer import LogBuffer
from rota.runtime.loop import Loop
from rota.runtime.parent import Parent
from rota.runtime.progress import ProgressBoard
from rota.runtime.promoter import Promoter
from rota.runtime.rescuer import Rescuer
from rota.runtime.rollups import Rollups
from rota.runtime.runner import Runner
from rota.runtime.slots import Slots
from rota.runtime.suspects import Suspects
from rota.runtime.upkeep import Upkeep
from rota.runtime.waiting import Waiting
from rota.store.feed import Feed
from rota.store.pool import Database
from rota.telemetry.logging import LEVELS, get_logger

_TICK_SECONDS = 0.1
_CUT_OFF_SECONDS = 10.0


class Identity:
    """All that belongs to one row of rota.workers."""

    def __init__(
        self, worker: int, feed: Feed, feeder: Feeder, slots: Slots, runner: Runner, lease: Lease
    ) -> None:
        self.worker = worker
        self.feed = feed
        self.feeder = feeder
        self.slots = slots
        self.runner = runner
        self.lease = lease
        self.is_weak = False


class Worker:
    """Runs the jobs of a registry until it is stopped. `async with worker:` does both."""

    def __init__(
        self,
        *,
        config: Config,
        database: Database,
        registry: Registry,
        app_ref: str | None = None,
        owns_process: bool = False,
        parent: Parent | None = None,
        version: str = "",
    ) -> None:
        self._config = config
        self._database = database
        self._registry = registry
        self._app_ref = app_ref
        self._owns_process = owns_process
        self._parent = parent
        self._version = version
        self._log = get_logger("worker")
        self._identity: Identity | None = None
        self._loops: list[Loop] = []
        self._listener: Listener | None = None
        self._threads = ThreadExecutor()
        self._ticker: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._orphan_stop: asyncio.Task[None] | None = None
        self._state = "new"
        self._stopped: asyncio.Event | None = None

    @property
    def id(self) -> int | None:
        """The number of the present identity; None while there is none."""
        return self._identity.worker if self._identity else None

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        if self._state != "new":
            raise RotaError(
                f"this worker is {self._state}: it can be started once",
                hint="call app.worker() again for another one",
            )
        self._state = "running"
        self._stopped = asyncio.Event()
        await self._database.open()
        worker_config, logs = self._config.worker, self._config.logs
        self._log_buffer = LogBuffer(
            self._database,
            buffer_lines=logs.buffer_lines,
            flush_seconds=logs.flush_seconds,
            line_bytes=logs.line_bytes,
        )
        self._progress = ProgressBoard(self._database)
        self._rollups = Rollups(self._database)
        self._promoter = Promoter(self._database, poll_seconds=worker_config.poll_seconds)
        self._upkeep = Upkeep(self._database, unknown_job_seconds=worker_config.unknown_job_seconds)
        self._loops = [
            self._log_buffer,
            self._progress,
            self._rollups,
            self._promoter,
            self._upkeep,
            Rescuer(self._database, lease_seconds=worker_config.lease_seconds),
            Suspects(
                self._database,
                jobs=self._registry.names(),
                queues=worker_config.queues,
                on_found=self._suspects_wait,
                poll_seconds=worker_config.poll_seconds,
            ),
        ]
        await self._take_identity()
        for loop in self._loops:
            loop.start()
        self._listener = Listener(
            self._database, on_call=self._called, on_change=self._listening_changed
        )
        self._listener.start()
        self._ticker = asyncio.create_task(self._tick(), name="rota ticker")

    async def stop(self) -> None:
        """Stop claiming, hand back, let the running finish until the limit, cut off the rest,
        write everything, and be gone. Harmless when called twice."""
        if self._state != "running":
            if self._stopped is not None:
                await self._stopped.wait()
            return
        self._state = "stopping"
        assert self._stopped is not None
        try:
            await self._shut_down()
        finally:
            self._state = "stopped"
            self._stopped.set()

    def hurry(self) -> None:
        """A second signal: do not wait for what runs."""
        if self._identity is not None:
            self._identity.runner.stop_all(Stop("shutdown"))

    async def wait_stopped(self) -> None:
        if self._stopped is not None:
            await self._stopped.wait()

    # One identity.

    async def _take_identity(self) -> None:
        config = self._config.worker
        names = self._registry.names()
        worker = await self._register(names)
        services = Services(
            database=self._database,
            logs=self._log_buffer,
            progress=self._progress,
            stored_level=LEVELS[self._config.logs.stored_level],
            lease_seconds=config.lease_seconds,
        )
        self._progress.worker = worker
        self._rollups.worker = worker
        runner = Runner(
            config=self._config, registry=self._registry, services=services, worker=worker,
            app_ref=self._app_ref, threads=self._threads,
        )  # fmt: skip
        if self._parent is not None:
            runner.running = self._parent.show()
        slots = Slots(config.concurrency, runner.run)
        feed = Feed(self._database, worker, names)
        own = sorted({one.queue or "default" for one in self._registry})
        feeder = Feeder(
            feed=feed,
            slots=slots,
            plan=ClaimPlan(
                concurrency=config.concurrency,
                most=config.claim_size,
                queues=config.queues or own,
            ),
            waiting=Waiting(poll_seconds=config.poll_seconds, say=feed.run),
            rollups=self._rollups,
            queues=config.queues,
            own_queues=own,
            on_lost=self._lost,
            on_later=self._promoter.wake,
        )
        runner.feeder = feeder
        loop = asyncio.get_running_loop()
        lease = Lease(
            self._database,
            worker,
            seconds=config.lease_seconds,
            watched=_Watch(slots, runner),
            on_lost=lambda: loop.call_soon_threadsafe(self._lost),
            on_weak=lambda weak: loop.call_soon_threadsafe(self._weak, feeder, weak),
            may_exit=self._owns_process,
        )
        self._identity = Identity(worker, feed, feeder, slots, runner, lease)
        slots.start()
        feeder.start()
        if self._parent is None or self._parent.is_gone:
            lease.start()
        else:
            self._parent.registered(worker)
        if self._listener is not None:
            feeder.set_listening(self._listener.is_listening)
        self._upkeep.wake()
        self._log.info(
            "worker started", worker=worker, concurrency=config.concurrency,
            queues=",".join(config.queues) or "all", jobs=len(names),
        )  # fmt: skip

    async def _register(self, names: list[str]) -> int:
        params = {
            "name": f"{socket.gethostname()}:{os.getpid()}",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": self._version,
            "queues": list(self._config.worker.queues),
            "jobs": names,
            "concurrency": self._config.worker.concurrency,
            "lease_seconds": self._config.worker.lease_seconds,
        }
        async with self._database.connection() as conn:
            cursor = await conn.execute(self._database.statements.get("workers/register"), params)
            row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    def _lost(self) -> None:
        """The lease is gone: whatever runs here belongs to others now."""
        if self._renewal is None and self._state == "running":
            self._renewal = asyncio.create_task(self._renew(), name="rota renewal")

    def _weak(self, feeder: Feeder, is_weak: bool) -> None:
        """The lease may run out: claim nothing meanwhile. A shutdown claims nothing anyway."""
        if self._state == "running":
            feeder.pause_claiming(is_weak)

    async def _renew(self) -> None:
        old, self._identity = self._identity, None
        if old is not None:
            await self._drop(old)
        while self._state == "running":
            try:
                await self._take_identity()
                break
            except Exception as error:
                self._log.warning("could not register again, trying on", error=error)
                await asyncio.sleep(1)
        self._renewal = None

    async def _drop(self, identity: Identity) -> None:
        identity.lease.stop()
        identity.feeder.pause_claiming(True)
        identity.slots.take_ready()
        identity.runner.stop_all(Stop("lost"))
        await identity.feeder.abandon()
        await asyncio.wait(
            [asyncio.create_task(identity.slots.drained())],
            timeout=self._config.worker.lease_seconds,
        )
        await identity.slots.stop()
        await identity.runner.close()

    # Calls and clocks.

    def _called(self, words: str) -> None:
        identity = self._identity
        if identity is None:
            return
        kind, _, what = words.partition(" ")
        if kind == "queue":
            queues = self._config.worker.queues
            if not queues or what in queues:
                identity.feeder.called(what)
        elif kind == "due":
            self._promoter.wake()
        elif kind == "cancel" and what == str(identity.worker):
            self._spawn_cancel_check()

    def _listening_changed(self, is_listening: bool) -> None:
        if self._identity is not None:
            self._identity.feeder.set_listening(is_listening)

    def _suspects_wait(self) -> None:
        if self._identity is not None:
            self._identity.feeder.suspects_wait()

    def _spawn_cancel_check(self) -> None:
        task = asyncio.get_running_loop().create_task(self._check_cancels())
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _check_cancels(self) -> None:
        identity = self._identity
        if identity is None or not identity.runner.running:
            return
        async with self._database.connection() as conn:
            cursor = await conn.execute(
                self._database.statements.get("runs/cancel_requests"), {"worker": identity.worker}
            )
            for run_id, attempt, by, reason in await cursor.fetchall():
                identity.runner.cancel(run_id, attempt, by, reason)

    async def _tick(self) -> None:
        """Ten times a second: the loop turns, timeouts, full log buffers. And now and then a
        look for cancel requests whose call was not heard."""
        last_check = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._parent is not None:
                self._heed(self._parent)
            identity = self._identity
            if identity is None:
                continue
            identity.lease.stamp()
            identity.runner.stop_overdue()
            if self._log_buffer.is_early:
                self._log_buffer.wake()
            if time.monotonic() - last_check >= self._config.worker.poll_seconds:
                last_check = time.monotonic()
                self._spawn_cancel_check()

    # Under a supervisor.

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor started this process, renews its lease and tells it to stop."""
        return self._parent is not None

    def _heed(self, parent: Parent) -> None:
        parent.stamp()
        identity = self._identity
        if parent.is_gone:
            self._orphaned()
        elif identity is not None and parent.has_lost(identity.worker):
            self._lost()
        elif identity is not None and parent.is_weak != identity.is_weak:
            identity.is_weak = not identity.is_weak
            self._log.warning("the supervisor cannot renew the lease", is_so=identity.is_weak)
            self._weak(identity.feeder, identity.is_weak)

    def _orphaned(self) -> None:
        """The supervisor is gone: stop in order, and keep the lease until that is done."""
        if self._orphan_stop is None:
            self._log.error("the supervisor is gone, stopping")
            if self._identity is not None:
                self._identity.lease.start(is_due=True)
            self._orphan_stop = asyncio.create_task(self.stop(), name="rota orphan")

    # The end.

    async def _shut_down(self) -> None:
        if self._renewal is not None:
            await asyncio.gather(self._renewal, return_exceptions=True)
        identity = self._identity
        if self._listener is not None:
            await self._listener.stop()
        if identity is not None:
            await self._finish_running(identity)
        # Lines and progress of the last attempts.
        for loop in self._loops:
            await loop.stop()
        for last in (self._log_buffer, self._progress, self._rollups):
            try:
                await last.run_once()
            except Exception as error:
                self._log.warning("the last lines could not be stored", error=error)
        if identity is not None:
            await self._leave(identity)
        # Last: until here somebody watches whether the loop turns.
        if self._ticker is not None:
            self._ticker.cancel()
        self._threads.close()
        self._log.info("worker stopped", worker=identity.worker if identity else None)

    async def _finish_running(self, identity: Identity) -> None:
        identity.feeder.pause_claiming(True)
        try:
            await identity.feed.run("workers/set_state", state="stopping")
            handed_back = await identity.feeder.hand_back()
        except Exception as error:
            self._log.warning("could not hand back at the shutdown", error=error)
            handed_back = 0
        running = len(identity.runner.running)
        self._log.info("worker stopping", handed_back=handed_back, running=running)
        drained = asyncio.create_task(identity.slots.drained())
        done, _ = await asyncio.wait([drained], timeout=self._config.worker.shutdown_seconds)
        if not done:
            self._log.warning("cutting off what still runs", runs=list(identity.runner.running))
            identity.runner.stop_all(Stop("shutdown"))
            await asyncio.wait([drained], timeout=_CUT_OFF_SECONDS)
        drained.cancel()
        # A body that ignores its cancellation: the process ends without it, the run goes on.
        for attempt in list(identity.runner.running.values()):
            identity.feeder.ended(attempt.claim, attempt.duration_ms, CUT_OFF)

    async def _leave(self, identity: Identity) -> None:
        try:
            await identity.feeder.stop()
            if self._parent is not None:
                self._parent.leave()
            await identity.feed.run("workers/set_state", state="gone")
        except Exception as error:
            self._log.warning("could not sign off", error=error)
        identity.lease.stop()
        await identity.slots.stop()
        await identity.runner.close()
        await identity.feed.close()
        await asyncio.to_thread(identity.lease.join)


class _Watch:
    """What the watchdog sees of an identity."""

    def __init__(self, slots: Slots, runner: Runner) -> None:
        self._slots = slots
        self._runner = runner

    def take_unstarted(self) -> list[tuple[int, int]]:
        return [(claim.id, claim.attempt) for claim in self._slots.take_ready()]

    def overdue(self, grace: float) -> list[tuple[int, int, float]]:
        return [
            (attempt.claim.id, attempt.claim.attempt, attempt.timeout)
            for attempt in list(self._runner.running.values())
            if attempt.timeout is not None
            and time.monotonic() - attempt.started > attempt.timeout + grace
        ]
