"""A worker: registered, leased, fed, and stopped in order.

An identity is one row of rota.workers. A worker that lost its lease drops what it runs and
comes back under a new identity; everything bound to the old one is thrown away with it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

import psycopg

from rota.config import Config
from rota.errors import RotaError
from rota.executors.threads import ThreadExecutor
from rota.jobs.registry import Registry
from rota.model.words import some_of
from rota.runtime.attempts.attempt import Stop
from rota.runtime.background import Background
from rota.runtime.claiming.pace import Pace
from rota.runtime.duties.definitions import Definitions
from rota.runtime.duties.retention import BuiltInJobs, served
from rota.runtime.identity import Identity
from rota.runtime.lease.health import Health
from rota.runtime.lease.judge import HealthJudge
from rota.runtime.listener import Listener
from rota.runtime.processes.deadline import STOP_MARGIN, end_with_parent, end_within
from rota.runtime.processes.parent import Parent
from rota.runtime.processes.relayed import RelayedListener
from rota.runtime.sleeping import Sleeper
from rota.runtime.starting import START_SECONDS, may_wait
from rota.runtime.tasks import end_task
from rota.store.runs.claimed import cancel_requests
from rota.store.sessions.places import place_of
from rota.store.sessions.pool import Database
from rota.store.workers import leases, life
from rota.store.workers.orders import Order
from rota.telemetry.logger import get_logger

_TICK_SECONDS = 0.1
_DECLARE_SECONDS = 5.0
EXIT_FAILING = 70
# At most, without those of ctx.transaction(): claims, ends, calls, lease, and two for the rest.
CONNECTIONS = 6


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
        self._listener: Listener | RelayedListener
        self._threads = ThreadExecutor()
        self._definitions = Definitions(database, config, registry, self._jobs_changed)
        self._unwatch: Callable[[], None] = lambda: None
        self._built_in = BuiltInJobs(database, config)
        self._health = Health(database.outage, patience=config.worker.patience_seconds)
        self._judge = HealthJudge(self._health, self)
        self._sleeper = Sleeper(
            self,
            after=config.worker.sleep_after_seconds,
            most=config.worker.sleep_at_most_seconds,
        )
        self._slept_as: int | None = None
        self._pace = Pace(config.worker.poll_seconds, lambda: self._is_resting)
        self._has_listened = False
        self.exit_code = 0
        self.is_held_up = False  # its start waits for the server
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
        self._loop = asyncio.get_running_loop()
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
        self._database.spare()
        self._database.outage.wanted = CONNECTIONS
        await self._until_served(self._database.open)
        self._background = Background(
            config=self._config,
            database=self._database,
            on_sql_jobs=self._jobs_changed,
            on_order=self._obey,
            health=self._health,
            pace=self._pace,
        )
        self._definitions.pace = self._pace
        self._definitions.turns = self._health.of(self._definitions.name)
        self._listener = self._make_listener()
        await self._until_served(self._built_in.prepare)
        await self._until_served(self._take_identity)
        self._watch_declarations()
        await self._start_loops()
        self._ticker = asyncio.create_task(self._tick(), name="rota ticker")

    def _make_listener(self) -> Listener | RelayedListener:
        if self._parent is None:
            return Listener(
                self._database,
                on_call=self._called,
                on_change=self._listening_changed,
                turns=self._health.of("listener"),
            )
        relayed = RelayedListener(
            self._parent.end,
            self._parent.channel,
            on_call=self._called,
            on_change=self._listening_changed,
            on_wake=self._wake,
        )
        self._background.duties.take(False)
        self._background.duties.tell_other = relayed.say
        return relayed

    async def _start_loops(self) -> None:
        await self._background.start()
        self._definitions.start()
        self._listener.start()

    async def _until_served(self, step: Callable[[], Awaitable[object]]) -> None:
        """A server that is away, full or read-only comes back: that is no reason to end."""
        while True:
            try:
                await step()
                return
            except (psycopg.Error, OSError, RotaError) as error:
                if not may_wait(self._database, error):
                    raise
            self.is_held_up = True
            await asyncio.sleep(START_SECONDS)
            self.is_held_up = False

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

    def wake(self) -> None:
        """Look for work now, also out of sleep: somebody knows that there is some. May be called
        from any thread."""
        with suppress(RuntimeError):  # of a loop that has ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._sleeper.wake()
        if self._identity is not None:
            self._identity.feeder.look_now()
            self._look_again()

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
            channel=self._listener.channel,
            pace=self._pace,
            on_lost=self._lost,
            on_weak=self._weak,
        )
        self._definitions.current |= {
            it.name: it for it in self._built_in.definitions(identity.slots.beside)
        }
        identity.runner.use(self._definitions.current)
        await identity.feed.open()
        self._background.serve(worker, identity.feeder.has_backlog)
        await self._background.drain.serve(worker)
        identity.set_draining(self._background.drain.order.is_draining)
        self._identity = identity
        identity.start()
        identity.feeder.set_listening(self._listener.is_listening)
        self._background.duties.ask("upkeep")
        if version != self._registry.version:
            self._definitions.wake()
        self._log.info(
            "worker started", worker=worker, database=place_of(self._database.url),
            concurrency=config.concurrency, queues=",".join(config.queues) or "all",
            jobs=some_of(self._registry.names()),
        )  # fmt: skip

    async def _register(self, jobs: list[str]) -> int:
        query = life.register_worker(
            name=f"{socket.gethostname()}:{os.getpid()}",
            host=socket.gethostname(),
            pid=os.getpid(),
            version=self._version,
            queues=served(self._config.worker.queues),
            jobs=jobs,
            concurrency=self._config.worker.concurrency,
            lease_seconds=self._config.worker.lease_seconds,
        )
        async with self._database.connection() as conn:
            worker = await self._database.fetch_on(conn, query)
            if not self._database.has_sessions:
                await self._database.fetch_on(conn, life.say_polling(worker))
        return worker

    def _lost(self, identity: Identity) -> None:
        """The lease is gone: whatever runs here belongs to others now."""
        is_present = identity is self._identity
        if is_present and self._renewal is None and self._state == "running":
            self._renewal = asyncio.create_task(self._renew(), name="rota renewal")

    def give_up(self) -> None:
        """It does not get its work done."""
        self._renewal = asyncio.create_task(self._renew(is_lost=False), name="rota renewal")

    def _weak(self, identity: Identity, is_weak: bool) -> None:
        """The lease may run out: claim nothing meanwhile. A shutdown claims nothing anyway, and the
        lease of a former identity has nothing to say about this one."""
        if self._state == "running" and identity is self._identity:
            identity.set_weak(is_weak)

    async def _renew(self, *, is_lost: bool = True) -> None:
        old, self._identity = self._identity, None
        if old is not None:
            await old.drop()
        if old is not None and not is_lost:
            await self._declare_lost(old.worker)
        await self._take_identity_again()
        self._renewal = None

    async def _take_identity_again(self) -> None:
        while self._state == "running":
            try:
                await self._take_identity()
                break
            except Exception as error:
                if not self._database.outage.note(error):
                    self._log.warning("could not register again, trying on", error=error)
                await asyncio.sleep(1)

    # Calls and clocks.

    def _called(self, words: str, _channel: str) -> None:
        identity = self._identity
        if identity is None:
            return
        kind, _, what = words.partition(" ")
        if kind == "queue":
            queues = served(self._config.worker.queues)
            if not queues or what in queues:
                identity.feeder.called(what)
        elif kind == "watch":
            identity.feeder.watched(what)
        elif kind == "passed":
            identity.feeder.passed_over()
        elif kind == "worker" and what == str(identity.worker):
            self._background.drain.wake()
        elif kind == "suspects":
            identity.isolation.wake()
        elif kind == "cancel" and what == str(identity.worker):
            self._spawn(self._check_cancels())
        elif kind == "jobs":
            self._background.sql_jobs.wake()
            self._definitions.wake()
        else:
            self._background.duties.called(kind)

    def _listening_changed(self, is_listening: bool) -> None:
        if self._identity is not None:
            self._identity.feeder.set_listening(is_listening)
            self._background.sql_jobs.wake()
        if is_listening:
            self._spawn(
                self._check_cancels()
            )  # runs start before it listens, and may be cancelled by then
        if is_listening and self._has_listened:
            self._look_again()
        self._has_listened = self._has_listened or is_listening

    def _look_again(self) -> None:
        """It did not listen for a while, and is called again from now on."""
        self._background.look_again()
        self._definitions.wake()
        if self._identity is not None:
            self._identity.isolation.wake()

    def _known_jobs(self) -> list[str]:
        """Those of the code, the SQL jobs of the database, and Rota's own."""
        own = self._built_in.names
        return sorted({*self._registry.names(), *self._background.sql_jobs.names, *own})

    async def _jobs_changed(self) -> bool:
        """There is more to run, or less; answers whether others know it."""
        if self._identity is None:
            return False
        is_said = await self._identity.know(self._known_jobs())
        self._background.duties.ask("upkeep")
        return is_said

    def _spawn(self, step: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(step)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _check_cancels(self) -> None:
        identity = self._identity
        if identity is None or not identity.runner.running:
            return
        for request in await self._database.fetch(cancel_requests(identity.worker)):
            identity.runner.cancel(*request)

    async def _leave_held_row(self, identity: Identity) -> None:
        """Its lease runs out because somebody's open transaction holds its row. Nobody can take
        anything from it, and there is nothing: it need not stand still for that."""
        holder = await self._database.fetch(leases.holder(identity.worker), is_hurried=False)
        is_present = identity is self._identity and self._renewal is None
        if (
            self._state == "running"
            and holder is not None
            and is_present
            and identity.is_weak
            and identity.holds_nothing
        ):
            text = "the worker's row is still held: going on under another number"
            self._log.warning(text, worker=identity.worker)
            self._lost(identity)

    async def _tick(self) -> None:
        """Ten times a second: the loop turns, timeouts, full log buffers. And now and then a
        look for cancel requests whose call was not heard."""
        last_check = time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if self._parent is not None:
                self._heed(self._parent)
            identity = self._identity
            if identity is None or identity.is_weak or self._database.outage.is_short:
                # Nobody can be judged while the database may be away, or takes nobody in.
                self._health.excuse()
            if identity is None:
                continue
            identity.lease.stamp()
            if self._state == "running" and self._renewal is None:
                self._judge.look()
                self._sleeper.look()
            identity.runner.stop_overdue()
            if self._background.logs.is_early:
                self._background.logs.wake()
            if time.monotonic() - last_check >= self._config.worker.poll_seconds:
                last_check = time.monotonic()
                self._spawn(self._check_cancels())
                if identity.is_weak and identity.holds_nothing:
                    self._spawn(self._leave_held_row(identity))

    # Failing.

    @property
    def is_idle(self) -> bool:
        return self._identity is not None and self._identity.holds_nothing

    @property
    def _is_resting(self) -> bool:
        return (
            self._listener.is_listening
            and self._identity is not None
            and not self._identity.runner.running
        )

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
            async with asyncio.timeout(_DECLARE_SECONDS):
                await self._database.fetch(leases.declare_lost(worker))

    def end_failing(self) -> None:
        """A new process may help. Part of somebody's program, it can only stop, and say so."""
        self.exit_code = EXIT_FAILING
        if self._owns_process:
            end_within(self.shutdown_seconds + STOP_MARGIN, EXIT_FAILING)
        self._failing_stop = asyncio.create_task(self.stop(), name="rota failing")

    # Asleep.

    @property
    def busy_at(self) -> float:
        return time.monotonic() if self._identity is None else self._identity.busy_at

    def may_sleep(self, is_drowsy: bool) -> bool:
        return is_drowsy if self._parent is None else self._parent.may_sleep(is_drowsy)

    async def quiet_seconds(self) -> float:
        identity, most = self._identity, self._config.worker.sleep_at_most_seconds
        if identity is None:
            return 0.0
        ticking = self._background.duties.is_ticking
        query = life.quiet_seconds(identity.worker, most=most, ticking=ticking)
        return await identity.feed.fetch(query)

    async def lie_down(self) -> float | None:
        identity = self._identity
        if identity is None or not identity.hold_still():
            return None
        is_ticking, self._identity = self._background.duties.is_ticking, None
        await self._background.duties.stop()
        await self._definitions.stop()
        await self._listener.stop()
        await self._background.stop()
        seconds = await identity.fall_asleep(
            most=self._config.worker.sleep_at_most_seconds, ticking=is_ticking
        )
        self._slept_as = identity.worker
        self._database.rest()
        self._database.on_use = self.wake
        return seconds

    async def get_up(self) -> None:
        self._database.on_use = None
        await self._take_identity_again()
        await self._say_awake()
        if self._state == "running":
            await self._start_loops()

    async def _say_awake(self) -> None:
        """Nobody shall believe that it still sleeps under its former number."""
        former, self._slept_as = self._slept_as, None
        if former is None:
            return
        with suppress(psycopg.Error, RotaError, OSError, TimeoutError):
            async with asyncio.timeout(_DECLARE_SECONDS):
                await self._database.fetch(life.wake_up(former))

    # Told by an operator.

    async def _obey(self, order: Order) -> None:
        if self._state != "running":
            return
        if self._identity is not None:
            self._identity.set_draining(order.is_draining)
        if self._parent is not None:
            self._parent.set_willing(not order.is_draining)
        await self._background.duties.let_tick(not order.is_draining)
        # Also when only the manner has changed: one that waits is told to hurry.
        task, self._retirement = self._retirement, None
        await end_task(task)
        if order.is_to_stop:
            retiring = self._retire(at_once=order.is_to_hurry)
            self._retirement = asyncio.create_task(retiring, name="rota retirement")

    async def _retire(self, *, at_once: bool) -> None:
        """Stop, but not before what runs has ended, however long that takes; at once, as at a
        signal: what runs longer than a shutdown may take is cut off and goes back."""
        if self._identity is not None and not at_once:
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
        self._background.duties.take(parent.has_duty)
        identity = self._identity
        if parent.is_gone:
            self._orphaned()
        elif identity is not None and parent.has_lost(identity.worker):
            self._lost(identity)
        elif identity is not None and parent.is_weak != identity.is_weak:
            identity.is_weak = not identity.is_weak
            self._log.warning("the supervisor cannot renew the lease", is_so=identity.is_weak)
            self._weak(identity, identity.is_weak)

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
        await self._sleeper.stop()
        self._database.on_use = None
        if self._slept_as is not None:
            await self._say_awake()
        identity = self._identity
        self._background.upkeep.is_leaving = True
        self._unwatch()
        # First of all: enqueue nothing new.
        await self._background.duties.let_tick(False)
        await self._definitions.stop()
        await self._listener.end()
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
