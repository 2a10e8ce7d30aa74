"""Somebody's open transaction, on the rows of each table in turn and after each ordinary statement:
what is about other rows goes on."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.engine.loops.admission import Admission
from rota.engine.loops.kept_ends import KeptEnds
from rota.engine.loops.promoter import Promoter
from rota.engine.loops.rescuer import Rescuer
from rota.engine.loops.upkeep import Upkeep
from rota.testing.patience import eventually
from tests.conftest import MakeApp
from tests.sql_engine import Engine

Connection = psycopg.Connection[Any]
Connect = Callable[..., Connection]

_SCHEMA = Path(rota.__file__).parent / "postgres" / "schema"
_CREATED = re.compile(r"^CREATE (?:UNLOGGED )?TABLE rota\.(\w+) \(", re.M)
TABLES = sorted(
    name for path in _SCHEMA.glob("*.sql") for name in _CREATED.findall(path.read_text())
)
TABLES += ["migrations"]
# What waits for a held row of these tables, and nothing else: the work that is about that row.
# Of `locks`: what only one worker does at a time.
WAITS = {
    "open_runs": {"end", "limited end", "rescue", "expiry", "promotion", "cancel"},
    "workers": {"rescue"},
    "schedules": {"tick"},
    "schedule_state": {"tick"},
    "locks": {"rescue", "new rescue", "tick", "admission"},
    "limit_slots": {"admission"},
    "drain a worker": {"rescue"},
}
# What a user's transaction may leave behind, about runs that are under way: by names of World.
STATEMENTS = {
    "enqueue, return": "SELECT rota.enqueue('gate', key => 'gate')",
    "enqueue, replace": "SELECT rota.enqueue('gate', key => 'gate', on_conflict => 'replace')",
    "enqueue, debounce": "SELECT rota.enqueue('gate', key => 'gate', on_conflict => 'debounce',"
    " delay => '1 minute')",
    "enqueue, throttle": "SELECT rota.enqueue('gate', key => 'gate', on_conflict => 'throttle',"
    " key_seconds => 60)",
    "enqueue, new key": "SELECT rota.enqueue('gate', key => 'other')",
    "enqueue under a limit": "SELECT rota.enqueue('limited')",
    "enqueue into a capped queue": "SELECT rota.enqueue('gate', queue => 'capped')",
    "enqueue for a tenant": "SELECT rota.enqueue('gate', tenant => 'acme')",
    "enqueue many": "SELECT rota.enqueue_many(ARRAY['gate'], ARRAY['{{}}', '{{}}']::jsonb[])",
    "cancel what runs": "SELECT rota.cancel_run({bystander})",
    "cancel what waits": "SELECT rota.cancel_run({waiting})",
    "retry": "SELECT rota.retry_run({failed})",
    "delete": "SELECT rota.delete_run({failed})",
    "handle an error": "SELECT rota.handle_error(g.id, 'ignored') FROM rota.error_groups g",
    "bulk action": """SELECT rota.start_bulk_action('delete', '{{"job": "nothing"}}')""",
    "emit": "SELECT rota.emit('thing')",
    "edit a job": "UPDATE rota.jobs SET description = 'x'",
    "add a job": "INSERT INTO rota.jobs (name) VALUES ('added')",
    "disable a job": "UPDATE rota.jobs SET is_enabled = false WHERE name = 'nothing'",
    "pause a queue": "SELECT rota.pause_queue('elsewhere')",
    "cap a queue": "INSERT INTO rota.queues (name, max_waiting) VALUES ('other', 5)",
    "pause a tenant": "SELECT rota.pause_tenant('acme')",
    "edit a tenant": "UPDATE rota.tenants SET weight = 2",
    "edit a limit": """SELECT rota.set_limit('few', '{{"cap": 2}}')""",
    "add a limit": "INSERT INTO rota.limits (name, kind, cap, jobs)"
    " VALUES ('none', 'concurrency', 1, '{{nothing}}')",
    "trigger a schedule": "SELECT rota.trigger_schedule('rare')",
    "pause a schedule": "SELECT rota.pause_schedule('rare')",
    "edit a schedule": "UPDATE rota.schedules SET description = 'x' WHERE name = 'rare'",
    "delete a schedule": "SELECT rota.delete_schedule('rare')",
    "delete a job": "DELETE FROM rota.jobs WHERE name = 'deletable'",
    "rename a job": "SELECT rota.rename_job('deletable', 'renamed')",
    "remove a limit": "SELECT rota.remove_limit('few')",
    "reset a tenant": "SELECT rota.reset_tenant('acme')",
    "empty a queue's settings": "DELETE FROM rota.queues WHERE name = 'capped'",
    "drain a worker": "SELECT rota.drain_worker({stranger})",
}
# A hold of nothing tells nothing: these have rows in every round.
FILLED = {
    "audit", "error_groups", "events", "jobs", "keys", "limit_slots", "limits", "open_runs",
    "queues", "schedule_state", "schedules", "settings", "tenants", "waits", "workers",
}  # fmt: skip


def test_every_table_is_held(engine: Engine) -> None:
    found = engine.rows(
        "SELECT relname AS name FROM pg_class WHERE relnamespace = 'rota'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1"
    )
    assert {row["name"] for row in found} == set(TABLES)


class World:
    """Runs on their way: under way, waiting, lost, past their deadline; with keys and limits."""

    def __init__(self, make_app: MakeApp, engine: Engine) -> None:
        self.engine = engine
        self.go = asyncio.Event()
        self.rounds = 0
        self.app = make_app(**{"worker.queues": ["default"]})

        @self.app.job
        async def gate() -> str:
            await self.go.wait()
            return "through"

        @self.app.job(max_attempts=2, backoff=rota.Backoff("fixed", 0.01, jitter=0))
        async def work(ctx: rota.Context) -> int:
            ctx.log.info("a line")
            ctx.progress(0.5)
            if ctx.attempt == 1:
                raise ValueError
            return ctx.attempt

        @self.app.job(max_attempts=1)
        async def once() -> None:
            raise RuntimeError

        @self.app.job(schedules=[rota.every(1)])
        async def tick() -> None: ...

        @self.app.job
        async def nothing() -> None: ...

        @self.app.job(name="limited")
        async def limited() -> str:
            await self.go.wait()
            return "through"

        self.gate, self.work, self.once, self.limited = gate, work, once, limited

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        engine = self.engine
        # The holder is in this thread: whoever waits for it would wait for ever.
        engine.rows("SET statement_timeout = '20s'")
        await self.app.database.open()
        engine.rows(
            "INSERT INTO rota.schedules (name, job, interval_seconds)"
            " VALUES ('rare', 'nothing', 86400)"
        )
        engine.rows("INSERT INTO rota.tenants (name) VALUES ('acme')")
        engine.rows("INSERT INTO rota.jobs (name) VALUES ('deletable')")
        engine.rows("INSERT INTO rota.queues (name, max_waiting) VALUES ('capped', 100)")
        engine.rows(
            "INSERT INTO rota.limits (name, kind, cap, jobs)"
            " VALUES ('few', 'concurrency', 100, '{limited}')"
        )
        async with self.app, self.app.worker():
            yield

    @asynccontextmanager
    async def round(self) -> AsyncIterator[None]:
        """Runs on their way, for one transaction that somebody leaves open."""
        engine = self.engine
        self.go = asyncio.Event()
        self.rounds += 1
        try:
            self.failed = (await self.once.enqueue()).id
            await eventually(lambda: self.state(self.failed) == "failed", timeout=30)
            await (await self.work.options(key="first").enqueue()).wait(timeout=30)
            self.under_way = await self.gate.options(key="gate").enqueue()
            self.bystander = (await self.gate.enqueue()).id
            self.under_limit = await self.limited.options(key="limited", tenant="acme").enqueue()
            for run in (self.under_way.id, self.bystander, self.under_limit.id):
                await eventually(lambda run=run: self.state(run) == "running", timeout=30)  # type: ignore[misc]
            engine.rows("SELECT rota.emit('thing', key => %s)", f"round {self.rounds}")
            engine.rows("SELECT rota.await_runs('somebody', %s)", [self.under_way.id])
            self.waiting = self.elsewhere("gate")
            self.stranger = engine.worker("once")
            self.orphan, self.expiring = self.lost(self.stranger, "orphan"), self.expire("expiring")
            yield
        finally:
            self.go.set()

    def state(self, run: int) -> str:
        return self.engine.state(run)

    def count_ticks(self) -> int:
        return int(self.engine.one("SELECT count(*) FROM rota.runs WHERE job = 'tick'"))

    def elsewhere(self, job: str, **options: Any) -> int:
        """In a queue that the worker does not serve."""
        return self.engine.enqueue(job, queue="elsewhere", **options)

    def lost(self, worker: int, key: str) -> int:
        run = self.elsewhere("once", key=f"{key} {self.rounds}")
        (claim,) = self.engine.claim(worker, 1, ["elsewhere"], ["once"])
        assert claim["id"] == run
        return run

    def expire(self, key: str) -> int:
        return self.elsewhere("gate", key=f"{key} {self.rounds}", expires_in="50 milliseconds")

    def upkeep(self) -> Upkeep:
        return Upkeep(self.app.database, unknown_job_seconds=1e6, refused_payload_seconds=1e6)


class Watched:
    """What goes on while somebody's transaction is open. A name says what has to happen; those that
    `waits` names need not."""

    def __init__(self, world: World, waits: set[str]) -> None:
        self._world = world
        self._waits = waits

    def expected(self, what: str) -> bool:
        return what not in self._waits

    async def ends(self, what: str, run: int, state: str) -> None:
        if self.expected(what):
            await eventually(lambda: self._check(what, run, state), timeout=30)

    def _check(self, what: str, run: int, state: str) -> None:
        assert (what, self._world.state(run)) == (what, state)

    async def watch(self) -> None:
        world, engine, database = self._world, self._world.engine, self._world.app.database
        world.go.set()
        await self.ends("end", world.under_way.id, "succeeded")
        await self.ends("limited end", world.under_limit.id, "succeeded")
        fresh = await world.work.options(key="fresh").enqueue()
        assert await fresh.wait(timeout=30) == 2
        if self.expected("admission"):
            admitted = await world.limited.options(tenant="acme").enqueue()
            await Admission(database).run_once()
            await self.ends("admission", admitted.id, "succeeded")
        for what, run, worker in (
            ("rescue", world.orphan, world.stranger),
            *[
                ("new rescue", world.lost(worker, "late orphan"), worker)
                for worker in [engine.worker("once")]
            ],
        ):
            if self.expected(what):
                engine.lose(worker)
                await self.again(Rescuer(database, lease_seconds=60))
                await self.ends(what, run, "failed")
        for what, run in (("expiry", world.expiring), ("new expiry", world.expire("late"))):
            await self.again(world.upkeep())
            if self.expected(what):
                await eventually(lambda run=run: self._is_swept(run), timeout=30)  # type: ignore[misc]
        if self.expected("promotion"):
            soon = world.elsewhere("gate", delay="10 milliseconds")
            await self.again(Promoter(database, poll_seconds=10))
            await self.ends("promotion", soon, "queued")
        if self.expected("cancel"):
            engine.cancel(world.elsewhere("gate", key=f"cancelled {world.rounds}"))
        if self.expected("tick"):
            before = world.count_ticks()
            await eventually(lambda: world.count_ticks() > before, timeout=30)

    async def again(self, loop: Any) -> None:
        """One turn of a duty; what it cannot do for the moment is said, and the rest is done."""
        await loop.run_once()

    def _is_swept(self, run: int) -> None:
        assert not self._world.engine.one("SELECT count(*) FROM rota.open_runs WHERE id = %s", run)

    async def settle(self) -> None:
        """The transaction is over: nothing of it is left."""
        world, database = self._world, self._world.app.database
        engine = world.engine
        await self.again(KeptEnds(database, on_written=lambda: None))
        await eventually(lambda: engine.one("SELECT count(*) FROM rota.kept_ends") == 0, timeout=30)
        for run in (world.under_way.id, world.under_limit.id, world.bystander):
            await eventually(lambda run=run: self._check("after", run, "succeeded"), timeout=30)  # type: ignore[misc]
            assert engine.attempt_states(run) == ["succeeded"]
        await self.again(world.upkeep())
        left = "SELECT count(*) FROM rota.key_releases"
        await eventually(lambda: engine.one(left) == 0, timeout=30)
        held = "SELECT count(*) FROM rota.keys WHERE run_id = ANY (%s) AND expires_at IS NULL"
        orphan = [world.orphan] if self.expected("rescue") else []
        assert engine.one(held, [world.under_way.id, world.under_limit.id, *orphan]) == 0


@pytest.fixture
def holder(connect: Connect) -> Iterator[Connection]:
    conn = connect(autocommit=False)
    yield conn
    conn.rollback()


PARTS = 4


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_whatever_rows_are_held_the_rest_goes_on(
    part: int, make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    holds = [(f"SELECT FROM rota.{table} FOR UPDATE", table) for table in TABLES[part::PARTS]]
    await _hold_each(World(make_app, engine), holder, holds)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_whatever_a_transaction_has_done_the_rest_goes_on(
    part: int, make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    holds = [(text, name) for name, text in list(STATEMENTS.items())[part::PARTS]]
    await _hold_each(World(make_app, engine), holder, holds)


async def _hold_each(world: World, holder: Connection, holds: list[tuple[str, str]]) -> None:
    async with world.at_work():
        for statement, name in holds:
            async with world.round():
                try:
                    if name in FILLED:
                        count = world.engine.one(f"SELECT count(*) FROM rota.{name}")
                        assert count, f"rota.{name} is empty"
                    holder.execute(statement.format(**vars(world)).encode())
                    watched = Watched(world, WAITS.get(name, set()))
                    await watched.watch()
                    holder.rollback()
                    await watched.settle()
                except BaseException as error:
                    error.add_note(f"while somebody held: {name}")
                    raise
