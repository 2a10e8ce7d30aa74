"""Failures by kind: grouped, counted, handled, and back when they happen again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import Clock, run_due
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]


class Refused(Exception):
    pass


@pytest.fixture
def jobs(app: rota.App) -> rota.App:
    @app.job(max_attempts=1)
    async def call(order: int, kind: str = "refused") -> None:
        if kind == "refused":
            raise Refused(f"order {order} of 'lamp' was refused")
        raise ValueError("no way")

    @app.job(max_attempts=2)
    async def twice() -> None:
        raise Refused("order 7 of 'mug' was refused")

    return app


async def fail(app: rota.App, count: int = 1, **payload: Any) -> None:
    for number in range(count):
        await app.runs.enqueue("call", {"order": number, **payload})
    await run_due(app)


async def test_failures_that_differ_by_numbers_are_one_group(jobs: rota.App) -> None:
    await fail(jobs, 3)
    await fail(jobs, kind="other")
    found = await jobs.errors.list(order="most")
    assert [(it.error_type, it.failures, it.runs) for it in found] == [
        ("tests.operations.runs.test_error_groups.Refused", 3, 3),
        ("ValueError", 1, 1),
    ]
    group = found[0]
    assert group.standing == "new"
    assert group.jobs == ["call"]
    assert group.file == "runs/test_error_groups.py"
    assert group.function == "call"
    assert group.place == f"{group.file}:{group.line}"
    assert group.share == pytest.approx(0.75)
    assert sum(group.counts) == group.recent_failures == 3
    assert group.error == "order 2 of 'lamp' was refused"


async def test_attempts_count_and_the_run_knows_its_group(jobs: rota.App, clock: Clock) -> None:
    run = await jobs.runs.enqueue("twice")
    await run_due(jobs)
    clock.advance(3600)
    await run_due(jobs)
    (group,) = await jobs.errors.list()
    assert (group.failures, group.runs, group.last_run_id) == (2, 1, run.id)
    assert (await jobs.runs.get(run.id)).error_group == group.id


async def test_what_waits_for_another_attempt_has_a_group(conn: Connection, jobs: rota.App) -> None:
    engine = Engine(conn)
    engine.job(max_attempts=5)
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim(worker)
    engine.one(
        "SELECT count(*) FROM rota.requeue_runs(%s, %s, '{1}', '{5}', '{failed}', '{60}', '{t}',"
        " NULL, '{KeyError}', '{nothing}', NULL)",
        worker, [run],
    )  # fmt: skip
    (group,) = await jobs.errors.list()
    assert (await jobs.runs.get(run)).error_group == group.id
    assert (group.failures, group.runs, group.file) == (1, 0, None)


async def test_lost_attempts_and_unknown_jobs_have_groups_and_lines(
    conn: Connection, jobs: rota.App
) -> None:
    engine = Engine(conn)
    engine.job(max_attempts=5)
    worker = engine.worker()
    run = engine.enqueue()
    engine.claim(worker)
    engine.one("UPDATE rota.workers SET state = 'lost', ended_at = now() RETURNING 1")
    engine.one("SELECT count(*) FROM rota.rescue_runs(10)")
    waiting = engine.enqueue()
    engine.one(
        "SELECT rota.end_waiting_runs(%s, 'failed', 'unknown job', 'JobUnavailable', 'nobody')",
        [waiting],
    )
    found = {it.error_type: it for it in await jobs.errors.list()}
    assert set(found) == {"WorkerLost", "JobUnavailable"}
    assert (await jobs.runs.get(run)).error_group == found["WorkerLost"].id
    for run_id, word in ((run, "was lost during attempt 1"), (waiting, "nobody")):
        (line,) = (await jobs.logs.show(run_id)).lines
        assert line.level == "error"
        assert word in line.message


async def test_handled_is_out_of_the_way_until_it_happens_again(jobs: rota.App) -> None:
    await fail(jobs)
    (group,) = await jobs.errors.list()
    errors = jobs.errors.by("ada")
    await errors.handle(group.id, "known to the supplier")
    (seen,) = await jobs.errors.list()
    assert (seen.standing, seen.handled_by, seen.handled_reason) == (
        "handled", "ada", "known to the supplier",
    )  # fmt: skip
    assert await jobs.errors.list(standings=("new", "back", "known")) == []
    with pytest.raises(rota.WrongState, match="since ada handled it"):
        await errors.handle(group.id)
    await fail(jobs)
    (back,) = await jobs.errors.list()
    assert (back.standing, back.handled_by) == ("back", "ada")
    await errors.handle(group.id)
    await errors.reopen(group.id, "not yet")
    (open_again,) = await jobs.errors.list()
    assert (open_again.standing, open_again.handled_by) == ("new", None)
    actions = [it.action for it in await jobs.audit.list(object_type="error")]
    assert actions == ["error.reopened", "error.handled", "error.handled"]


async def test_unknown_and_not_handled_groups_are_refused(jobs: rota.App) -> None:
    await fail(jobs)
    (group,) = await jobs.errors.list()
    with pytest.raises(rota.WrongState, match="not handled"):
        await jobs.errors.reopen(group.id)
    for command in (jobs.errors.handle, jobs.errors.reopen, jobs.errors.get):
        with pytest.raises(rota.ErrorGroupNotFound):
            await command("nothing")
    with pytest.raises(rota.FilterError):
        await jobs.errors.list(standings=("odd",))  # type: ignore[arg-type]


async def test_quiet_after_a_week_and_back_after_that(jobs: rota.App, clock: Clock) -> None:
    await fail(jobs)
    clock.advance(2 * 86400)
    assert [it.standing for it in await jobs.errors.list()] == ["known"]
    clock.advance(8 * 86400)
    (group,) = await jobs.errors.list()
    assert group.standing == "quiet"
    assert await jobs.errors.list(since=timedelta(days=1)) == []
    await fail(jobs)
    (group,) = await jobs.errors.list()
    assert group.standing == "back"
    assert group.quiet_since == group.first_seen_at


async def test_details_show_a_traceback_and_what_runs_have_in_common(jobs: rota.App) -> None:
    await fail(jobs, 3, kind="refused")
    (group,) = await jobs.errors.list()
    details = await jobs.errors.get(group.id)
    assert details.traceback is not None
    assert 'raise Refused(f"order' in details.traceback
    traits = {it.name: it.shares for it in details.traits}
    assert [(it.value, it.runs) for it in traits["job"]] == [("call", 3)]
    assert [(it.value, it.runs) for it in traits["payload.kind"]] == [("refused", 3)]
    assert "payload.order" not in traits
    assert details.looked_at == 3


async def test_pages_filters_and_counts_belong_together(jobs: rota.App) -> None:
    await fail(jobs)
    await fail(jobs, kind="other")
    first = await jobs.errors.page(limit=1)
    assert first.cursor is not None
    rest = await jobs.errors.page(limit=1, cursor=first.cursor)
    assert rest.cursor is None
    assert {it.error_type for it in [*first.groups, *rest.groups]} == {
        "ValueError", "tests.operations.runs.test_error_groups.Refused",
    }  # fmt: skip
    assert (first.standings, first.failures) == ({"new": 2}, 2)
    found = await jobs.errors.page(text="no WAY")
    assert [it.error_type for it in found.groups] == ["ValueError"]
    assert (found.standings, found.failures) == ({"new": 1}, 1)
    assert (await jobs.errors.page(job="twice")).groups == []
    assert (await jobs.errors.page(text="100%")).groups == []


@pytest.mark.parametrize(
    ("error", "pattern"),
    [
        ("order 7 was refused", "order … was refused"),
        ("no article 'kettle'\nDETAIL: more", "no article …"),
        ("user 5f0c7a52-91b1-4a6e-9b0c-0d3c2a7d1e44 is gone", "user … is gone"),
        ("mail to ada@example.org bounced", "mail to … bounced"),
        ("", ""),
    ],
)
def test_patterns(conn: Connection, error: str, pattern: str) -> None:
    assert conn.execute("SELECT rota.error_pattern(%s)", [error]).fetchone() == (pattern,)


def test_places_are_the_application_s_own(conn: Connection) -> None:
    trace = (
        'Traceback (most recent call last):\n  File "/srv/r/1/shop/app.py", line 122, in call\n'
        '    get()\n  File "/v/lib/python3.12/site-packages/httpx/_api.py", line 9, in get\n'
        "    raise X\nX: no"
    )
    place = conn.execute("SELECT * FROM rota.error_place(%s)", [trace]).fetchone()
    assert place == ("shop/app.py", 122, "call")
    foreign = trace.replace("/srv/r/1/shop/app.py", "/v/site-packages/x.py")
    place = conn.execute("SELECT * FROM rota.error_place(%s)", [foreign]).fetchone()
    assert place == ("httpx/_api.py", 9, "get")
    assert conn.execute("SELECT * FROM rota.error_place('odd')").fetchone() == (None,) * 3


def test_tidying_keeps_the_sums(conn: Connection, jobs: rota.App) -> None:
    conn.execute(
        "INSERT INTO rota.error_counts SELECT 'g', date_bin('1 hour', rota.now(), '2001-01-01')"
        " - interval '3 days' + n * interval '10 minutes', 'call', 1, 0"
        " FROM generate_series(0, 11) n"
    )
    conn.execute("SELECT rota.tidy_errors()")
    rows = conn.execute("SELECT failures FROM rota.error_counts").fetchall()
    assert rows == [(6,), (6,)]


async def test_a_dead_letter_is_handled_until_it_fails_again(
    jobs: rota.App, conn: Connection
) -> None:
    await fail(jobs)
    (run,) = await jobs.runs.list(states=["failed"])
    await jobs.runs.by("ada").handle(run.id, "refunded by hand")
    query = "SELECT handled_by, handled_reason FROM rota.dead_letters"
    assert conn.execute(query).fetchall() == [("ada", "refunded by hand")]
    with pytest.raises(rota.WrongState, match="handled by ada"):
        await jobs.runs.handle(run.id)
    await jobs.runs.retry(run.id)
    assert conn.execute(query).fetchall() == []
    with pytest.raises(rota.WrongState, match="is queued"):
        await jobs.runs.handle(run.id)
    await run_due(jobs)
    assert conn.execute(query).fetchall() == [(None, None)]
    await jobs.runs.handle(run.id)
    await jobs.runs.reopen(run.id)
    assert conn.execute(query).fetchall() == [(None, None)]
    with pytest.raises(rota.WrongState, match="not handled"):
        await jobs.runs.reopen(run.id)
    for command in (jobs.runs.handle, jobs.runs.reopen):
        with pytest.raises(rota.RunNotFound):
            await command(10**9)


async def test_a_handled_group_handles_its_runs(jobs: rota.App, conn: Connection) -> None:
    await fail(jobs, 2)
    (group,) = await jobs.errors.list()
    await jobs.errors.by("ada").handle(group.id)
    await fail(jobs)
    query = "SELECT handled_by FROM rota.dead_letters ORDER BY id"
    assert conn.execute(query).fetchall() == [("ada",), ("ada",), (None,)]


async def test_retention_takes_what_nobody_can_ask_for(jobs: rota.App, clock: Clock) -> None:
    await fail(jobs)
    await jobs.errors.list()
    (run,) = await jobs.runs.list(states=["failed"])
    await jobs.runs.handle(run.id)
    clock.advance(500 * 86400)
    planned = {it.table for it in (await jobs.retention.plan()).items}
    removed = {it.table for it in (await jobs.retention.run(hurry=True)).items}
    assert {"error_groups", "error_counts"} <= planned & removed
    assert await jobs.errors.list() == []
