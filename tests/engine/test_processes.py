"""`rota worker --processes N` shares what it can: one connection hears the calls of all children,
and one child does what has to be done once. With a poll of minutes only a call explains a start."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Any

import psutil
import pytest

from rota.engine.loop import Loop
from rota.engine.loops.shared_loops import SharedLoops
from rota.engine.processes.relayed import RelayedListener
from rota.testing import eventually, eventually_sync
from tests.sql_engine import Engine
from tests.workers import WorkerProcess

Start = Callable[..., WorkerProcess]
APP = "tests.apps.basic:app"
SLOW_POLL = {"worker.poll_seconds": 600.0, "worker.lease_seconds": 60.0}


class Several:
    """A parent with its children, as the database and the system see them."""

    def __init__(self, parent: WorkerProcess, engine: Engine, processes: int) -> None:
        self.parent = parent
        self._engine = engine
        self._processes = processes

    def wait_idle(self) -> None:
        """All have registered and wait to be called, and one does the upkeep."""
        sql = "SELECT count(*) FROM rota.workers WHERE state = 'live' AND is_waiting"
        eventually_sync(lambda: self._engine.one(sql) == self._processes, 90)
        eventually_sync(lambda: self.on_duty in self.children, 60)

    @property
    def children(self) -> list[int]:
        sql = "SELECT pid FROM rota.workers WHERE state = 'live' ORDER BY id"
        return [row["pid"] for row in self._engine.rows(sql)]

    @property
    def on_duty(self) -> int | None:
        """As the parent has said last."""
        lines = [line for line in self.parent.output.splitlines() if "performs the upkeep" in line]
        return int(lines[-1].rpartition("pid=")[2].split()[0]) if lines else None

    def connections(self) -> dict[str, int]:
        return {
            row["name"]: row["count"]
            for row in self._engine.rows(
                "SELECT split_part(application_name, ' ', 2) AS name, count(*)"
                " FROM pg_stat_activity WHERE datname = current_database()"
                " AND application_name LIKE 'rota%' GROUP BY 1"
            )
        }

    def add(self) -> int:
        sql = "SELECT rota.enqueue('add', %s)"
        return int(self._engine.one(sql, json.dumps({"a": 1, "b": 2})))

    def is_served(self) -> None:
        run = self.add()
        eventually_sync(lambda: self._engine.state(run) == "succeeded", 50)


@pytest.fixture
def several(worker_process: Start, engine: Engine) -> Iterator[Callable[..., Several]]:
    started: list[Several] = []

    def start(processes: int = 2, **settings: Any) -> Several:
        settings = SLOW_POLL | {"worker.processes": processes} | settings
        started.append(Several(worker_process(APP, wait=False, **settings), engine, processes))
        started[-1].wait_idle()
        return started[-1]

    yield start
    for process in started:
        print(process.parent.output)
        parent = psutil.Process(process.parent.pid) if process.parent.returncode is None else None
        children = parent.children() if parent is not None else []
        process.parent.close()
        for child in children:
            child.kill()


def test_four_idle_children_take_ten_connections(several: Callable[..., Several]) -> None:
    """Of each child its claims and one for its own small things; of the parent one for leases and
    one that listens. Each for itself would take three, and the parent one: thirteen."""
    these = several(4, **{"worker.lease_seconds": 4.5})

    def is_at_rest() -> bool:
        found = these.connections()
        return found.get("listener") == 1 and found.get("supervisor") == 1

    eventually_sync(is_at_rest, 60)
    found = these.connections()
    assert found["worker"] == 4
    assert found.get("lease", 0) == 0
    eventually_sync(lambda: sum(these.connections().values()) <= 10, 60)


def test_calls_reach_the_children_through_the_parent(several: Callable[..., Several]) -> None:
    these = several()
    for _ in range(3):
        these.is_served()
    assert these.connections()["listener"] == 1


def test_a_killed_child_keeps_nobody_from_being_called(
    several: Callable[..., Several], engine: Engine
) -> None:
    these = several()
    first = these.on_duty
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually_sync(lambda: these.on_duty != first, 30)
    these.is_served()
    # Upkeep goes on as well: what is due is promoted, by whoever has it now.
    sql = "SELECT rota.enqueue('add', %s, delay => '1 second')"
    later = int(engine.one(sql, json.dumps({"a": 1, "b": 2})))
    eventually_sync(lambda: engine.state(later) == "succeeded", 50)
    these.wait_idle()
    assert first not in these.children
    these.is_served()


def test_whoever_stands_still_loses_the_upkeep(several: Callable[..., Several]) -> None:
    these = several()
    first = these.on_duty
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    try:
        eventually_sync(lambda: these.on_duty != first, 60)
        these.is_served()
    finally:
        os.kill(first, signal.SIGCONT)


def test_a_broken_ear_is_mended_and_work_found_meanwhile(
    several: Callable[..., Several], engine: Engine
) -> None:
    these = several()
    ears = "application_name = 'rota listener' AND datname = current_database()"
    before = engine.one(f"SELECT pid FROM pg_stat_activity WHERE {ears}")
    engine.one("SELECT pg_terminate_backend(%s)", before)
    these.is_served()
    again = f"SELECT count(*) FROM pg_stat_activity WHERE {ears} AND pid <> %s"
    eventually_sync(lambda: engine.one(again, before) == 1, 60)
    these.wait_idle()
    these.is_served()


def test_one_that_drains_leaves_the_upkeep(several: Callable[..., Several], engine: Engine) -> None:
    these = several()
    first = these.on_duty
    engine.one("SELECT rota.drain_worker((SELECT id FROM rota.workers WHERE pid = %s))", first)
    eventually_sync(lambda: these.on_duty != first, 60)
    these.is_served()


def test_they_stop_in_order(several: Callable[..., Several], engine: Engine) -> None:
    these = several()
    these.parent.terminate()
    assert these.parent.wait() == 0
    assert engine.one("SELECT count(*) FROM rota.workers WHERE state <> 'gone'") == 0
    assert these.connections() == {}


# The parts, without processes.


class Turns(Loop):
    name = "turns"

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def run_once(self) -> float:
        self.count += 1
        return 60.0


async def test_shared_loops_begin_and_end_with_their_process() -> None:
    loop, scheduler, moves = Turns(), Turns(), []
    shared_loops = SharedLoops([loop], {"due": loop}, scheduler)
    shared_loops.tell_other = moves.append
    shared_loops.take(False)
    await shared_loops.start()
    assert (loop._task, scheduler._task) == (None, None)
    shared_loops.ask("due")
    assert moves == ["due"]
    shared_loops.take(True)
    await eventually(lambda: loop.count == 1 and scheduler.count == 1)
    shared_loops.ask("due")
    await eventually(lambda: loop.count == 2)
    await shared_loops.let_tick(False)
    assert scheduler._task is None
    assert loop._task is not None
    await shared_loops.stop()
    assert loop._task is None


async def test_words_of_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = socket.socketpair()
    heard: list[object] = []
    listener = RelayedListener(
        theirs,
        "rota_x",
        on_call=lambda words, _: heard.append(words),
        on_change=heard.append,
        on_wake=lambda: heard.append("woken"),
    )
    listener.start()
    ours.send(b'"listening"\n"queue a\\nb"\n"missed"\n')
    await eventually(lambda: heard == [True, "queue a\nb", "woken"])
    await listener.stop()
    ours.send(b'"queue x"\n"wake"\n')
    await eventually(lambda: heard[3:] == [False, "woken"])
    listener.start()
    assert heard[5:] == [True]
    listener.say("due")
    ours.setblocking(True)
    assert ours.recv(100) == b'"due"\n'
    ours.close()
    await eventually(lambda: heard[6:] == [False])
    await listener.end()
