"""A worker: registered, leased, fed, and stopped in order.

An identity is one row of rota.workers. A worker that lost its lease drops what it runs and
comes back under a new identity; everything bound to the old one is thrown away with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg

from rota.config import Config
from rota.errors import RotaError
from rota.executors.threads import ThreadExecutor
from rota.jobs.registry import Registry
from rota.runtime.attempt import Stop
from rota.runtime.background import Background
from rota.runtime.deadline import STOP_MARGIN, end_with_parent, end_within
from rota.runtime.definitions import Definitions
from rota.runtime.drain import Order
from rota.runtime.health import Health
from rota.runtime.identity import Identity
from rota.runtime.judge import Judge
from rota.runtime.listener import Listener
from rota.runtime.parent import Parent
from rota.runtime.retention import BuiltInJobs, served
from rota.runtime.tasks import end_task
from rota.store.pool import Database
from rota.telemetry.logging import get_logger

_TICK_SECONDS = 0.1
_DECLARE_SECONDS = 5.0
EXIT_FAILING = 70


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
        self._background: Background
        self._listener: Listener
        self._threads = ThreadExecutor()
        self._definitions = Definitions(database, config, registry, self._jobs_changed)
        self._unwatch: Callable[[], None] = lambda: None
        self._built_in = BuiltInJobs(database, config)
        self._health = Health(database.outage, patience=config.worker.patience_seconds)
        self._judge = Judge(self._health, self)
        self.exit_code = 0
        self._ticker: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._orphan_stop: asyncio.Task[None] | None = None
        self._failing_stop: asyncio.Task[None] | None = None
        self._retirement: asyncio.Task[None] | None = None
        self._state = "new"
        self._stopped: asyncio.Event | None = None

    @property
    def shutdown_seconds(self) -> float:
        return self._config.worker.shutdown_seconds

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
        try:
            await self._start()
        except BaseException:
            self._state = "stopped"
            self._stopped.set()
            raise

    async def _start(self) -> None:
        if self._parent is not None:
            limit = self.shutdown_seconds + STOP_MARGIN
            end_with_parent(self._parent.pid, limit, EXIT_FAILING)
        await self._database.open()
        self._background = Background(
            config=self._config,
            database=self._database,
            on_sql_jobs=self._jobs_changed,
            on_order=self._obey,
            health=self._health,
        )
        self._definitions.turns = self._health.of(self._definitions.name)
        self._listener = Listener(
            self._database,
            on_call=self._called,
            on_change=self._listening_changed,
            turns=self._health.of("listener"),
        )
        await self._built_in.prepare()
        await self._take_identity()
        self._background.start()
        self._watch_declarations()
        self._definitions.start()
        self._listener.start()
        self._ticker = asyncio.create_task(self._tick(), name="rota ticker")

    def _watch_declarations(self) -> None:
        loop = asyncio.get_running_loop()

        def declared() -> None:
            with suppress(RuntimeError):  # of a loop that ended without having stopped its worker
                loop.call_soon_threadsafe(self._definitions.wake)

        self._unwatch = self._registry.watch(declared)

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
        await self._background.sql_jobs.refresh()
        version, jobs = self._registry.version, self._known_jobs()
        worker = await self._register(jobs)
        await self._definitions.announce(worker, version)
        identity = Identity(
            worker,
            config=self._config,
            database=self._database,
            registry=self._registry,
            jobs=jobs,
            background=self._background,
            threads=self._threads,
            app_ref=self._app_ref,
            owns_process=self._owns_process,
            parent=self._parent,
            health=self._health,
            on_lost=self._lost,
            on_weak=self._weak,
        )
        self._definitions.current |= {
            it.name: it for it in self._built_in.definitions(identity.slots.beside)
        }
        identity.runner.use(self._definitions.current)
        self._background.serve(worker)
        await self._background.drain.serve(worker)
        identity.set_draining(self._background.drain.order.is_draining)
        self._identity = identity
        identity.start()
        identity.feeder.set_listening(self._listener.is_listening)
        self._background.upkeep.wake()
        if version != self._registry.version:
            self._definitions.wake()
        self._log.info(
            "worker started", worker=worker, concurrency=config.concurrency,
            queues=",".join(config.queues) or "all", jobs=len(jobs),
        )  # fmt: skip

    async def _register(self, jobs: list[str]) -> int:
        params = {
            "name": f"{socket.gethostname()}:{os.getpid()}",
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "version": self._version,
            "queues": served(self._config.worker.queues),
            "jobs": jobs,
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

    def give_up(self) -> None:
        """It does not get its work done."""
        self._renewal = asyncio.create_task(self._renew(is_lost=False), name="rota renewal")

    def _weak(self, is_weak: bool) -> None:
        """The lease may run out: claim nothing meanwhile. A shutdown claims nothing anyway."""
        if self._state == "running" and self._identity is not None:
            self._identity.set_weak(is_weak)

    async def _renew(self, *, is_lost: bool = True) -> None:
        old, self._identity = self._identity, None
        if old is not None:
            await old.drop()
        if old is not None and not is_lost:
            await self._declare_lost(old.worker)
        while self._state == "running":
            try:
                await self._take_identity()
                break
            except Exception as error:
                if not self._database.outage.note(error):
                    self._log.warning("could not register again, trying on", error=error)
                await asyncio.sleep(1)
        self._renewal = None

    # Calls and clocks.

    def _called(self, words: str) -> None:
        identity = self._identity
        if identity is None:
            return
        kind, _, what = words.partition(" ")
        if kind == "queue":
            queues = served(self._config.worker.queues)
            if not queues or what in queues:
                identity.feeder.called(what)
        elif kind == "due":
            self._background.promoter.wake()
        elif kind == "schedules":
            self._background.scheduler.wake()
        elif kind == "jobs":
            self._background.sql_jobs.wake()
            self._definitions.wake()
        elif kind == "worker" and what == str(identity.worker):
            self._background.drain.wake()
        elif kind == "suspects":
            identity.isolation.wake()
        elif kind == "cancel" and what == str(identity.worker):
            self._spawn_cancel_check()

    def _listening_changed(self, is_listening: bool) -> None:
        if self._identity is not None:
            self._identity.feeder.set_listening(is_listening)
            self._background.sql_jobs.wake()

    def _known_jobs(self) -> list[str]:
        """Those of the code, the SQL jobs of the database, and Rota's own."""
        own = self._built_in.names
        return sorted({*self._registry.names(), *self._background.sql_jobs.names, *own})

    async def _jobs_changed(self) -> bool:
        """There is more to run, or less; answers whether there is an identity to say so."""
        if self._identity is None:
            return False
        await self._identity.know(self._known_jobs())
        self._background.upkeep.wake()
        return True

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
            if identity is None or identity.is_weak:
                # Nobody can be judged while the database may be away.
                self._health.excuse()
            if identity is None:
                continue
            identity.lease.stamp()
            if self._state == "running" and self._renewal is None:
                self._judge.look()
            identity.runner.stop_overdue()
            if self._background.logs.is_early:
                self._background.logs.wake()
            if time.monotonic() - last_check >= self._config.worker.poll_seconds:
                last_check = time.monotonic()
                self._spawn_cancel_check()

    # Failing.

    @property
    def is_idle(self) -> bool:
        return self._identity is not None and not self._identity.runner.running

    def restart(self, loop: str) -> None:
        """One that stands still."""
        if loop == "listener":
            self._listener.restart()
        elif loop == self._definitions.name:
            self._definitions.restart()
        elif loop == "isolation" and self._identity is not None:
            self._identity.isolation.restart()
        else:
            self._background.restart(loop)

    async def _declare_lost(self, worker: int) -> None:
        """At once, so that nobody has to wait for the lease to run out."""
        with suppress(psycopg.Error, OSError, TimeoutError):
            async with asyncio.timeout(_DECLARE_SECONDS), self._database.connection() as conn:
                get = self._database.statements.get
                await conn.execute(get("workers/declare_lost"), {"worker": worker})

    def end_failing(self) -> None:
        """A new process may help. Part of somebody's program, it can only stop, and say so."""
        self.exit_code = EXIT_FAILING
        if self._owns_process:
            end_within(self.shutdown_seconds + STOP_MARGIN, EXIT_FAILING)
        self._failing_stop = asyncio.create_task(self.stop(), name="rota failing")

    # Told by an operator.

    async def _obey(self, order: Order) -> None:
        if self._state != "running":
            return
        if self._identity is not None:
            self._identity.set_draining(order.is_draining)
        if order.is_draining:
            await self._background.stop_ticking()
        else:
            self._background.start_ticking()
        if order.is_to_stop and self._retirement is None:
            self._retirement = asyncio.create_task(self._retire(), name="rota retirement")
        elif not order.is_to_stop and self._retirement is not None:
            task, self._retirement = self._retirement, None
            await end_task(task)

    async def _retire(self) -> None:
        """Stop, but not before what runs has ended, however long that takes."""
        if self._identity is not None:
            await self._identity.slots.drained()
        if not (await self._background.drain.read()).is_to_stop:
            return  # taken back a moment ago; the loop that hears of it goes on from here
        if self._parent is not None:
            self._parent.retire()
        await self.stop()

    # Under a supervisor.

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor started this process, renews its lease and tells it to stop."""
        return self._parent is not None

    def _heed(self, parent: Parent) -> None:
        parent.stamp(self._health.report)
        identity = self._identity
        if parent.is_gone:
            self._orphaned()
        elif identity is not None and parent.has_lost(identity.worker):
            self._lost()
        elif identity is not None and parent.is_weak != identity.is_weak:
            identity.is_weak = not identity.is_weak
            self._log.warning("the supervisor cannot renew the lease", is_so=identity.is_weak)
            self._weak(identity.is_weak)

    def _orphaned(self) -> None:
        """The supervisor is gone: stop in order, and keep the lease until that is done."""
        if self._orphan_stop is None:
            self._log.error("the supervisor is gone, stopping")
            if self._identity is not None:
                self._identity.lease.start(is_due=True)
            self._orphan_stop = asyncio.create_task(self.stop(), name="rota orphan")

    # The end.

    async def _shut_down(self) -> None:
        # It may wait for a database that does not answer.
        await end_task(self._renewal)
        identity = self._identity
        self._unwatch()
        await self._background.stop_ticking()
        await self._definitions.stop()
        await self._listener.stop()
        if identity is not None:
            await identity.finish_running()
        await self._background.stop()
        if identity is not None:
            await identity.leave()
        # Last: until here somebody watches whether the loop turns.
        if self._ticker is not None:
            self._ticker.cancel()
        self._threads.close()
        self._log.info("worker stopped", worker=identity.worker if identity else None)
