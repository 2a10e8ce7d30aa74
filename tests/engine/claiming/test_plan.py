"""How much is claimed, from which queues, and from which place on."""

from __future__ import annotations

import pytest

from rota.engine.claiming import plan as module
from rota.engine.claiming.plan import PRIORITIES, ClaimPlan
from rota.model.run import Claim
from rota.postgres.pipeline.claims import ClaimRequest
from tests.engine.claiming.claims import make_claim


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


@pytest.fixture
def plan(clock: Clock) -> ClaimPlan:
    return ClaimPlan(concurrency=10, most=500, queues=["a", "b"])


def claims(count: int, **fields: object) -> list[Claim]:
    return [make_claim(run_id, **{"queue": "a"} | fields) for run_id in range(1, count + 1)]


def learn(
    plan: ClaimPlan, request: ClaimRequest, found: list[Claim], *, is_starved: bool = True
) -> None:
    plan.learn(request, found, 0.001, is_starved=is_starved)


def test_it_claims_for_the_free_slots(plan: ClaimPlan) -> None:
    request = plan.request(free=3)
    assert (request.limit, request.batch, request.start_batch) == (3, None, None)
    assert plan.request(free=9999).limit == 500


def test_nothing_is_claimed_ahead_before_runs_are_known_to_be_short(plan: ClaimPlan) -> None:
    assert plan.request(is_ahead=True).limit == 0
    plan.took(200.0)
    assert plan.request(is_ahead=True).limit == 0
    assert not plan.is_fast


def test_batches_have_numbers(plan: ClaimPlan) -> None:
    plan.took(1.0)
    assert [plan.request(is_ahead=True).batch for _ in range(3)] == [1, 2, 3]
    assert plan.request(is_ahead=True, start_batch=3).start_batch == 3


def test_a_full_claim_grows_the_next_one_while_slots_starve(plan: ClaimPlan) -> None:
    plan.took(1.0)
    sizes = []
    for _ in range(5):
        request = plan.request(is_ahead=True)
        sizes.append(request.limit)
        learn(plan, request, claims(request.limit))
    assert sizes == [10, 40, 160, 500, 500]


def test_it_does_not_grow_for_slots_that_have_work(plan: ClaimPlan) -> None:
    plan.took(1.0)
    learn(plan, plan.request(is_ahead=True), claims(10), is_starved=False)
    assert plan.size == 10


def test_slow_runs_shrink_it(plan: ClaimPlan) -> None:
    plan.took(1.0)
    learn(plan, plan.request(is_ahead=True), claims(10))
    plan.shrink()
    assert (plan.size, plan.is_fast) == (10, False)


def test_it_has_more_while_claims_come_back_full(plan: ClaimPlan) -> None:
    learn(plan, plan.request(free=2), claims(2))
    assert plan.may_have_more
    learn(plan, plan.request(free=2), claims(1))
    assert not plan.may_have_more


def test_a_queue_that_used_up_its_share_may_have_more(plan: ClaimPlan) -> None:
    learn(plan, plan.request(free=4), [*claims(2), *claims(2, queue="b")])
    request = plan.request(free=4)
    assert request.quota == 2
    learn(plan, request, claims(2))
    assert plan.may_have_more


def test_it_has_more_until_every_queue_was_visited(clock: Clock) -> None:
    plan = ClaimPlan(concurrency=10, most=500, queues=[f"q{n}" for n in range(250)])
    plan.set_queues([f"q{n}" for n in range(250)])
    found = []
    for _ in range(3):
        learn(plan, plan.request(free=10), [])
        found.append(plan.may_have_more)
    assert found == [True, True, False]


def test_queues_take_turns(plan: ClaimPlan) -> None:
    firsts = [plan.request(free=1).queues[0] for _ in range(4)]
    assert firsts == ["b", "a", "b", "a"]


def test_a_called_queue_comes_first_once(plan: ClaimPlan) -> None:
    plan.add_queue("new")
    assert plan.request(free=1).queues[0] == "new"
    assert sorted(plan.request(free=1).queues) == ["a", "b", "new"]


def test_hints_say_how_far_it_has_looked(plan: ClaimPlan, clock: Clock) -> None:
    first = plan.request(free=10)
    assert first.hints == []
    plan.learn(first, claims(3, priority=2), 0.01, is_starved=True)
    request = plan.request(free=10)
    assert request.queues == ["a", "b"]
    assert request.hints == [0, 0, 3, *[0] * (PRIORITIES - 3), *[0] * PRIORITIES]


def test_a_hinted_claim_owes_a_full_one(plan: ClaimPlan, clock: Clock) -> None:
    plan.learn(plan.request(free=10), claims(3), 0.01, is_starved=True)
    assert plan.seconds_to_full_claim is None
    plan.learn(plan.request(free=10), [], 0.01, is_starved=True)
    assert plan.seconds_to_full_claim == pytest.approx(0.2)
    clock.now += 0.2
    assert plan.seconds_to_full_claim == 0
    assert plan.request(free=10).hints == []


def test_marking_a_batch_as_started_teaches_nothing(plan: ClaimPlan) -> None:
    plan.took(50.0)
    learn(plan, plan.request(is_ahead=True, start_batch=1), [])
    assert plan.may_have_more


def test_a_backlog_is_what_nobody_knows_to_be_slow(plan: ClaimPlan) -> None:
    assert plan.has_backlog
    plan.took(50.0)
    assert not plan.has_backlog
