from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import psycopg
import pytest

from rota.testing import eventually_sync as eventually
from tests.conftest import SHORT
from tests.workers import WorkerProcess, environment

_APP = "tests.apps.holding:app"
# A beat of the supervisor may be late on a busy machine; a lease must bear that.
_SETTINGS = SHORT | {"worker.lease_seconds": 3.0, "worker.processes": 2, "worker.concurrency": 4}

Conn = psycopg.Connection[Any]


class Supervised:
    """A supervisor with its workers, as the database and the system see them."""

    def __init__(self, url: str, conn: Conn, settings: dict[str, Any]) -> None:
        self.conn = conn
        self.settings = _SETTINGS | settings
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rota", "worker", "--app", _APP],
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment(url, self.settings, "uvloop"),
        )

    @property
    def output(self) -> str:
        self._output.seek(0)
        return self._output.read().decode("utf-8", "replace")

    def workers(self, *states: str) -> dict[int, int]:
        """Pids of the workers in these states, by their id."""
        sql = "SELECT id, pid FROM rota.workers WHERE state = ANY (%s) ORDER BY id"
        return dict(self.conn.execute(sql, [list(states or ["live"])]).fetchall())

    def wait_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.output
            return len(self.workers()) == self.settings["worker.processes"]

        eventually(is_ready, 60)

    def enqueue(self, job: str, **payload: Any) -> int:
        row = self.conn.execute("SELECT rota.enqueue(%s, %s)", [job, json.dumps(payload)])
        return int(row.fetchone()[0])  # type: ignore[index]

    def run(self, run_id: int) -> dict[str, Any]:
        cursor = self.conn.execute("SELECT to_jsonb(r) FROM rota.runs r WHERE id = %s", [run_id])
        return cursor.fetchone()[0]  # type: ignore[index, no-any-return]

    def attempts(self, run_id: int) -> list[tuple[str, str | None]]:
        sql = "SELECT state, error FROM rota.attempts WHERE run_id = %s ORDER BY attempt"
        return self.conn.execute(sql, [run_id]).fetchall()

    def wait_running(self, *run_ids: int) -> None:
        eventually(lambda: all(self.run(id_)["state"] == "running" for id_ in run_ids), 30)

    def wait_ended(self, run_id: int) -> dict[str, Any]:
        eventually(lambda: self.run(run_id)["finished_at"] is not None, 60)
        return self.run(run_id)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.workers("live", "stopping", "lost").values():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self._output.close()


