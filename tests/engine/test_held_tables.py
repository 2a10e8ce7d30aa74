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
# A hold of nothing tells nothing: what puts a row into a table that has none in a round by itself.
# Workers take some of these rows away at once, so the holder tries again.
RARE = "(SELECT id FROM rota.schedules WHERE name = 'rare')"
FILLS = {
    "api_responses": "INSERT INTO rota.api_responses (key_hash, request_hash, claim, expires_at)"
    " VALUES (sha256(random()::text::bytea), '', gen_random_uuid(), rota.now())",
    "backfill_times": "WITH made AS (INSERT INTO rota.backfills (schedule_id, from_at, until_at,"
    f" created_by) VALUES ({RARE}, now(), now(), 'ada') RETURNING id)"
    " INSERT INTO rota.backfill_times (backfill_id, schedule_id, nominal_at, run_id)"
    f" SELECT id, {RARE}, now(), {{failed}} FROM made",
    "backfills": "INSERT INTO rota.backfills (schedule_id, from_at, until_at, created_by)"
    f" VALUES ({RARE}, now(), now(), 'ada')",
    "batch_starts": "INSERT INTO rota.batch_starts VALUES ({stranger}, 1)",
    "bulk_actions": """SELECT rota.start_bulk_action('delete', '{{"job": "nothing"}}')""",
    "bursts": "INSERT INTO rota.bursts (at, schedules, taken)"
    " VALUES (now() + interval '1 hour', 2, 1)",
    "calendars": "INSERT INTO rota.calendars (name, definition) VALUES ('days', '{{}}')",
    "cancel_requests": "INSERT INTO rota.cancel_requests (run_id, worker, attempt, requested_by)"
    " VALUES ({failed}, 0, 1, 'ada')",
    "command_marks": "INSERT INTO rota.command_marks DEFAULT VALUES",
    "count_changes": "INSERT INTO rota.count_changes (name, amount) VALUES ('none', 1)",
    "counts": "SELECT rota.fold_counts()",
    "deleted_schedules": "INSERT INTO rota.deleted_schedules (schedule_id, tenant, name,"
    " deleted_by) VALUES (-1, '', 'gone', 'ada')",
    "error_changes": "INSERT INTO rota.error_changes (error_group, job, queue, run_id, at,"
    " error_type, error) VALUES (md5('x'), 'once', 'default', {failed}, now(), 'E', 'no')",
    "error_counts": "SELECT rota.fold_errors(1000)",
    "error_groups": "SELECT rota.fold_errors(1000)",
    "event_keys": "SELECT rota.emit('thing', key => 'a', period_seconds => 3600)",
    "handled": "SELECT rota.handle_run({failed})",
    "hook_refusals": "SELECT rota.refuse_hook('here', 'no signature', '127.0.0.1')",
    "init_runs": "INSERT INTO rota.init_runs (schedule_id, marker, run_id)"
    f" VALUES ({RARE}, 'once', {{failed}})",
    "job_names": "INSERT INTO rota.job_names (alias, job) VALUES ('older', 'nothing')",
    "keep_rules": """UPDATE rota.jobs SET retention = '{{"days": 3}}' WHERE name = 'deletable'""",
    "kept_ends": "INSERT INTO rota.kept_ends (run_id, attempt, worker, attempt_state, state)"
    " VALUES ({failed}, 99, 0, 'succeeded', 'succeeded')",
    "key_releases": "INSERT INTO rota.key_releases (run_id, tenant, job, key, expires_at)"
    " VALUES ({failed}, '', 'gate', 'none', now())",
    "limit_releases": "INSERT INTO rota.limit_releases (key, amount)"
    " SELECT 'c' || id || ':', 0 FROM rota.limits",
    "log_spans": "INSERT INTO rota.log_spans"
    " VALUES ('none', 'none', now(), now() + interval '1 hour', 1)",
    "refusals": "INSERT INTO rota.refusals (run_id, intake, signature, worker, build, error)"
    " VALUES ({waiting}, 7, 7, {stranger}, 'old', 'no')",
    "rollup_minutes": "INSERT INTO rota.rollup_minutes (minute, job, queue, outcome, worker,"
    " attempts, duration_ms, longest_ms, histogram) VALUES (date_trunc('minute', now()) -"
    " interval '5 minutes', 'gate', 'default', 'succeeded', {stranger}, 1, 1, 1, 1)",
    "rollup_spans": "INSERT INTO rota.rollup_spans (span, started_at, job, queue, outcome,"
    " attempts, duration_ms, longest_ms, histogram, first_at) VALUES ('hour',"
    " date_trunc('hour', now()), 'gate', 'default', 'succeeded', 1, 1, 1, 1, now())",
    "run_views": "SELECT rota.save_run_view('mine', 'state=failed')",
    "schedule_ends": "INSERT INTO rota.schedule_ends (schedule_id, run_id, state, finished_at,"
    f" is_init) VALUES ({RARE}, {{failed}}, 'failed', now(), false)",
    "schedule_holds": "INSERT INTO rota.schedule_holds (first_due, first_id, last_due, last_id,"
    " until) VALUES ('2000-01-01', 0, '2000-01-01', 0, now() + interval '1 minute')",
    "tenant_changes": "INSERT INTO rota.tenant_changes (tenant, succeeded) VALUES ('acme', 1)",
    "tenant_days": "INSERT INTO rota.tenant_days (tenant, day) VALUES ('acme', current_date)"
    " ON CONFLICT DO NOTHING",
    "tenant_depths": "INSERT INTO rota.tenant_depths (tenant) VALUES ('acme')"
    " ON CONFLICT DO NOTHING",
}
# They are only ever locked as a whole.
EMPTY = {"pruning_logs", "pruning_runs"}


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
        self.app = make_app(**{"worker.queues": ["default"], "worker.lease_seconds": 30.0})

        @self.app.job
        async def gate(text: str = "") -> str:
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

        @self.app.job(events=["nobody.comes"])
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
        engine.rows("CREATE TABLE orders (id int)")
        engine.rows("SELECT rota.watch_table('orders', '{insert}')")
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
            self.under_way = await self.gate.options(key="gate").enqueue(text="x" * 9_000)
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
    await _hold_each(World(make_app, engine), holder, TABLES[part::PARTS], _hold_rows)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_whatever_a_transaction_has_done_the_rest_goes_on(
    part: int, make_app: MakeApp, engine: Engine, holder: Connection
) -> None:
    await _hold_each(World(make_app, engine), holder, list(STATEMENTS)[part::PARTS], _act)


def _hold_rows(world: World, holder: Connection, table: str) -> None:
    """All rows of the table, of which there is at least one."""
    for _ in range(20):
        held = holder.execute(f"SELECT FROM rota.{table} FOR UPDATE".encode()).rowcount
        if held or table in EMPTY:
            return
        holder.rollback()
        world.engine.rows(FILLS[table].format(**vars(world)))
    raise AssertionError("it has no rows")


def _act(world: World, holder: Connection, name: str) -> None:
    holder.execute(STATEMENTS[name].format(**vars(world)).encode())


async def _hold_each(
    world: World,
    holder: Connection,
    names: list[str],
    hold: Callable[[World, Connection, str], None],
) -> None:
    async with world.at_work():
        for name in names:
            async with world.round():
                try:
                    hold(world, holder, name)
                    watched = Watched(world, WAITS.get(name, set()))
                    await watched.watch()
                    holder.rollback()
                    await watched.settle()
                except BaseException as error:
                    error.add_note(f"while somebody held: {name}")
                    raise
