"""The newest code decides about everything that code declares, in every order in which the
processes of two releases start, open the database and stop."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, get_type_hints

import psycopg
import pytest

import rota
from rota.jobs.job_arguments import JobArguments
from rota.model.schedule_fields import SHORT_NAMES, schedule_settings
from rota.testing import eventually_sync
from tests.apps import releases
from tests.apps.releases import NEW, OLD
from tests.jobs.conftest import MakeCode
from tests.jobs.processes import Code
from tests.jobs.test_mixed_fleets import every_order

Connection = psycopg.Connection[tuple[Any, ...]]
State = dict[str, Any]

# What code says, by object: everything but when and by whom it was written.
STORED = """
    SELECT 'job ' || name, to_jsonb(j) - '{created_at,updated_at,version,edited,source}'::text[]
    FROM rota.jobs j WHERE NOT is_system
    UNION ALL SELECT 'schedule ' || tenant || '/' || name, code || jsonb_build_object('job', job,
        'cron', cron, 'every', interval_seconds, 'at', run_at, 'init', init, 'queue', queue)
    FROM rota.schedules WHERE NOT is_system
    UNION ALL SELECT 'queue ' || name, to_jsonb(q) - '{version}'::text[] FROM rota.queues q
    UNION ALL SELECT 'limit ' || name, jsonb_build_array(kind, cap, code) FROM rota.limits
    UNION ALL SELECT 'binding ' || name, to_jsonb(events) FROM rota.jobs WHERE events <> '{}'
"""


def stored(url: str) -> State:
    with psycopg.connect(url, autocommit=True) as conn:
        return dict(conn.execute(STORED).fetchall())


@pytest.fixture(autouse=True)
def calendar(conn: Connection) -> None:
    conn.execute("INSERT INTO rota.calendars (name, definition) VALUES ('banking', '{}')")


@pytest.fixture
def release(code: MakeCode) -> Callable[[int], Code]:
    return lambda which: code(declare=lambda app: releases.declare(app, which))


def test_the_releases_differ_in_everything_that_code_can_declare(app: rota.App) -> None:
    assert set(get_type_hints(JobArguments)) == {*releases.JOB, *releases.NOT_STORED}
    timings = {*releases.TIMING, *releases.SCHEDULE}
    assert set(schedule_settings()) == {SHORT_NAMES.get(name, name) for name in timings}
    queue = get_type_hints(rota.App.queue)
    assert {*queue} - {"name", "return"} == {*releases.QUEUE}
    assert {kind.noun for kind in app.registry.kinds} == {*releases.KINDS}


def test_each_difference_is_stored(release: Callable[[int], Code], database_url: str) -> None:
    release(OLD).open()
    old = stored(database_url)
    release(NEW).open()
    new = stored(database_url)
    assert old.keys() == new.keys()
    same = [name for name, value in old.items() if value == new[name]]
    assert same == ["job send"], "what both releases declare alike proves nothing"


@dataclass
class Fleet:
    """Processes of two releases, at most one worker of each, and whose word must hold."""

    make: Callable[[int], Code]
    live: dict[int, tuple[Code, int]] = field(default_factory=dict)
    worked: set[int] = field(default_factory=set)
    newest: int | None = None

    def open(self, which: int) -> None:
        """A process starts that only enqueues."""
        self.make(which).open()
        if self.newest is None or not self.live:
            self.newest = which

    def toggle(self, which: int) -> None:
        """A worker starts, or ends."""
        if which in self.live:
            one, worker = self.live.pop(which)
            one.end(worker)
        else:
            self.open(which)
            one = self.make(which)
            self.live[which] = (one, one.work())
            self.worked.add(which)
        self.look()

    def look(self) -> None:
        for which, (one, worker) in self.live.items():
            one.look(worker)
            if self.newest is None or (self.newest in self.worked and self.newest not in self.live):
                self.newest = which


def test_every_order_of_starts_and_ends(release: Callable[[int], Code], database_url: str) -> None:
    fleet = Fleet(release)
    said: dict[int, State] = {}
    for which in (OLD, NEW):
        fleet.open(which)
        said[which] = stored(database_url)
    for number, step in enumerate(every_order(4, 3)):
        which, is_worker = divmod(step, 2)
        (fleet.toggle if is_worker else fleet.open)(which)
        fleet.look()
        now = stored(database_url)
        assert fleet.newest is not None
        wrong = [name for name, value in said[fleet.newest].items() if now.get(name) != value]
        assert not wrong, f"step {number}: {wrong}"


@pytest.mark.parametrize("first", ["opens", "works"])
def test_old_code_that_opens_the_database_late_changes_nothing(
    release: Callable[[int], Code], database_url: str, first: str
) -> None:
    """A new user's day: a worker of each release, then a web process of the old one enqueues."""
    old = release(OLD)
    worker = old.work()
    new = release(NEW)
    new.open() if first == "opens" else new.work()
    wanted = stored(database_url)
    release(OLD).open()
    release(OLD).work()
    assert stored(database_url) == wanted
    old.end(worker)
    release(OLD).open()
    assert stored(database_url) == wanted


def test_a_schedule_that_newer_code_has_taken_away_stays_away(code: MakeCode) -> None:
    def old(app: rota.App) -> None:
        app.schedule("poll", "a", every=60)

    code(declare=old, a={}).work()
    new = code(declare=lambda app: None, a={"priority": 1})
    new.work()
    new.app.unschedule("poll")
    code(declare=old, a={}).open()
    assert new.rows("SELECT FROM rota.schedules WHERE name = 'poll'") == []
    newest = code(declare=old, a={"priority": 2}).open()
    assert newest.schedule("poll")["interval_seconds"] == 60


