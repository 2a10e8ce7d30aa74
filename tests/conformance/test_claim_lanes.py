"""A tenant that is alone in a queue is claimed as nobody's runs are: in order, from a hint on."""

from __future__ import annotations

import pytest

from rota.model.run import Claim
from rota.runtime.claiming.claim_plan import PRIORITIES, ClaimPlan
from tests.engine import Engine


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
