"""Limits under any order of claims, ends, losses, retries, cancels and edits: never one too
many, no slot that nobody has, no run that is forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, ClassVar

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.database import Server
from tests.depth import examples
from tests.sql_engine import Engine, Row

_IN_USE = """
    SELECT k AS key, count(*) AS n FROM rota.open_runs o, unnest(o.slots) k
    WHERE k NOT LIKE 'r%' GROUP BY k
"""
_CAPS = "SELECT left(kind, 1) || id AS key, cap FROM rota.limits WHERE kind <> 'rate'"
_ADOPTING = "SELECT left(kind, 1) || id AS key FROM rota.limits WHERE adopted_id IS NOT NULL"
# Ready or at work without all that it needs.
_UNFIT = """
    SELECT id FROM rota.open_runs o WHERE (o.is_ready OR o.held_by = 'suspect')
      AND EXISTS (SELECT FROM unnest(o.limit_keys) k WHERE k NOT LIKE 'r%'
                  AND k <> ALL (coalesce(o.slots, '{}')) AND (rota.limit_of(k)).id IS NOT NULL)
"""
_LEFT = """
    SELECT * FROM rota.limit_slots s WHERE s.in_use <> 0 AND (rota.limit_of(s.key)).id IS NOT NULL
"""
_LOST = "SELECT id FROM rota.open_runs WHERE held_by = 'limit' AND limit_key IS NULL"


class Limits(RuleBasedStateMachine):
    engine: ClassVar[Engine]

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[int, tuple[int, Row]] = {}
        self.workers: list[int] = []
        self.before: dict[str, int] = {}
        self.adopting: set[str] = set()

    @initialize()
    def begin(self) -> None:
        for table in (
            "open_runs", "ended_runs", "past_attempts", "keys", "workers", "cancel_requests",
            "limits", "limit_slots", "limit_releases", "audit",
        ):  # fmt: skip
            self.engine.conn.execute(f"DELETE FROM rota.{table}".encode())
        self.engine.conn.execute("SELECT rota.set_clock(NULL)")
        self.workers = [self.engine.worker("work", "line", lease=600) for _ in range(2)]
        self.set("all", jobs=["work"], cap=2)
        self.set("each", jobs=["work"], cap=1, key="{customer}")
        self.set("line", jobs=["line"], kind="sequence", key="{customer}")

    def set(self, name: str, **changes: Any) -> None:
        self.engine.one("SELECT rota.set_limit(%s, %s)", name, json.dumps(changes))

    # What callers and operators do.

    @rule(
        customer=st.sampled_from("ab"),
        job=st.sampled_from(["work", "work", "line"]),
        later=st.booleans(),
        priority=st.sampled_from([1, 5]),
    )
    def enqueue(self, customer: str, job: str, later: bool, priority: int) -> None:
        payload = {"customer": customer}
        delay = "1 hour" if later else None
        self.engine.enqueue(job, payload, delay=delay, max_attempts=2, priority=priority)

    @rule(cap=st.integers(0, 3), name=st.sampled_from(["all", "each"]))
    def edit(self, cap: int, name: str) -> None:
        self.set(name, cap=cap)

    @rule(key=st.sampled_from(["{customer}", "{job}:{customer}"]))
    def count_something_else(self, key: str) -> None:
        self.set("each", key=key)

    @rule()
    def remove_and_make_anew(self) -> None:
        self.engine.one("SELECT rota.remove_limit('all')")
        self.admit()
        self.set("all", jobs=["work"], cap=2)

    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        found = self.engine.rows("SELECT id FROM rota.open_runs ORDER BY id")
        if found:
            self.engine.cancel(data.draw(st.sampled_from(found))["id"])

    @rule(data=st.data())
    def retry(self, data: Any) -> None:
        found = self.engine.rows(
            "SELECT id FROM rota.ended_runs WHERE state <> 'succeeded' ORDER BY id"
        )
        if found:
            self.engine.retry(data.draw(st.sampled_from(found))["id"])

    # What workers do.

    @rule()
    def admit(self) -> None:
        for _ in range(100):
            (row,) = self.engine.rows("SELECT * FROM rota.admit_runs(3)")
            if row["next_seconds"] != 0:
                return
        raise AssertionError("there is always more to admit")

    @rule(data=st.data(), most=st.integers(1, 3))
    def claim(self, data: Any, most: int) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        for one in self.engine.claim(worker, most, jobs=["work", "line"]):
            self.claims[one["id"]] = worker, one

    @rule(data=st.data())
    def claim_suspect(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        for one in self.engine.claim_suspect(worker, ["work", "line"]):
            self.claims[one["id"]] = worker, one

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), how=st.sampled_from(["succeed", "span", "fail", "again", "back"]))
    def end(self, data: Any, how: str) -> None:
        run_id = data.draw(st.sampled_from(sorted(self.claims)))
        worker, claim = self.claims.pop(run_id)
        if how == "succeed":
            self.engine.succeed(worker, claim)
        elif how == "span":
            self.engine.succeed_span(worker, claim)
        elif how == "back":
            self.engine.hand_back(worker, claim)
        elif how == "again" and claim["attempts_used"] + 1 < claim["max_attempts"]:
            self.engine.requeue(worker, claim, data.draw(st.sampled_from([None, 0.0, 60.0])))
        else:
            self.engine.fail(worker, claim)

    @rule()
    def pass_an_hour(self) -> None:
        self.engine.advance(3700)
        self.engine.promote()

    @rule(data=st.data())
    def lose_a_worker(self, data: Any) -> None:
        worker = data.draw(st.sampled_from(self.workers))
        self.engine.lose(worker)
        self.workers[self.workers.index(worker)] = self.engine.worker("work", "line", lease=600)
        self.engine.rescue()
        self.claims = {i: it for i, it in self.claims.items() if it[0] != worker}

    # What must hold.

    @invariant()
    def never_one_too_many(self) -> None:
        """What an edit has left above its cap may stay, and nothing comes on top of it; and a new
        limit counts what runs."""
        caps = {row["key"]: row["cap"] for row in self.engine.rows(_CAPS)}
        now = {row["key"]: row["n"] for row in self.engine.rows(_IN_USE)}
        for key, n in now.items():
            cap = caps.get(key.partition(":")[0])
            is_adopting = key.partition(":")[0] in self.adopting
            most = max(cap or 0, self.before.get(key, 0))
            assert cap is None or is_adopting or n <= most, (key, n, cap)
        self.before = now
        self.adopting = {row["key"] for row in self.engine.rows(_ADOPTING)}
        assert self.engine.rows(_UNFIT) == []

    @invariant()
    def no_slot_that_nobody_has(self) -> None:
        assert self.engine.rows("SELECT * FROM rota.limit_differences()") == []

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        assert self.engine.rows(_LOST) == []

    def teardown(self) -> None:
        """None is forgotten: all ends, and no slot is left."""
        self.set("all", cap=1)
        self.set("each", cap=1)
        for _ in range(200):
            if self.engine.one("SELECT count(*) FROM rota.open_runs") == 0:
                break
            for worker, claim in self.claims.values():
                self.engine.succeed(worker, claim)
            self.claims = {}
            self.engine.conn.execute("SELECT rota.settle_cancels()")
            self.pass_an_hour()
            self.admit()
            for worker in self.workers:
                for one in self.engine.claim(worker, 10, jobs=["work", "line"]):
                    self.claims[one["id"]] = worker, one
                for one in self.engine.claim_suspect(worker, ["work", "line"]):
                    self.claims[one["id"]] = worker, one
            self.never_one_too_many()
        assert self.engine.rows("SELECT * FROM rota.open_runs") == []
        self.admit()
        assert self.engine.rows(_LEFT) == []
        assert self.engine.rows("SELECT * FROM rota.limit_releases") == []


@pytest.fixture
def machine(server: Server) -> Iterator[type[Limits]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        Limits.engine = Engine(conn)
        Limits.engine.job("work")
        Limits.engine.job("line")
        yield Limits


def test_limits_in_any_order(machine: type[Limits]) -> None:
    test = machine.TestCase()
    test.settings = settings(
        max_examples=examples(usual=40, deep=300),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    test.runTest()