def test_old_code_starts_beside_new_code_that_moved_its_schedule_into_a_decorator(
    code: MakeCode,
) -> None:
    def old(app: rota.App) -> None:
        app.schedule("poll", "a", every=60)

    code(declare=old, a={}).work()
    new = code(a={"schedules": [rota.every(90, name="poll")]})
    new.work()
    found = new.schedule("poll")
    assert (found["interval_seconds"], found["origin"]) == (90, "definition")
    code(declare=old, a={}).open()
    assert new.schedule("poll")["interval_seconds"] == 90


def test_what_is_declared_late_is_as_old_as_its_process(code: MakeCode) -> None:
    """A web process imports a part of the application when it needs it."""

    def parts(app: rota.App, release: int) -> None:
        app.job(name="late", priority=release)(_nothing)
        # As a module says it that is imported late.
        exec("app.schedule('late', 'late', every=60 + n)", {"app": app, "n": release})
        app.queue("late", max_waiting=10 + release)

    old = code(a={"priority": 1}).open()
    new = code(a={"priority": 2})
    new.work()
    parts(new.app, 2)
    assert _late(new) == (2, 62, 12)
    parts(old.app, 1)
    assert _late(new) == (2, 62, 12)
    again = code(a={"priority": 2}).open()
    parts(again.app, 3)
    assert _late(new) == (3, 63, 13)


def test_what_a_function_says_at_run_time_is_an_act(code: MakeCode) -> None:
    """A customer changes an interval: the web processes need not be of the newest build."""
    web = code(a={}, web={}).open()
    web.app.schedule("poll", "a", tenant="acme", every=60)
    worker = code(a={})
    worker.work()
    worker.app.schedule("poll", "a", tenant="acme", every=90)
    web.app.schedule("poll", "a", tenant="acme", every=120)
    assert web.schedule("poll")["interval_seconds"] == 120


def test_instants_that_a_start_computes_do_not_make_old_code_new(code: MakeCode) -> None:
    def soon(app: rota.App) -> None:
        app.schedule("poll", "a", every=60, start_at=datetime.now(UTC) + timedelta(hours=1))

    code(declare=soon, a={"priority": 1}).work()
    new = code(declare=soon, a={"priority": 2})
    new.work()
    code(declare=soon, a={"priority": 1}).open()
    assert new.job("a")["priority"] == 2
    code(declare=soon, a={"priority": 3}).open()
    assert new.job("a")["priority"] == 3


def test_a_part_of_an_old_release_that_nobody_has_seen_yet_is_old(code: MakeCode) -> None:
    """The configuration says which release it is of."""
    code(release="1", a={"priority": 1}, b={}).work()
    new = code(release="2", a={"priority": 2}, b={})
    new.work()
    code(release="1", a={"priority": 1}).open()
    assert new.job("a")["priority"] == 2
    code(release="2", a={"priority": 3}).open()
    assert new.job("a")["priority"] == 3


def test_what_an_operator_changed_outlives_both(code: MakeCode) -> None:
    def declare(release: int) -> Callable[[rota.App], None]:
        def add(app: rota.App) -> None:
            zone = ("UTC", "Europe/Berlin")[release]
            app.schedule("poll", "a", every=60 + release, timezone=zone)
            app.queue("mail", max_waiting=10 + release)

        return add

    old = code(declare=declare(OLD), a={})
    old.work()
    old.rows("UPDATE rota.schedules SET interval_seconds = 5 WHERE name = 'poll'")
    old.app.queues.sync.set("mail", max_waiting=5)
    for which in (NEW, OLD, NEW):
        code(declare=declare(which), a={}).work()
        assert old.schedule("poll")["interval_seconds"] == 5
        assert old.schedule("poll")["timezone"] == "Europe/Berlin"
        assert old.rows("SELECT max_waiting FROM rota.queues") == [{"max_waiting": 5}]


def test_real_workers_of_two_releases(worker_process: Any, database_url: str, app_url: str) -> None:
    first = worker_process("tests.apps.release_old:app")
    old = stored(database_url)
    second = worker_process("tests.apps.release_new:app")
    new = stored(database_url)
    assert [name for name, value in old.items() if new[name] == value] == ["job send"]
    script = "from tests.apps.release_old import app; app.database.open_sync(); app.close_sync()"
    _run(script, app_url)
    assert stored(database_url) == new
    first.terminate()
    first.wait()
    _run(script, app_url)
    assert stored(database_url) == new
    third = worker_process("tests.apps.release_old:app")
    assert stored(database_url) == new
    second.terminate()  # a roll-back
    second.wait()
    eventually_sync(lambda: stored(database_url) == old, timeout=60)
    third.terminate()
    third.wait()


def _run(script: str, url: str) -> None:
    root = Path(__file__).parents[2]
    environment = os.environ | {"ROTA_TEST_DATABASE": url, "ROTA_TEST_SETTINGS": "{}"}
    subprocess.run([sys.executable, "-c", script], check=True, cwd=root, env=environment)


def _nothing() -> None: ...


def _late(one: Code) -> tuple[Any, ...]:
    (queue,) = one.rows("SELECT max_waiting FROM rota.queues WHERE name = 'late'")
    seconds = one.schedule("late")["interval_seconds"]
    return one.job("late")["priority"], seconds, queue["max_waiting"]
