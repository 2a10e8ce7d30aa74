"""When a worker polls: no call is lost, whenever it comes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from rota.engine.claiming import calls as module
from rota.engine.claiming.calls import Calls
from rota.engine.claiming.state import Action, next_action, seconds_to_rest
from rota.postgres.queries import Query
from tests.engine.claiming.claims import make_claim
from tests.engine.claiming.states import idle, perform


class Database:
    """Answers the statements of `Calls`, and notes them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None
        self.answers: dict[str, Any] = {"workers/next_xid": [(70,)], "workers/oldest_xid": [(70,)]}

    async def fetch(self, query: Query[Any]) -> Any:
        self.asked.append(query.statement)
        if self.error is not None:
            raise self.error
        return query.read(self.answers.get(query.statement, []))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock, which stands still."""
    now = [1000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def calls(database: Database) -> Calls:
    return Calls(poll_seconds=60, worker=1, fetch=database.fetch)


def is_due(calls: Calls) -> bool:
    return idle(calls).is_due


def claim(calls: Calls, found: int = 0) -> None:
    calls.claim_sent()
    calls.claim_received(found)


async def announce(calls: Calls) -> None:
    """Until it has announced that it is idle, and no older transaction is open."""
    calls.set_listening(True)
    for _ in range(2):
        await perform(calls)
        claim(calls)
    assert calls.state().is_quiet


def test_a_call_is_answered_by_the_claim_after_it(calls: Calls) -> None:
    claim(calls)
    assert not is_due(calls)
    calls.called()
    assert is_due(calls)
    claim(calls, 1)
    assert not is_due(calls)


def test_a_call_during_a_claim_asks_for_another_one(calls: Calls) -> None:
    calls.called()
    calls.claim_sent()
    calls.called()  # committed after the claim had looked
    calls.claim_received(0)
    assert is_due(calls)


def test_the_call_from_which_on_it_polls_is_answered_too(calls: Calls, now: list[float]) -> None:
    calls = Calls(poll_seconds=60, worker=1, fetch=Database().fetch)
    for _ in range(module._BUSY_CALLS_PER_SECOND + 1):
        claim(calls)
        assert not is_due(calls)
        assert calls.called()
        assert is_due(calls)
    assert calls.state().is_busy
    claim(calls)
    assert not calls.called()
    assert seconds_to_rest(idle(calls)) == pytest.approx(module._BUSY_POLL_SECONDS)


async def test_it_does_not_rest_while_an_older_transaction_has_runs(now: list[float]) -> None:
    """Past the time in which most end it polls, and asks after each poll whether that one has."""
    database = Database()
    database.answers |= {"workers/oldest_xid": [(50,)], "workers/late_enqueues": [(1,)]}
    calls = Calls(poll_seconds=1, resting_seconds=6, worker=1, fetch=database.fetch)
    calls.set_listening(True)
    await perform(calls)

    async def poll() -> float:
        claim(calls)
        await perform(calls)
        return seconds_to_rest(idle(calls))

    assert await poll() < 1
    now[0] += module._SETTLE_LIMIT + 1
    assert await poll() == 1
    assert is_due(calls), "once more, as it is quiet from now on"
    for _ in range(3):
        assert await poll() == 1
        now[0] += 1
    database.answers["workers/late_enqueues"] = []
    claim(calls)
    await perform(calls)
    assert is_due(calls), "it may have committed after the claim"
    assert await poll() > 5


async def test_it_asks_for_older_transactions_once_a_claim(
    calls: Calls, database: Database
) -> None:
    database.answers["workers/oldest_xid"] = [(50,)]
    calls.set_listening(True)
    for _ in range(3):
        await perform(calls)
    assert database.asked == ["workers/answer_calls", "workers/next_xid", "workers/oldest_xid"]
    claim(calls)
    for _ in range(3):
        await perform(calls)
    assert database.asked[3:] == ["workers/oldest_xid"]


async def test_a_row_that_is_held_is_left_alone_for_a_while(
    calls: Calls, database: Database, now: list[float]
) -> None:
    database.error = psycopg.errors.LockNotAvailable()
    calls.set_listening(True)
    for _ in range(3):
        await perform(calls)
    assert database.asked == ["workers/answer_calls"]
    assert calls.state().announced == "none"
    database.error = None
    now[0] += module._HELD_SECONDS
    await perform(calls)
    assert calls.state().announced == "idle"


async def test_a_poll_that_finds_what_others_left_passes_them_over(
    calls: Calls, database: Database, now: list[float]
) -> None:
    await announce(calls)
    calls.claim_sent()  # asked for by the end of settling
    calls.claim_received(0)
    calls.watch()
    assert not is_due(calls)
    now[0] += module._WATCH_SECONDS
    assert is_due(calls)
    calls.claim_sent()
    calls.claim_received(1)
    calls.runs_claimed([make_claim()], may_have_more=False)
    assert next_action(idle(calls)) is Action.PASS_OVER
    await calls.perform(Action.PASS_OVER)
    assert database.asked[-1] == "workers/pass_over"
    assert not calls.state().has_to_pass_over


async def test_what_it_was_called_for_passes_over_nobody(calls: Calls) -> None:
    await announce(calls)
    calls.called()
    calls.claim_sent()
    calls.claim_received(1)
    calls.runs_claimed([make_claim()], may_have_more=False)
    assert not calls.state().has_to_pass_over
    assert calls.state().seconds_to_load_check is None


@pytest.mark.parametrize("is_full", [True, False])
async def test_it_passes_on_what_is_too_much_a_moment_later(
    calls: Calls, database: Database, now: list[float], is_full: bool
) -> None:
    await announce(calls)
    claim(calls)  # asked for by the end of settling
    claim(calls, 1)
    calls.runs_claimed([make_claim()], may_have_more=True)
    assert next_action(idle(calls)) is Action.REST
    assert seconds_to_rest(idle(calls)) == pytest.approx(module._LOAD_SECONDS)
    now[0] += module._LOAD_SECONDS * 1.01
    assert next_action(idle(calls)) is Action.CHECK_LOAD
    calls.load_checked(is_full)
    assert calls.state().seconds_to_load_check is None
    assert calls.state().has_to_pass_on is is_full
    if is_full:
        assert next_action(idle(calls)) is Action.PASS_ON
        await calls.perform(Action.PASS_ON)
        assert database.asked[-1] == "workers/pass_on"
        assert calls.state().announced == "none"


async def test_who_is_not_announced_tells_nobody(calls: Calls) -> None:
    claim(calls, 1)
    calls.runs_claimed([make_claim()], may_have_more=True)
    assert calls.state().seconds_to_load_check is None
    await announce(calls)
    calls.passed_over()
    assert calls.state().announced == "none"
    await perform(calls)
    assert calls.state().announced == "idle"
