"""Ten times a second: reports that the event loop is running, and checks conditions that no call
announces."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from rota.engine.notifications import Notifications
from rota.engine.processes.parent import Parent
from rota.engine.registration import Registration
from rota.engine.worker_context import WorkerContext
from rota.telemetry.logger import get_logger

_TICK_SECONDS = 0.1


class Ticker:
    """`judge` is called while the worker's health may be judged; `stop` once, when its supervisor
    is gone. Both return at once."""

    def __init__(
        self,
        parts: WorkerContext,
        registration: Registration,
        notifications: Notifications,
        *,
        judge: Callable[[], None],
        stop: Callable[[], None],
    ) -> None:
        self._parts = parts
        self._registration = registration
        self._notifications = notifications
        self._judge = judge
        self._stop = stop
        self._is_orphan = False
        self._log = get_logger("worker")
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="rota ticker")

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        """Checks timeouts and full log buffers; now and then also cancel requests whose call was
        lost."""
        parts, last_check = self._parts, time.monotonic()
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            if parts.parent is not None:
                self._heed(parts.parent)
            identity = self._registration.identity
            if identity is None or identity.is_weak or parts.database.outage.is_short:
                # Health cannot be judged while the database may be unavailable or refuses
                # connections.
                parts.health.excuse()
            if identity is None:
                continue
            identity.lease.stamp()
            if parts.is_running and not self._registration.is_renewing:
                self._judge()
            identity.runner.stop_overdue()
            if parts.background.logs.is_early:
                parts.background.logs.wake()
            if time.monotonic() - last_check >= parts.config.worker.poll_seconds:
                last_check = time.monotonic()
                self._notifications.spawn(self._notifications.check_cancels())
                if identity.is_weak and identity.holds_nothing:
                    self._notifications.spawn(self._registration.leave_held_row(identity))

    # Under a supervisor.

    def _heed(self, parent: Parent) -> None:
        parent.stamp(self._parts.health.report)
        self._parts.background.shared_loops.take(parent.has_duty)
        identity = self._registration.identity
        if parent.is_gone:
            self._orphaned()
        elif identity is not None and parent.has_lost(identity.worker):
            self._registration.lost(identity)
        elif identity is not None and parent.is_weak != identity.is_weak:
            identity.is_weak = not identity.is_weak
            if identity.is_weak:
                self._log.warning("the supervisor cannot renew the lease")
            else:
                self._log.info("the supervisor is renewing the lease again")
            self._registration.weak(identity, identity.is_weak)

    def _orphaned(self) -> None:
        """The supervisor is gone: stop in order, and keep the lease until that is done."""
        if not self._is_orphan:
            self._is_orphan = True
            self._log.error("the supervisor is gone, stopping")
            if self._registration.identity is not None:
                self._registration.identity.lease.start(is_due=True)
            self._stop()