def is_alive(pid: int) -> bool:
    """Still there; what has ended and waits for its parent is not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def supervised(database_url: str, conn: Conn) -> Iterator[Callable[..., Supervised]]:
    started: list[Supervised] = []

    def start(**settings: Any) -> Supervised:
        started.append(Supervised(database_url, conn, settings))
        started[-1].wait_ready()
        return started[-1]

    yield start
    for process in started:
        print(process.output)
        process.close()


def test_starts_workers_and_stops_them_in_order(supervised: Callable[..., Supervised]) -> None:
    these = supervised()
    pids = set(these.workers().values())
    assert len(pids) == 2
    ended = these.wait_ended(these.enqueue("sleep", seconds=0))
    assert int(ended["result"]) in pids

    running = these.enqueue("sleep", seconds=2)
    these.wait_running(running)
    these.process.send_signal(signal.SIGINT)

    assert these.process.wait(60) == 0
    assert len(these.workers("gone")) == 2
    assert these.run(running)["state"] == "succeeded"
    assert not any(is_alive(pid) for pid in pids)


def test_second_signal_hurries(supervised: Callable[..., Supervised]) -> None:
    these = supervised(**{"worker.shutdown_seconds": 600})
    runs = [these.enqueue("sleep", seconds=600) for _ in range(20)]
    eventually(lambda: [these.run(run)["state"] for run in runs].count("running") >= 8)

    these.process.terminate()
    eventually(lambda: len(these.workers("stopping")) + len(these.workers("gone")) == 2)
    these.process.terminate()

    assert these.process.wait(60) == 0
    left = these.conn.execute("SELECT DISTINCT worker, attempts_used FROM rota.open_runs")
    assert left.fetchall() == [(None, 0)]


def test_dead_worker_is_replaced_and_its_runs_rescued(
    supervised: Callable[..., Supervised],
) -> None:
    # With this lease nobody would be found lost by it during the test.
    these = supervised(**{"worker.lease_seconds": 600.0})
    before = these.workers()
    run = these.enqueue("sleep", seconds=3)
    these.wait_running(run)
    victim = these.run(run)["worker"]
    os.kill(before[victim], signal.SIGKILL)

    eventually(lambda: victim in these.workers("lost"))
    eventually(lambda: len(set(these.workers()) - set(before)) == 1, 60)
    assert these.wait_ended(run)["state"] == "succeeded"
    assert [state for state, _ in these.attempts(run)] == ["lost", "succeeded"]


def test_held_interpreter_keeps_its_lease(supervised: Callable[..., Supervised]) -> None:
    these = supervised()
    before = these.workers()
    run = these.enqueue("hold_interpreter", seconds=8)
    these.wait_running(run)
    worker = these.run(run)["worker"]

    def is_shown_stuck() -> bool:
        sql = "SELECT is_stuck FROM rota.workers WHERE id = %s"
        return bool(these.conn.execute(sql, [worker]).fetchone()[0])  # type: ignore[index]

    eventually(is_shown_stuck)
    assert int(these.wait_ended(run)["result"]) == before[worker]
    assert [state for state, _ in these.attempts(run)] == ["succeeded"]
    assert these.workers() == before
    eventually(lambda: not is_shown_stuck())


def test_body_that_holds_on_past_its_timeout_is_killed(
    supervised: Callable[..., Supervised],
) -> None:
    these = supervised()
    before = these.workers()
    run = these.enqueue("hold_too_long")
    these.wait_running(run)
    worker = these.run(run)["worker"]

    ended = these.wait_ended(run)
    assert ended["state"] == "failed"
    assert these.attempts(run) == [("timed_out", "attempt exceeded its timeout of 1 s")]
    eventually(lambda: worker in these.workers("lost"))
    eventually(lambda: len(these.workers()) == 2, 60)
    assert len(set(these.workers()) - set(before)) == 1


def test_workers_go_with_a_killed_supervisor(supervised: Callable[..., Supervised]) -> None:
    these = supervised()
    pids = these.workers().values()
    # Longer than the lease: they renew it themselves until the end.
    run = these.enqueue("sleep", seconds=5)
    these.wait_running(run)
    these.process.kill()

    eventually(lambda: not any(is_alive(pid) for pid in pids), 60)
    assert len(these.workers("gone")) == 2
    assert [state for state, _ in these.attempts(run)] == ["succeeded"]


def test_worker_found_lost_registers_again(supervised: Callable[..., Supervised]) -> None:
    these = supervised()
    before = these.workers()
    victim = min(before)
    these.conn.execute(
        "UPDATE rota.workers SET state = 'lost', ended_at = clock_timestamp(), is_waiting = false "
        "WHERE id = %s",
        [victim],
    )
    eventually(lambda: len(these.workers()) == 2)
    assert sorted(these.workers().values()) == sorted(before.values())
    # The new identity is renewed by the supervisor like the old one.
    new = max(these.workers())
    sql = "SELECT heartbeat_at > started_at + interval '2 s' FROM rota.workers WHERE id = %s"
    eventually(lambda: bool(these.conn.execute(sql, [new]).fetchone()[0]))  # type: ignore[index]


def test_silent_supervisor_stops_claims_until_it_renews_again(
    supervised: Callable[..., Supervised],
) -> None:
    these = supervised(**{"worker.lease_seconds": 9.0, "worker.processes": 2})
    eventually(lambda: "this worker process now performs the upkeep" in these.output)
    os.kill(these.process.pid, signal.SIGSTOP)
    eventually(lambda: these.output.count("cannot renew the lease") == 2, 30)
    run = these.enqueue("sleep", seconds=0)
    soon = "SELECT rota.enqueue('sleep', '{\"seconds\": 0}', run_at => rota.now() + interval '1 s')"
    later = these.conn.execute(soon).fetchone()[0]  # type: ignore[index]
    # The worker lives and has had its time: it promoted, and claimed neither.
    eventually(lambda: these.run(later)["state"] == "queued")
    assert these.run(run)["state"] == "queued"
    os.kill(these.process.pid, signal.SIGCONT)
    assert these.wait_ended(run)["state"] == "succeeded"
    assert these.wait_ended(later)["state"] == "succeeded"


@pytest.mark.slow
def test_children_that_hang_do_not_outlive_a_killed_supervisor(
    supervised: Callable[..., Supervised],
) -> None:
    parent = supervised(**{"worker.shutdown_seconds": 0.5})
    parent.wait_running(*(parent.enqueue("hold_child", seconds=600) for _ in range(4)))
    parent.wait_running(parent.enqueue("hold_loop", seconds=600))
    family = psutil.Process(parent.process.pid).children(recursive=True)
    assert len(family) > 2
    parent.process.kill()
    parent.process.wait()
    eventually(lambda: not any(is_alive(process.pid) for process in family), 60)


@pytest.mark.slow
def test_a_loop_that_stands_still_does_not_keep_a_process_from_its_end(
    worker_process: Callable[..., WorkerProcess], conn: Conn
) -> None:
    worker = worker_process(_APP, **{"worker.shutdown_seconds": 0.5})
    conn.execute("SELECT rota.enqueue('hold_loop', '{\"seconds\": 600}')")
    state = "SELECT bool_or(state = 'running') FROM rota.runs"
    eventually(lambda: conn.execute(state).fetchone() == (True,), 30)
    worker.terminate()
    assert worker.wait(60) == 1
