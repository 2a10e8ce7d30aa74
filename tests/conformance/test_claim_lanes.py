"""A tenant that is alone in a queue is claimed as nobody's runs are: in order, from a hint on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rota.engine.claiming.plan import PRIORITIES, ClaimPlan
from rota.model.run import Claim
from tests.sql_engine import Engine


def ids(rows: list[dict[str, int]]) -> list[int]:
    return [row["id"] for row in rows]


def test_the_lane_is_taken_in_order_and_from_the_hint_on(engine: Engine) -> None:
    worker = engine.worker("work")
    runs = [engine.enqueue(tenant="acme") for _ in range(4)]
    first = engine.claim(worker, 1, lane="acme")
    assert (ids(first), first[0]["tenant"]) == (runs[:1], "acme")
    hints = [0] * PRIORITIES
    hints[first[0]["priority"]] = first[0]["seq"] + 1
    assert ids(engine.claim(worker, 10, lane="acme", hints=hints)) == runs[2:]
    assert ids(engine.claim(worker, 10, lane="acme")) == runs[1:2]


@pytest.mark.parametrize("other", ["", "aaa", "zzz"])
def test_others_are_served_whatever_the_lane_is(engine: Engine, other: str) -> None:
    """Also where the hint is far ahead: it is about the lane alone."""
    worker = engine.worker("work")
    engine.enqueue(tenant="acme")
    theirs = engine.enqueue(tenant=other)
    claims = engine.claim(worker, 10, lane="acme", hints=[1 << 40] * PRIORITIES)
    assert theirs in ids(claims)
    theirs = engine.enqueue(tenant=other)
    assert ids(engine.claim(worker, 10, lane="acme", hints=[1 << 40] * PRIORITIES)) == [theirs]


def test_a_paused_lane_is_passed_over(engine: Engine) -> None:
    worker = engine.worker("work")
    run = engine.enqueue(tenant="acme")
    # Only the pause itself: what holds the runs of a paused tenant has not come by yet.
    engine.rows("INSERT INTO rota.tenants (name, is_paused) VALUES ('acme', true)")
    engine.rows("UPDATE rota.open_runs SET held_by = NULL")
    assert engine.claim(worker, 10, lane="acme") == []
    engine.rows("UPDATE rota.tenants SET is_paused = false")
    assert ids(engine.claim(worker, 10, lane="acme")) == [run]


def test_a_plan_follows_the_one_tenant_that_has_work(engine: Engine) -> None:
    plan = ClaimPlan(concurrency=8, most=500, queues=["default"])
    worker = engine.worker("work")

    def claim() -> list[Claim]:
        request = plan.request(free=8)
        rows = engine.claim(
            worker, request.limit, request.queues, hints=request.hints, lane=request.lane
        )
        claims = [Claim(*row.values()) for row in rows]
        plan.learn(request, claims, 0.001, is_starved=False)
        return claims

    for tenant in ("acme", "acme", "", "blue"):
        run = engine.enqueue(tenant=tenant)
        assert [(one.id, one.tenant) for one in claim()] == [(run, tenant)]
        assert plan.request(free=8).lane == tenant
    runs = {engine.enqueue(tenant="acme"), engine.enqueue(tenant="blue")}
    assert {one.id for one in claim()} == runs
    assert plan.request(free=8).lane == "blue"  # as before: nobody is alone


# Marks: where claims of several tenants took long, as under a held snapshot.

HINTED = [0] * 10


MARK = """
    SELECT rota.mark_lane(%s, 'default', t, %s::smallint[], %s::bigint[]),
        set_config('rota.lanes_' || %s || '_' || md5('default'), %s::text[]::text, false),
        set_config('rota.marked', %s, false)
    FROM unnest(%s::text[]) t
"""


def take_much(engine: Engine, worker: int, *tenants: str) -> None:
    """Then the session has marks of these lanes, behind all that was in them."""
    for tenant in tenants:
        engine.one(
            "SELECT rota.enqueue_batch('work', %s, tenant => %s)", json.dumps([{}] * 250), tenant
        )
    claims = engine.claim(worker, 250 * len(tenants), hints=HINTED)
    assert len(claims) == 250 * len(tenants)
    engine.succeed(worker, *claims)
    last = max(claim["seq"] for claim in claims)
    names, own = list(tenants), str(worker)
    engine.rows(MARK, worker, [claims[0]["priority"]], [last], own, names, own, names)


def taken(engine: Engine, worker: int, **options: Any) -> set[int]:
    return {claim["id"] for claim in engine.claim(worker, hints=HINTED, **options)}


def test_behind_marks_nothing_is_missed(engine: Engine) -> None:
    worker = engine.worker()
    take_much(engine, worker, "", "b", "d")
    runs = {engine.enqueue(tenant=tenant) for tenant in ("", "a", "b", "c", "d", "e")}
    assert taken(engine, worker) == runs
    assert taken(engine, worker) == set()


def test_behind_marks_the_first_in_line_is_taken_first(engine: Engine) -> None:
    worker = engine.worker()
    take_much(engine, worker, "a", "b")
    later = [engine.enqueue(tenant="b") for _ in range(3)]
    urgent = engine.enqueue(tenant="b", priority=0)
    assert [taken(engine, worker, limit=1) for _ in range(3)] == [{urgent}, {later[0]}, {later[1]}]


def test_behind_marks_the_line_is_taken_in_order_while_another_lane_ends(engine: Engine) -> None:
    """What a short lane leaves of its share goes to the long one, in the same claim: its marks must
    not move between the two portions, or the second one would step over as many runs again."""
    worker = engine.worker()
    take_much(engine, worker, "a", "b")
    short = {engine.enqueue(tenant="a") for _ in range(2)}
    runs = engine.one(
        "SELECT rota.enqueue_batch('work', %s, tenant => 'b')", json.dumps([{}] * 900)
    )
    assert taken(engine, worker, limit=402) == short | set(runs[:400])
    assert taken(engine, worker, limit=400) == set(runs[400:800])


def test_what_lies_before_marks_is_found_by_a_claim_without_hints(engine: Engine) -> None:
    """As after a late commit: a worker asks so every so often, and others have other marks."""
    worker, other = engine.worker(), engine.worker()
    with_low_places = [engine.enqueue(tenant="a", delay="1 hour") for _ in range(2)]
    take_much(engine, worker, "a", "b")
    engine.conn.execute("UPDATE rota.open_runs SET state = 'queued' WHERE state = 'scheduled'")
    assert taken(engine, worker) == set()
    assert taken(engine, other, limit=1) == {with_low_places[0]}
    assert [claim["id"] for claim in engine.claim(worker)] == [with_low_places[1]]


def test_without_a_second_tenant_there_are_no_marks(engine: Engine) -> None:
    worker = engine.worker()
    take_much(engine, worker, "a", "b")
    run = engine.enqueue()
    assert [claim["id"] for claim in engine.claim(worker)] == [run]
    assert engine.one("SELECT current_setting('rota.marked')") == ""
