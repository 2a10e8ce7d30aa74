"""The one interface of all systems, over programs that all have the same command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.backlogs import BusyWorkers, Measured
from bench.pipe import Pipe
from bench.server import Server
from bench.workers import ROOT, Workers


class Missing(Exception):
    """This system cannot be measured here; says why."""


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

    def work_off(self, runs: int, *, processes: int = 1, **options: str) -> Measured:
        """By workers that have already run, frozen while the runs are enqueued."""
        with self.workers(processes, **options) as workers:
            return workers.work_off(runs)

    def work_off_by_idle(self, runs: int, *, processes: int, idle_seconds: float) -> Measured:
        """By workers that have run nothing and have been idle for a while when the runs come."""
        with self.workers(processes, is_warm=False) as workers:
            time.sleep(idle_seconds)
            return workers.receive(runs)

    def work_off_by_start(self, runs: int, *, processes: int) -> Measured:
        """By workers that are started when the runs are there."""
        self.enqueue_bulk(runs)
        with ExitStack() as stack:
            pipe = stack.enter_context(_pipe())
            env = self.environment({"BENCH_MARKS": str(pipe.path)})
            workers = Workers(self.work_command, env, processes, lambda _: processes)
            return BusyWorkers(self, workers, pipe, {}).start(runs, stack)

    def latency(self, runs: int, milliseconds: int) -> list[float]:
        """Seconds from the return of each enqueue to the start of its body, on an idle worker."""
        with self.workers(1, BENCH_STAMPS="1") as workers:
            sent = self.run("paced", runs, milliseconds)["sent"]
            bodies = workers.pipe.collect(runs, seconds=30)
        return [(bodies[n] - at) / 1e9 for n, at in enumerate(sent) if n in bodies]

    @contextmanager
    def workers(
        self, processes: int, *, is_warm: bool = True, **options: str
    ) -> Iterator[BusyWorkers]:
        """Worker processes that wait for work; warm ones have already run something."""
        with ExitStack() as stack:
            pipe = stack.enter_context(_pipe())
            env = self.environment({**options, "BENCH_MARKS": str(pipe.path)})
            ready = self.readiness(pipe)
            workers = stack.enter_context(Workers(self.work_command, env, processes, ready))
            found = BusyWorkers(self, workers, pipe, options)
            if is_warm and "BENCH_STAMPS" not in options and self.warm_up_runs:
                found.work_off(self.warm_up_runs)
            yield found

    # Programs.

    def environment(self, options: Mapping[str, str]) -> dict[str, str]:
        url = {"BENCH_URL": self.server.url_of(self.database)}
        return {**os.environ, **self.server.environment(self.database), **url, **options}

    @contextmanager
    def enqueuing(self, count: int, **options: str) -> Iterator[None]:
        """From the commit of so many runs on, the program that enqueued them stands still: its end
        takes nothing from the workers, who are at it."""
        env = self.environment(options | {"PYTHONUNBUFFERED": "1"})
        argv = [*self.command, "bulk", str(count)]
        with subprocess.Popen(argv, env=env, cwd=ROOT, stdout=subprocess.PIPE) as program:
            assert program.stdout is not None
            if not program.stdout.readline():
                raise RuntimeError(f"{' '.join(argv)} failed")
            program.send_signal(signal.SIGSTOP)
            try:
                yield
            finally:
                program.kill()

    def run(self, command: str, *words: object, **options: str) -> Any:
        argv = [*self.command, command, *map(str, words)]
        done = subprocess.run(
            argv, env=self.environment(options), cwd=ROOT, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(argv)} failed:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else None


@contextmanager
def _pipe() -> Iterator[Pipe]:
    with (
        tempfile.TemporaryDirectory(prefix="rota-bench-") as place,
        Pipe(Path(place) / "marks") as pipe,
    ):
        yield pipe
