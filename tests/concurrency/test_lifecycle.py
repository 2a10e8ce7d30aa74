"""The life of runs against a model in Python: any order of any actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.database import Server
from tests.depth import examples
from tests.sql_engine import Engine, Row

MAX = 2


@dataclass
class Run:
    """What the model knows about a run."""

    state: str = "queued"
    attempt: int = 0
    used: int = 0
    allowed: int = MAX
    key: str | None = None
    worker: int | None = None
    is_suspect: bool = False
    is_held: bool = False
    is_isolated: bool = False
    doubts: int = 0
    is_started: bool = True
    asked_to_cancel: bool = False
    claim: Row = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        return self.state in ("queued", "scheduled", "running")

    def end(self, state: str) -> None:
        self.state, self.worker, self.asked_to_cancel = state, None, False
        self.is_isolated = self.is_held = False

    def wait(self, state: str = "queued") -> None:
        self.state, self.worker, self.is_isolated = state, None, False


class Lifecycle(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.runs: dict[int, Run] = {}
        self.workers: list[int] = []
        self.batch = 0

    @initialize()
    def begin(self) -> None:
        # Not TRUNCATE: it writes new files for every partition.
        for table in (
            "open_runs", "ended_runs", "past_attempts", "keys", "workers", "cancel_requests",
            "batch_starts", "audit",
        ):  # fmt: skip
            self.engine.conn.execute(f"DELETE FROM rota.{table}".encode())
        # The same numbers and the same time again: an example must be repeatable.
        for sequence in ("run_ids", "worker_ids"):
            self.engine.conn.execute(f"SELECT setval('rota.{sequence}', 1)".encode())
        self.engine.conn.execute("SELECT rota.set_clock(NULL)")
        self.workers = [self.engine.worker(lease=600) for _ in range(2)]

    # Choosing.

    def some(self, data: Any, *states: str) -> tuple[int, Run]:
        found = [(run_id, run) for run_id, run in self.runs.items() if run.state in states]
        return data.draw(st.sampled_from(found))  # type: ignore[no-any-return]

    def has(self, *states: str) -> bool:
        return any(run.state in states for run in self.runs.values())

    # What callers do.

    @rule(later=st.booleans(), key=st.sampled_from([None, None, "a", "b"]))
    def enqueue(self, later: bool, key: str | None) -> None:
        delay = "1 hour" if later else None
        row = self.engine.enqueue_run(delay=delay, key=key, max_attempts=MAX)
        holder = [i for i, run in self.runs.items() if key and run.key == key and run.is_open]
        assert row["is_duplicate"] is bool(holder)
        if holder:
            assert row["run_id"] == holder[0]
        else:
            assert row["run_id"] not in self.runs
            self.runs[row["run_id"]] = Run(state="scheduled" if later else "queued", key=key)

    @precondition(lambda self: self.has("queued", "scheduled", "running"))
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        run_id, run = self.some(data, "queued", "scheduled", "running")
        answer = self.engine.cancel(run_id)
        if run.state == "running":
            assert answer == "requested"
            run.asked_to_cancel = True
        else:
            assert answer == "cancelled"
            run.end("cancelled")

    @precondition(lambda self: self.has("failed", "cancelled"))
    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        run_id, run = self.some(data, "failed", "cancelled")
        taken = any(it.key == run.key and it.is_open for it in self.runs.values() if run.key)
        if taken:
            with pytest.raises(psycopg.Error, match="is held by run"):
                self.engine.retry(run_id)
            return
        self.engine.retry(run_id)
        run.allowed = max(run.allowed, run.used + 3)
        run.is_suspect = run.is_held = False
        run.wait()

    @precondition(lambda self: self.has("queued", "scheduled", "running", "succeeded"))
    @rule(data=st.data())
    def refuse_a_retry(self, data: Any) -> None:
        run_id, _ = self.some(data, "queued", "scheduled", "running", "succeeded")
        with pytest.raises(psycopg.Error, match="Only a run that failed"):
            self.engine.retry(run_id)

    # What workers do.

    @rule(data=st.data(), limit=st.integers(1, 3), ahead=st.booleans())
    def claim(self, data: Any, limit: int, ahead: bool) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.batch += 1
        claims = self.engine.claim(worker, limit, batch=self.batch if ahead else None)
        free = [i for i, run in self.runs.items() if run.state == "queued" and not run.is_held]
        assert len(claims) == min(limit, len(free))
        self.take(worker, claims, is_ahead=ahead)

    @rule(data=st.data())
    def claim_suspect(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        claims = self.engine.claim_suspect(worker)
        own = [i for i, run in self.runs.items() if run.is_isolated and run.worker == worker]
        if own:
            assert [claim["id"] for claim in claims] == own
            return
        free = [i for i, run in self.runs.items() if run.state == "queued" and run.is_held]
        assert len(claims) == min(1, len(free))
        self.take(worker, claims, is_ahead=False)
        for claim in claims:
            self.runs[claim["id"]].is_isolated = True

    def take(self, worker: int, claims: list[Row], *, is_ahead: bool) -> None:
        for claim in claims:
            run = self.runs[claim["id"]]
            assert run.state == "queued"
            assert (claim["attempt"], claim["attempts_used"]) == (run.attempt + 1, run.used)
            run.state, run.worker, run.attempt = "running", worker, run.attempt + 1
            run.claim, run.asked_to_cancel = claim, False
            run.is_started, run.is_held, run.is_isolated = not is_ahead, False, False

    @precondition(lambda self: self.has("running"))
    @rule(data=st.data())
    def succeed(self, data: Any) -> None:
        run_id, run = self.some(data, "running")
        assert run.worker is not None
        assert self.engine.succeed(run.worker, run.claim) == [run_id]
        run.used += 1
        run.end("succeeded")

    @precondition(lambda self: self.has("running"))
    @rule(data=st.data(), delay=st.sampled_from([None, 0.0, 60.0]), spent=st.booleans())
    def go_on(self, data: Any, delay: float | None, spent: bool) -> None:
        run_id, run = self.some(data, "running")
        assert run.worker is not None
        if spent and run.used + 1 >= run.allowed:
            assert self.engine.fail(run.worker, run.claim) == [run_id]
            run.used += 1
            run.end("failed")
            return
        state = "failed" if spent else "snoozed"
        assert self.engine.requeue(run.worker, run.claim, delay, state=state, spent=spent) == [
            run_id
        ]
        run.used += spent
        if run.asked_to_cancel:
            run.end("cancelled")
        else:
            run.is_suspect = False
            run.wait("scheduled" if delay else "queued")

    @precondition(lambda self: self.has("running"))
    @rule(data=st.data())
    def hand_back(self, data: Any) -> None:
        run_id, run = self.some(data, "running")
        assert run.worker is not None
        assert self.engine.hand_back(run.worker, run.claim) == [run_id]
        run.is_held = run.is_isolated
        run.end("cancelled") if run.asked_to_cancel else run.wait()

    @precondition(lambda self: any(run.claim for run in self.runs.values()))
    @rule(data=st.data())
    def write_too_late(self, data: Any) -> None:
        """With a claim that is over, or by a worker that has no part in it."""
        claims = [run.claim for run in self.runs.values() if run.claim]
        claim = data.draw(st.sampled_from(claims))
        run = self.runs[claim["id"]]
        worker = data.draw(st.sampled_from(self.workers))
        if run.state == "running" and run.worker == worker:
            claim = claim | {"attempt": claim["attempt"] - 1}
        assert self.engine.succeed(worker, claim) == []
        assert self.engine.requeue(worker, claim) == []
        assert self.engine.hand_back(worker, claim) == []

    # What time does.

    @rule()
    def pass_an_hour(self) -> None:
        self.engine.advance(3700)
        waiting = [run for run in self.runs.values() if run.state == "scheduled"]
        assert self.engine.promote() == len(waiting)
        for run in waiting:
            run.state = "queued"

    @rule(data=st.data())
    def lose_a_worker(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        held = {i: run for i, run in self.runs.items() if run.worker == worker}
        self.engine.lose(worker)
        self.workers[self.workers.index(worker)] = self.engine.worker(lease=600)
        is_shared = sum(run.is_started for run in held.values()) > 1
        assert self.engine.rescue() == {i: self.rescued(run, is_shared) for i, run in held.items()}

    def rescued(self, run: Run, is_shared: bool) -> str:
        if run.asked_to_cancel:
            run.used += 1
            run.end("cancelled")
            return "cancelled"
        if not run.is_started:
            run.wait()
            return "handed back"
        is_last, decision = run.used + 1 >= run.allowed, "requeued"
        run.is_held = run.is_suspect or not is_shared or run.used + 2 >= run.allowed
        if is_last and is_shared and run.doubts < 3:
            decision = "suspected"
            run.doubts += 1
        else:
            run.used += 1
            if is_last:
                run.end("failed")
                return "failed"
        run.is_suspect = True
        run.wait()
        return decision

    # What must hold.

    @invariant()
    def the_database_agrees(self) -> None:
        shown = {
            row["id"]: (row["state"], row["attempt"], row["attempts_used"], row["worker"])
            for row in self.engine.rows("SELECT * FROM rota.runs")
        }
        assert {run_id: row[:3] for run_id, row in shown.items()} == {
            run_id: (run.state, run.attempt, run.used) for run_id, run in self.runs.items()
        }
        for run_id, run in self.runs.items():
            assert run.state != "running" or shown[run_id][3] == run.worker

    @invariant()
    def keys_are_held_by_open_runs_only(self) -> None:
        held = {row["key"]: row["run_id"] for row in self.engine.rows("SELECT * FROM rota.keys")}
        assert held == {run.key: i for i, run in self.runs.items() if run.key and run.is_open}

    @invariant()
    def attempts_add_up(self) -> None:
        wrong = self.engine.rows(
            "SELECT r.id FROM rota.runs r JOIN rota.attempts a ON a.run_id = r.id GROUP BY r.id,"
            " r.attempts_used HAVING count(*) FILTER (WHERE a.is_spent) <> r.attempts_used"
            " OR count(*) <> count(DISTINCT a.attempt)"
        )
        assert wrong == []


@pytest.fixture
def machine(server: Server) -> Iterator[type[Lifecycle]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Lifecycle.engine = Engine(conn)
        Lifecycle.engine.job("work")
        yield Lifecycle


def test_the_life_of_runs(machine: type[Lifecycle]) -> None:
    test = machine.TestCase()
    test.settings = settings(
        max_examples=examples(usual=60, deep=200),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
