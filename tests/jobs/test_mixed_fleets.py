"""Workers of one application that do not declare the same jobs: two releases of a rolling
deployment, or two pools for good. What a live worker declares is not deleted from code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import eventually
from tests.conftest import MakeApp
from tests.jobs.conftest import MakeCode
from tests.jobs.processes import Code
from tests.scheduling import Schedules
from tests.sql_engine import Engine

Jobs = dict[str, dict[str, Any]]
STATES = ("gone", "lost")

FLEETS: dict[str, tuple[Jobs, Jobs]] = {
    "one is dropped": ({"a": {"priority": 3}, "b": {}}, {"a": {"priority": 4}}),
    "one for another": ({"a": {"priority": 3}, "b": {}}, {"a": {"priority": 4}, "c": {}}),
    "a pool that lacks one": ({"a": {}, "sync": {}}, {"a": {}}),
    "pools with nothing in common": ({"p": {}}, {"q": {}}),
}


def every_order(letters: int, length: int) -> Iterator[int]:
    """A de Bruijn sequence, and its beginning once more: every word of this length is in it."""
    made: list[int] = []
    word = [0] * letters * length

    def extend(at: int, period: int) -> None:
        if at > length:
            if length % period == 0:
                made.extend(word[1 : period + 1])
            return
        word[at] = word[at - period]
        extend(at + 1, period)
        for letter in range(word[at - period] + 1, letters):
            word[at] = letter
            extend(at + 1, at)

    extend(1, 1)
    yield from [*made, *made[: length - 1]]


@dataclass
class Fleet:
    """Two kinds of workers, at most one of each, and what must be so after each step."""

    kinds: list[Code]
    live: dict[int, int] = field(default_factory=dict)
    lately: set[int] = field(default_factory=set)  # ended, not an hour ago
    newest: int | None = None
    ends: int = 0

    def toggle(self, kind: int) -> None:
        """A start, or an end of whatever sort."""
        if kind in self.live:
            self.ends += 1
            state = STATES[self.ends % len(STATES)]
            self.kinds[kind].end(self.live.pop(kind), state=state, ago="1 s")
            self.lately.add(kind)
        else:
            self.live[kind] = self.kinds[kind].work()
            self.newest = kind

    def pass_time(self) -> None:
        self.lately.clear()
        self.kinds[0].rows(
            "UPDATE rota.workers SET ended_at = ended_at - interval '1 hour'"
            " WHERE ended_at IS NOT NULL"
        )

    def look(self) -> None:
        for _ in range(2):
            for kind, worker in self.live.items():
                self.kinds[kind].look(worker)

    def declared(self, kinds: Any) -> set[str]:
        return {name for kind in kinds for name in self.kinds[kind].app.registry.names()}

    def check(self) -> None:
        rows = self.kinds[0].rows("SELECT * FROM rota.jobs WHERE code IS NOT NULL")
        deleted = {row["name"] for row in rows if row["deleted_from_code_at"] is not None}
        assert not deleted & self.declared(self.live), "a live worker declares it"
        kept = {*self.live, *self.lately, *([] if self.newest is None else [self.newest])}
        if self.live:
            assert deleted == {row["name"] for row in rows} - self.declared(kept)
            allowed = {self.kinds[kind].app.registry.get("a").priority for kind in self.live
                       if "a" in self.kinds[kind].app.registry}  # fmt: skip
            stored = {row["priority"] for row in rows if row["name"] == "a"}
            assert allowed in (set(), {None}) or stored <= allowed, "who is gone does not speak"


@pytest.mark.parametrize("kinds", FLEETS.values(), ids=FLEETS.keys())
def test_every_order_of_starts_and_ends(code: MakeCode, kinds: tuple[Jobs, Jobs]) -> None:
    fleet = Fleet([code(**jobs) for jobs in kinds])
    for step in every_order(3, 5):
        if step == 2:
            fleet.pass_time()
        else:
            fleet.toggle(step)
        fleet.look()
        fleet.check()


def test_a_pool_that_lacks_a_job_does_not_keep_it_from_coming_back(code: MakeCode) -> None:
    full, lacking = code(a={}, sync={}), code(a={})
    first = full.work()
    short = lacking.work()
    full.end(first)
    assert lacking.look(short)
    assert lacking.is_deleted("sync")
    again = full.work()
    assert not full.is_deleted("sync")
    assert not lacking.look(short)
    assert not full.look(again)
    assert not full.is_deleted("sync")


def test_a_restart_that_takes_a_moment_deletes_nothing(code: MakeCode) -> None:
    pool, other = code(p={}), code(q={})
    first = pool.work()
    second = other.work()
    for state in ("gone", "lost"):
        pool.end(first, state=state, ago="30 s")
        assert not other.look(second)
        assert not other.is_deleted("p")
    pool.end(first, state="lost", ago="61 s")
    assert other.look(second)
    assert other.is_deleted("p")


def test_a_lease_that_ran_out_is_an_end_before_anybody_says_so(code: MakeCode) -> None:
    pool, other = code(p={}), code(q={})
    first, second = pool.work(), other.work()
    for ago, is_gone in (("59 s", False), ("61 s", True)):
        pool.rows(
            "UPDATE rota.workers SET lease_expires_at = clock_timestamp() - %s::interval"
            " WHERE id = %s", ago, first,
        )  # fmt: skip
        assert other.look(second) is is_gone
        assert other.is_deleted("p") is is_gone


def test_who_comes_back_after_a_lost_lease_is_no_start(code: MakeCode) -> None:
    old, new = code(a={}, b={}), code(a={})
    first, newer = old.work(), new.work()
    old.end(first, state="lost")
    again = old.work(is_new=False)
    assert not old.is_deleted("b")
    old.end(again)
    assert new.look(newer)
    assert new.is_deleted("b")


def test_what_was_marked_in_a_race_is_seen_by_who_declares_it(code: MakeCode) -> None:
    old, new = code(a={}, b={}), code(a={})
    first = old.work()
    new.work()
    old.rows("DELETE FROM rota.job_applications WHERE job = 'b'")
    old.rows("UPDATE rota.jobs SET deleted_from_code_at = rota.now() WHERE name = 'b'")
    assert old.look(first)
    assert not old.is_deleted("b")
    assert not old.look(first)


def test_a_persons_sync_is_contradicted_by_live_workers_only(code: MakeCode) -> None:
    old, new = code(a={}, b={}), code(a={}, c={})
    worker = old.work()
    new.sync()
    assert not new.is_deleted("b")
    assert not old.look(worker), "a deployment under way"
    assert not new.is_deleted("c")
    old.end(worker, ago="1 s")
    new.sync()
    assert new.is_deleted("b")
    old.work()
    assert not old.is_deleted("b")


def test_a_job_of_two_applications_is_kept_by_an_old_worker_of_one(code: MakeCode) -> None:
    old = code(name="shop", b={}, a={})
    first = old.work()
    bank = code(name="bank", b={})
    bank_worker = bank.work()
    new = code(name="shop", a={})
    newer = new.work()
    old.end(first)
    assert new.look(newer)
    old.work()  # beside newer code of its own
    bank.end(bank_worker)
    lesser = code(name="bank", x={})
    lesser.look(lesser.work())
    assert not old.is_deleted("b")


def test_the_code_that_brings_a_job_back_says_what_it_is(code: MakeCode) -> None:
    old = code(a={}, b={"priority": 7, "schedules": [rota.every(60)]})
    old.end(old.work())
    new = code(a={"priority": 1})
    new.work()
    assert new.is_deleted("b")
    old.rows(
        "UPDATE rota.jobs SET code = code || '{\"priority\": 2}', priority = 2 WHERE name = 'b'"
    )
    old.work()
    assert (old.job("b")["priority"], old.job("a")["priority"]) == (7, 1)
    assert old.schedule("b")["origin"] == "definition"


async def test_the_ledger_says_what_is_so(
    code: MakeCode, make_app: MakeApp, conn: psycopg.Connection[Any]
) -> None:
    full, lacking = code(work={}, a={}), code(a={})
    engine = Engine(conn)
    schedules = Schedules(engine, make_app().database)
    first = full.work()
    schedules.add(job="work")
    await schedules.tick(seconds=61)
    full.end(first)
    lacking.work()
    await schedules.tick(seconds=121)
    full.work()
    engine.rows("DELETE FROM rota.open_runs")
    await schedules.tick(seconds=181)
    engine.one("SELECT rota.set_job_enabled('work', false)")
    await schedules.tick(seconds=241)
    assert schedules.words() == [
        ("ran", None, 1), ("skipped", "job_deleted", 1), ("ran", None, 1),
        ("skipped", "job_disabled", 1),
    ]  # fmt: skip


async def test_real_workers_of_two_pools(make_app: MakeApp, conn: psycopg.Connection[Any]) -> None:
    """The full pool is away for long and comes back: its schedule goes on at once."""
    engine = Engine(conn)
    ran = "SELECT count(*) FROM rota.occurrences WHERE schedule = 'sync' AND decision = 'ran'"

    def full() -> rota.App:
        app = make_app()

        @app.job(schedules=[rota.every(1)])
        async def sync() -> None: ...

        return app

    lacking = make_app()
    async with full().worker():
        await eventually(lambda: engine.one(ran) > 0)
        worker = await lacking.worker().__aenter__()
    engine.rows("UPDATE rota.workers SET ended_at = ended_at - interval '1 hour'")
    await worker._parts.definitions.run_once()
    assert engine.one("SELECT rota.job_refusal('sync')") == "job_deleted"
    before = engine.one(ran)
    async with full().worker():
        await eventually(lambda: engine.one(ran) > before)
        assert engine.one("SELECT rota.job_refusal('sync')") is None
    await worker.stop()
