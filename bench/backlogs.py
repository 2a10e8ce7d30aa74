"""N runs by worker processes, in the three ways in which workers meet them: warm, idle, and not yet
started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.pipe import Pipe
from bench.server import Conn
from bench.workers import Workers

if TYPE_CHECKING:
    from bench.systems.base import System

_LOOK_SECONDS = 0.002
_LIMIT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True)
class Measured:
    """From the moment in which workers can begin, or are started, to the last end committed;
    `first`: seconds to the start of the first body."""

    runs: int
    seconds: float
    worker_cpu: float
    server_cpu: float | None
    first: float | None = None

    @property
    def rate(self) -> float:
        return self.runs / self.seconds


@dataclass(frozen=True, slots=True)
class Sustained:
    """Runs that came while others were worked on; `behind`: seconds from the last enqueue until
    all of them had ended."""

    measured: Measured
    behind: float


class BusyWorkers:
    """Workers of one system, and what N runs take them."""

    def __init__(
        self, system: System, workers: Workers, pipe: Pipe, options: Mapping[str, str]
    ) -> None:
        self.system = system
        self.pipe = pipe
        self._workers = workers
        self._options = {key: value for key, value in options.items() if key != "BENCH_STAMPS"}

    def work_off(self, runs: int) -> Measured:
        """The workers stand still while the runs are enqueued, so that nobody who enqueues takes
        their core, and long enough that whoever polls is due to look when they go on."""
        system, workers = self.system, self._workers
        with self._looking() as conn:
            place = _value(conn, system.place_sql)
            workers.freeze()
            frozen = time.monotonic()
            system.enqueue_bulk(runs, **self._options)
            time.sleep(max(0.1, frozen + system.poll_seconds - time.monotonic()))
            self.pipe.clear()
            use = self._use()
            workers.release()
            return self._until_empty(conn, place, runs, use)

    def receive(self, runs: int) -> Measured:
        """The runs come while the workers rest. What the workers and the server have used until
        the commit is not counted: it is the enqueuer's."""
        with self._looking() as conn:
            place = _value(conn, self.system.place_sql)
            self.pipe.clear()
            with self.system.enqueuing(runs, **self._options):
                return self._until_empty(conn, place, runs, self._use())

    def start(self, runs: int, stack: ExitStack) -> Measured:
        """The runs are there already: the clock runs from the start of the processes."""
        conn = stack.enter_context(self._looking())
        use = self._use()
        stack.enter_context(self._workers)
        return self._until_empty(conn, 0, runs, use)

    def sustain(self, rate: int, seconds: int) -> Sustained:
        """Runs come at this rate while the workers work."""
        system = self.system
        with self._looking() as conn:
            place = _value(conn, system.place_sql)
            use = self._use()
            told = system.run("steady", rate, seconds, **self._options)
            ended = time.perf_counter()
            self._wait_empty(conn, place)
            behind = time.perf_counter() - ended
        worker_cpu, server_cpu = self._used_since(use)
        return Sustained(Measured(told["runs"], told["seconds"], worker_cpu, server_cpu), behind)

    def memory_bytes(self) -> int:
        return self._workers.memory_bytes()

    def _looking(self) -> Conn:
        conn = self.system.server.connect(self.system.database)
        conn.execute("SET enable_seqscan = off")
        return conn

    def _use(self) -> _Use:
        server = self.system.server.cpu_seconds()
        return _Use(time.perf_counter(), time.time_ns(), self._workers.cpu_seconds(), server)

    def _used_since(self, use: _Use) -> tuple[float, float | None]:
        server = self.system.server.cpu_seconds()
        if server is not None and use.server_cpu is not None:
            server -= use.server_cpu
        return self._workers.cpu_seconds() - use.worker_cpu, server

    def _until_empty(self, conn: Conn, place: int, runs: int, use: _Use) -> Measured:
        """The tables are looked at only when the last body has started."""
        self._wait_for_last()
        self._wait_empty(conn, place)
        seconds = time.perf_counter() - use.at
        first = self.pipe.starts.get(0)
        since = (first - use.at_ns) / 1e9 if first is not None else None
        return Measured(runs, seconds, *self._used_since(use), since)

    def _wait_for_last(self) -> None:
        limit = time.monotonic() + _LIMIT_SECONDS
        while not self.pipe.wait_for(-1, 1.0):
            self._workers.check()
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.system.name} did not come to its last run")

    def _wait_empty(self, conn: Conn, place: int) -> None:
        limit = time.monotonic() + _LIMIT_SECONDS
        while _value(conn, self.system.open_sql, place):
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.system.name} did not finish its runs")
            time.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, slots=True)
class _Use:
    """A moment, and what had been used by then."""

    at: float
    at_ns: int
    worker_cpu: float
    server_cpu: float | None


def _value(conn: Conn, sql: str, *words: object) -> Any:
    row = conn.execute(sql, [words[0]] if "%s" in sql else []).fetchone()
    assert row is not None
    return row[0]
