"""A worker: registers, claims and executes runs, and stops in order.

Its roles are separate modules: registration.py (its identity), notifications.py (calls), ticker.py
(ten times a second), worker_sleep.py, operator_orders.py (an operator's instructions). This module
combines them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from rota.config import Config
from rota.engine.attempts.attempt import Stop
from rota.engine.background import Background
from rota.engine.executors.lifespans import Lifespans
from rota.engine.identity import Identity
from rota.engine.lease.health import Health
from rota.engine.lease.judge import HealthJudge
from rota.engine.listener import Listener
from rota.engine.loops.definitions import Definitions
from rota.engine.loops.retention import BuiltInJobs
from rota.engine.notifications import Notifications
from rota.engine.operator_orders import OperatorOrders
from rota.engine.pace import Pace
from rota.engine.processes.deadline import STOP_MARGIN, end_with_parent, end_within
from rota.engine.processes.parent import Parent
from rota.engine.processes.relayed import RelayedListener
from rota.engine.registration import Registration
from rota.engine.sleeping import Sleeper
from rota.engine.starting import until_served
from rota.engine.ticker import Ticker
from rota.engine.worker_context import WorkerContext
from rota.engine.worker_sleep import WorkerSleep
from rota.errors import RotaError
from rota.jobs.registry import Registry
from rota.postgres.sessions.pool import Database
from rota.telemetry.logger import get_logger

EXIT_FAILING = 70
# At most, without those of ctx.transaction(): claims, ends, calls, lease, and two for the rest.
CONNECTIONS = 6
# Time for threads to close their resources.
_THREADS_SECONDS = 2.0


class Worker:
    """Runs the jobs of an application until it is stopped. `async with worker:` starts and stops
    it."""

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
        self._log = get_logger("worker")
        self._parts = parts = WorkerContext(
            config=config,
            database=database,
            registry=registry,
            app_ref=app_ref,
            owns_process=owns_process,
            parent=parent,
            version=version,
            health=Health(database.outage, patience=config.worker.patience_seconds),
            pace=Pace(config.worker.poll_seconds, lambda: self._is_resting),
            definitions=Definitions(database, config, registry, self._jobs_changed),
            built_in=BuiltInJobs(database, config),
            lifespans=Lifespans(lambda: registry.hooks.lifespans, registry.hooks.app),
        )
        self._registration = Registration(parts)
        self._notifications = Notifications(parts, self._registration)
        self._sleep = WorkerSleep(parts, self._registration, self.wake)
        self._sleeper = Sleeper(
            self._sleep,
            after=config.worker.sleep_after_seconds,
            most=config.worker.sleep_at_most_seconds,
        )
        self._judge = HealthJudge(parts.health, self)
        self._orders = OperatorOrders(parts, self._registration, self.stop)
        self._ticker = Ticker(
            parts,
            self._registration,
            self._notifications,
            judge=self._look,
            stop=lambda: self._stop_soon("rota orphan"),
        )
        self._unwatch: Callable[[], None] = lambda: None
        self.exit_code = 0
        self.is_held_up = False  # the start waits for the server
        self._is_started = False
        self._lifespan_error: BaseException | None = None
        self._own_stops: list[asyncio.Task[None]] = []
        self._stopped: asyncio.Event | None = None

    @property
    def shutdown_seconds(self) -> float:
        return self._parts.config.worker.shutdown_seconds

    @property
    def id(self) -> int | None:
        """The id of the worker; None while it is not registered."""
        return self._identity.worker if self._identity else None

    @property
    def _identity(self) -> Identity | None:
        return self._registration.identity

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # The start.

    async def start(self) -> None:
        if self._parts.state != "new":
            raise RotaError(
                f"a worker can be started only once, and this one is {self._parts.state}",
                hint="call app.worker() again for another one",
            )
        self._parts.state = "running"
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        try:
            await self._start()
        except BaseException:
            await self._leave_lifespans()
            self._parts.state = "stopped"
            self._stopped.set()
            raise

    async def _start(self) -> None:
        parts = self._parts
        if parts.parent is not None:
            limit = self.shutdown_seconds + STOP_MARGIN
            end_with_parent(parts.parent.pid, limit, EXIT_FAILING)
        parts.database.spare()
        parts.database.outage.wanted = CONNECTIONS
        await self._until_served(parts.database.open)
        await parts.lifespans.enter(self._lifespan_ended)
        parts.background = Background(
            config=parts.config,
            database=parts.database,
            on_sql_jobs=self._jobs_changed,
            on_order=self._orders.obey,
            health=parts.health,
            pace=parts.pace,
        )
        parts.definitions.pace = parts.pace
        parts.definitions.turns = parts.health.of(parts.definitions.name)
        parts.listener = self._make_listener()
        await self._until_served(parts.built_in.prepare)
        if self._lifespan_error is not None:
            raise self._lifespan_error
        await self._until_served(self._registration.take)
        self._watch_declarations()
        await parts.start_loops()
        self._ticker.start()
        self._is_started = True

    def _make_listener(self) -> Listener | RelayedListener:
        parts, notifications = self._parts, self._notifications
        if parts.parent is None:
            return Listener(
                parts.database,
                on_call=notifications.called,
                on_change=notifications.listening_changed,
                turns=parts.health.of("listener"),
            )
        relayed = RelayedListener(
            parts.parent.end,
            parts.parent.channel,
            on_call=notifications.called,
            on_change=notifications.listening_changed,
            on_wake=self._wake,
        )
        parts.background.shared_loops.take(False)
        parts.background.shared_loops.tell_other = relayed.say
        return relayed

    async def _until_served(self, step: Callable[[], Awaitable[object]]) -> None:
        await until_served(self._parts.database, step, partial(setattr, self, "is_held_up"))

    def _watch_declarations(self) -> None:
        loop = asyncio.get_running_loop()

        def declared() -> None:
            with suppress(RuntimeError):  # the loop has ended without stopping its worker
                loop.call_soon_threadsafe(self._parts.definitions.wake)

        self._unwatch = self._parts.registry.watch(declared)

    async def _jobs_changed(self) -> bool:
        return await self._registration.jobs_changed()

    def _lifespan_ended(self, error: BaseException) -> None:
        """Stop the worker: handlers need the resources of the lifespan."""
        self._lifespan_error = error
        if self._is_started:
            self._log.error("stopping: a lifespan ended while the worker was running", error=error)
            self.end_failing()

    async def _leave_lifespans(self) -> None:
        try:
            await self._parts.lifespans.leave()
        except Exception as error:
            self._log.exception("a lifespan failed at the end of the worker", error=error)

    # Called from outside.

    def hurry(self) -> None:
        """Interrupt running attempts instead of waiting for them: a second signal."""
        if self._identity is not None:
            self._identity.runner.stop_all(Stop("shutdown"))

    def wake(self) -> None:
        """Look for work now, even if the worker is asleep. May be called from any thread."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._sleeper.wake()
        self._notifications.look_now()

    # Called by the judge.

    def _look(self) -> None:
        self._judge.look()
        self._sleeper.look()

    @property
    def is_idle(self) -> bool:
        return self._identity is not None and self._identity.holds_nothing

    @property
    def _is_resting(self) -> bool:
        return (
            self._parts.listener.is_listening
            and self._identity is not None
            and not self._identity.runner.running
        )

    def restart(self, loop: str) -> None:
        """Restart a stuck loop."""
        if loop == "listener":
            self._parts.listener.restart()
        elif loop == self._parts.definitions.name:
            self._parts.definitions.restart()
        elif loop == "isolation" and self._identity is not None:
            self._identity.isolation.restart()
        else:
            self._parts.background.restart(loop)

    def give_up(self) -> None:
        self._registration.give_up()

    def end_failing(self) -> None:
        """Stop with an exit code, because a new process may help. A worker that is part of another
        program can only stop and set the code."""
        self.exit_code = EXIT_FAILING
        if self._parts.owns_process:
            end_within(self.shutdown_seconds + STOP_MARGIN, EXIT_FAILING)
        self._stop_soon("rota failing")

    def _stop_soon(self, name: str) -> None:
        self._own_stops.append(asyncio.create_task(self.stop(), name=name))

    # The end.

    async def stop(self) -> None:
        """Stop claiming, return runs that have not started, let running attempts finish until the
        shutdown timeout, interrupt the rest, store all results, and sign off. May be called
        twice."""
        if not self._parts.is_running:
            if self._stopped is not None:
                await self._stopped.wait()
            return
        self._parts.state = "stopping"
        assert self._stopped is not None
        try:
            await self._shut_down()
        finally:
            self._parts.state = "stopped"
            self._stopped.set()

    async def wait_stopped(self) -> None:
        if self._stopped is not None:
            await self._stopped.wait()

    async def _shut_down(self) -> None:
        parts = self._parts
        await self._registration.stop_renewing()
        await self._sleeper.stop()
        await self._sleep.end()
        identity = self._identity
        parts.background.upkeep.is_leaving = True
        self._unwatch()
        # First of all: enqueue nothing new.
        await parts.background.shared_loops.let_tick(False)
        await parts.definitions.stop()
        await parts.listener.end()
        if identity is not None:
            await identity.finish_running()
        await parts.background.stop()
        if identity is not None:
            await identity.leave()
        await self._leave_lifespans()
        # Last: until here the lease checks whether the event loop is running.
        self._ticker.end()
        await asyncio.to_thread(parts.threads.close, _THREADS_SECONDS)
        self._log.info("worker stopped", worker=identity.worker if identity else None)
