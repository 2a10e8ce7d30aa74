"""`rota worker --processes N`: a parent that starts workers, renews their leases and replaces
those that end.

The parent runs no handler, so nothing holds its interpreter: a C call that keeps a child's GIL
for minutes does not cost the child its lease. Parent and child share a page (worker_page.py); the
child's side is parent.py.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping, Sequence
from types import FrameType

from rota.config import Config
from rota.engine.processes.child_process import ChildProcess
from rota.engine.processes.parent_lease import ParentLease
from rota.engine.processes.relay import Relay
from rota.engine.processes.shutdown import CALLS
from rota.engine.starting import until_open
from rota.postgres.sessions.pool import Database
from rota.telemetry.logger import get_logger

_STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LOOK_SECONDS = 0.1
# A parent that was itself stopped for this long cannot tell which children were blocked meanwhile.
_STALL_SECONDS = 2.0
# A worker that is blocked for this long loses the upkeep to another.
_DUTY_SECONDS = 5.0
_TIMEOUT_GRACE = 5.0
# How long a worker may take beyond shutdown_seconds, for interrupted handlers and the last writes.
_SHUTDOWN_MARGIN = 20.0
_LAST_WORDS = 5.0


def supervise(
    *,
    config: Config,
    database: Database,
    command: Sequence[str],
    processes: int,
    env: Mapping[str, str] | None = None,
) -> int:
    """Run `processes` workers until SIGTERM or SIGINT; returns the exit code.

    Call it in the main thread, outside of any event loop: it blocks and takes both signals.

    `command` is the argument list that starts *one* worker, such as `[sys.executable, "-m",
    "rota", "worker", …, "--processes", "1"]`; `env` its environment (none: this one's). Nothing
    in it needs to say that the worker is a child: `app.worker(owns_process=True)` finds that out
    by itself, and `run_until_signal` ends when such a worker ends. The command must be the worker
    process itself, not a shell around it.

    `config` must be what the children load too: its lease, shutdown time and concurrency (which
    is each child's) are relied on here. `database` is opened first, so that a database that is
    missing or not migrated is an error of this call and not of N children; for one that is away it
    waits.

    0: all have shut down in order. 1: at least one had to be killed.
    """
    until_open(database)
    return Supervisor(
        config=config, database=database, command=command, processes=processes, env=env
    ).run()


class Supervisor:
    """Checks its children ten times a second; `run` lasts from start to shutdown."""

    def __init__(
        self,
        *,
        config: Config,
        database: Database,
        command: Sequence[str],
        processes: int,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config.worker
        self._log = get_logger("supervisor")
        self._leases = ParentLease(database, lease_seconds=self._config.lease_seconds)
        environment = os.environ if env is None else env
        self._children = [
            ChildProcess(command, environment, self._config.concurrency) for _ in range(processes)
        ]
        self._relay = Relay(
            database,
            [child.channel for child in self._children],
            patience=self._config.patience_seconds,
        )
        self._on_duty: ChildProcess | None = None
        self._signals = 0
        self._awake_since = self._looked_at = time.monotonic()
        self._exit_code = 0

    def run(self) -> int:
        before = {number: signal.signal(number, self._on_signal) for number in _STOPPING_SIGNALS}
        before |= {number: signal.signal(number, self._on_call) for number in CALLS}
        self._leases.start()
        self._relay.start()
        self._log.info("supervisor started", processes=len(self._children), pid=os.getpid())
        try:
            while not self._signals and not all(child.is_retired for child in self._children):
                self._look()
                time.sleep(_LOOK_SECONDS)
        finally:
            # Also in order after an unexpected error here.
            self._signals = max(1, self._signals)
            self._shut_down()
            self._kill_all()
            self._relay.stop(_LAST_WORDS)
            self._leases.stop(_LAST_WORDS)
            for number, handler in before.items():
                signal.signal(number, handler)
        self._log.info("supervisor stopped", exit_code=self._exit_code)
        return self._exit_code

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _on_call(self, number: int, _frame: FrameType | None) -> None:
        """Forward the signal to all children, some of which may sleep."""
        for child in self._children:
            child.send(number)

    # While running.

    def _look(self) -> None:
        self._check()
        for child in self._children:
            is_due = not child.is_retired and time.monotonic() >= child.start_at
            if is_due and not child.is_running:
                self._start(child)
        self._give_duty()
        self._keep_hours()

    def _give_duty(self) -> None:
        """Let one worker perform for all what is needed once; it keeps that duty as long as it
        can."""
        last = self._on_duty
        if last is not None and self._is_fit(last):
            return
        fit = next(filter(self._is_fit, self._children), None)
        if fit is None or fit.page is None:
            return
        if last is not None and last.page is not None:
            last.page.has_duty = False
        fit.page.has_duty = True
        self._on_duty, self._relay.duty = fit, fit.channel
        self._log.info("this worker process now performs the upkeep", pid=fit.pid)

    def _is_fit(self, child: ChildProcess) -> bool:
        page = child.page
        if page is None or not child.is_running or not page.worker or page.is_leaving:
            return False
        silent = time.monotonic() - max(page.stamped_at / 1e9, self._awake_since)
        return page.is_willing and silent < _DUTY_SECONDS

    def _keep_hours(self) -> None:
        """All workers sleep together, and one that wakes makes the others wake."""
        pages = {child: child.page for child in self._children if child.is_running and child.page}
        is_night = bool(pages) and all(page.is_drowsy for page in pages.values())
        for child, page in pages.items():
            page.is_night = is_night
            if page.is_asleep and not is_night:
                self._relay.wake(child.channel)
        self._relay.set_awake(not pages or not all(page.is_asleep for page in pages.values()))

    def _check(self) -> bool:
        """Find children that have ended and end those that are stuck; return whether any is
        left."""
        now = time.monotonic()
        if now - self._looked_at > _STALL_SECONDS:
            self._awake_since = now
        self._looked_at = now
        for child in self._children:
            if child.is_running:
                self._reap(child)
            if child.is_running:
                self._end_stuck(child)
        return any(child.is_running for child in self._children)

    def _start(self, child: ChildProcess) -> None:
        try:
            page, end = child.start()
        except OSError as error:
            child.pause()
            self._log.error("a worker process could not be started", error=error)
            return
        self._leases.watch(page, child.pid)
        self._relay.join(child.channel, end)
        self._log.info("worker process started", pid=child.pid)

    def _reap(self, child: ChildProcess) -> None:
        """Check whether the child has ended, and let it be replaced."""
        code = child.poll()
        if code is None:
            return
        assert child.page is not None
        self._leases.ended(child.page, child.overdue)
        self._relay.leave(child.channel)
        child.pause()
        child.is_retired = child.page.is_retired
        if child.is_retired:
            self._log.info("worker process stopped by an operator, not replaced", pid=child.pid)
        elif not self._signals:
            self._log.error("worker process ended", pid=child.pid, exit_code=code)

    def _end_stuck(self, child: ChildProcess) -> None:
        """Kill a blocked child with overdue attempts: only a blocked event loop cannot stop them
        itself."""
        page, now = child.page, time.monotonic()
        assert page is not None
        silent = now - max(page.stamped_at / 1e9, self._awake_since)
        if silent <= self._config.lease_seconds:
            return
        if any(page.overdue(int((now - _TIMEOUT_GRACE) * 1e9))):
            self._log.critical(
                "killed a worker whose handler blocked it past its timeout", pid=child.pid
            )
            child.kill()
            # The page does not change any more, and shows the attempts.
            child.overdue = tuple(page.overdue(int(now * 1e9)))
            self._reap(child)

    # Shutdown.

    def _shut_down(self) -> None:
        """Pass on each signal: the second one makes the children hurry."""
        limit = self._config.shutdown_seconds + _SHUTDOWN_MARGIN
        deadline, passed_on = time.monotonic() + limit, 0
        while self._check() and time.monotonic() < deadline:
            if passed_on < self._signals:
                passed_on = self._signals
                self._log.info("stopping the worker processes", signals=passed_on)
                for child in self._children:
                    child.terminate()
            time.sleep(_LOOK_SECONDS)

    def _kill_all(self) -> None:
        for child in self._children:
            if child.is_running:
                self._log.error("worker process did not stop in time: killed", pid=child.pid)
                self._exit_code = 1
                child.kill()
                self._reap(child)
