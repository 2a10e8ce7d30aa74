"""The one interface of all systems, over programs that all have the same command line."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.pipe import Pipe
from bench.server import Conn, Server
from bench.workers import Workers

ROOT = Path(__file__).parents[2]
_LOOK_SECONDS = 0.002
_LIMIT_SECONDS = 1800.0


class Missing(Exception):
    """This system cannot be measured here; says why."""


@dataclass(frozen=True, slots=True)
class Drain:
    """N runs by workers that were up and warm: from their release to the last end committed."""

    runs: int
    seconds: float
    worker_cpu: float
    server_cpu: float | None

    @property
    def rate(self) -> float:
        return self.runs / self.seconds


@dataclass(frozen=True, slots=True)
class Sustained:
    """Runs that came while others were worked on; `behind`: seconds from the last enqueue until
    all of them had ended."""

    drain: Drain
    behind: float


class System:
    """Measures one system. Every method works on the database `self.database`."""

    name: str
    # Whether anything is open beyond what was there at `place`; asked only at the very end.
    open_sql: str
    place_sql = "SELECT 0"
    schema = "public"
    has_sync = False
    has_steady = True
    # False: nothing is executed, so nothing can be said about bodies.
    has_bodies = True
    # The longest that an idle worker waits before it looks for work by itself.
    poll_seconds = 1.0
    warm_up_runs = 2_000

    def __init__(self, server: Server, peers_dir: Path) -> None:
        self.server = server
        self.peers_dir = peers_dir
        self.database = self.name
        self._template = f"{self.name}_template"

    # What a system says about itself.

    def install(self) -> None:
        """Make the program runnable, or raise Missing."""

    @property
    def command(self) -> Sequence[str]:
        raise NotImplementedError

    @property
    def work_command(self) -> Sequence[str]:
        """What starts a worker process."""
        return [*self.command, "work"]

    def readiness(self, pipe: Pipe) -> Callable[[float], int]:
        """What waits so many seconds and says how many workers are ready."""
        return pipe.count_ready

    def version(self) -> str:
        return ""

    # Databases.

    def prepare(self) -> None:
        """Make the schema once; `fresh` copies it."""
        self.server.create(self._template)
        self.database = self._template
        self.run("prepare")
        self.fresh()

    def fresh(self, database: str | None = None) -> None:
        """Go on with a new copy of the prepared database."""
        self.database = database or self.name
        self.server.create(self.database, self._template)

    # What is measured.

    def enqueue_one_by_one(self, count: int, *, is_sync: bool = False) -> float:
        """Runs a second from one caller, each in a transaction of its own."""
        return count / float(self.run("one", count, *(["sync"] if is_sync else []))["seconds"])

    def enqueue_bulk(self, count: int, **options: str) -> float:
        """Runs a second, all in one transaction."""
        return count / float(self.run("bulk", count, **options)["seconds"])

    def drain(self, runs: int, *, processes: int = 1, **options: str) -> Drain:
        with self.workers(processes, **options) as workers:
            return workers.drain(runs)

    def latency(self, runs: int, milliseconds: int) -> list[float]:
        """Seconds from the return of each enqueue to the start of its body, on an idle worker."""
        with self.workers(1, BENCH_STAMPS="1") as workers:
            sent = self.run("paced", runs, milliseconds)["sent"]
            bodies = workers.pipe.collect(runs, seconds=30)
        return [(bodies[n] - at) / 1e9 for n, at in enumerate(sent) if n in bodies]

    @contextmanager
    def workers(self, processes: int, **options: str) -> Iterator[WarmWorkers]:
        """Worker processes that have already run something and wait for more."""
        with tempfile.TemporaryDirectory(prefix="rota-bench-") as place, ExitStack() as stack:
            pipe = stack.enter_context(Pipe(Path(place) / "marks"))
            env = self.environment({**options, "BENCH_MARKS": str(pipe.path)})
            ready = self.readiness(pipe)
            workers = stack.enter_context(Workers(self.work_command, env, processes, ready))
            warm = WarmWorkers(self, workers, pipe, options)
            if "BENCH_STAMPS" not in options and self.warm_up_runs:
                warm.drain(self.warm_up_runs)
            yield warm

    # Programs.

    def environment(self, options: Mapping[str, str]) -> dict[str, str]:
        url = {"BENCH_URL": self.server.url_of(self.database)}
        return {**os.environ, **self.server.environment(self.database), **url, **options}

    def run(self, command: str, *words: object, **options: str) -> Any:
        argv = [*self.command, command, *map(str, words)]
        done = subprocess.run(
            argv, env=self.environment(options), cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


class WarmWorkers:
    """Workers that wait; drains one bulk after the other."""

    def __init__(
        self, system: System, workers: Workers, pipe: Pipe, options: Mapping[str, str]
    ) -> None:
        self.system = system
        self.pipe = pipe
        self._workers = workers
        self._options = {key: value for key, value in options.items() if key != "BENCH_STAMPS"}

    def drain(self, runs: int) -> Drain:
        """The workers stand still while the runs are enqueued, so that nobody who enqueues takes
        their core, and long enough that whoever polls is due to look when they go on."""
        system, workers = self.system, self._workers
        with system.server.connect(system.database) as conn:
            conn.execute("SET enable_seqscan = off")
            place = _value(conn, system.place_sql)
            workers.freeze()
            frozen = time.monotonic()
            system.enqueue_bulk(runs, **self._options)
            time.sleep(max(0.1, frozen + system.poll_seconds - time.monotonic()))
            self.pipe.clear()
            cpu, server_cpu = workers.cpu_seconds(), system.server.cpu_seconds()
            started = time.perf_counter()
            workers.release()
            self._wait_for_last()
            self._wait_empty(conn, place)
            seconds = time.perf_counter() - started
        used = system.server.cpu_seconds()
        if used is not None and server_cpu is not None:
            used -= server_cpu
        return Drain(runs, seconds, workers.cpu_seconds() - cpu, used)

    def _wait_for_last(self) -> None:
        limit = time.monotonic() + _LIMIT_SECONDS
        while not self.pipe.wait_for(-1, 1.0):
            self._workers.check()
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.system.name} did not come to its last run")

    def sustain(self, rate: int, seconds: int) -> Sustained:
        """Runs come at this rate while the workers work."""
        system, workers = self.system, self._workers
        with system.server.connect(system.database) as conn:
            conn.execute("SET enable_seqscan = off")
            place = _value(conn, system.place_sql)
            cpu, server_cpu = workers.cpu_seconds(), system.server.cpu_seconds()
            told = system.run("steady", rate, seconds, **self._options)
            ended = time.perf_counter()
            self._wait_empty(conn, place)
            behind = time.perf_counter() - ended
        used = system.server.cpu_seconds()
        if used is not None and server_cpu is not None:
            used -= server_cpu
        drain = Drain(told["runs"], told["seconds"], workers.cpu_seconds() - cpu, used)
        return Sustained(drain, behind)

    def memory_bytes(self) -> int:
        return self._workers.memory_bytes()

    def _wait_empty(self, conn: Conn, place: int) -> None:
        limit = time.monotonic() + _LIMIT_SECONDS
        while _value(conn, self.system.open_sql, place):
            if time.monotonic() > limit:
                raise TimeoutError(f"{self.system.name} did not finish its runs")
            time.sleep(_LOOK_SECONDS)


def _value(conn: Conn, sql: str, *words: object) -> Any:
    row = conn.execute(sql, [words[0]] if "%s" in sql else []).fetchone()
    assert row is not None
    return row[0]
