"""Which loops are in trouble, by what they said and a clock of the test's."""

from __future__ import annotations

import psycopg
import pytest

from rota.engine.lease.health import Health
from rota.engine.lease.judge import HealthJudge
from rota.errors import DatabaseError
from rota.postgres.sessions.outage import Outage


class Worker:
    """Writes down what the judge wants."""

    def __init__(self) -> None:
        self.is_idle = False
        self.calls: list[str] = []

    def restart(self, loop: str) -> None:
        self.calls.append(f"restart {loop}")

    def give_up(self) -> None:
        self.calls.append("give up")

    def end_failing(self) -> None:
        self.calls.append("end")


class Time:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def health(clock: Time) -> Health:
    return Health(Outage(), patience=60, clock=clock)


def test_a_loop_that_rests_is_well(health: Health, clock: Time) -> None:
    turns = health.of("promoter")
    turns.begin()
    turns.went_well()
    clock.now += 10_000
    assert health.look() == []


def test_a_turn_that_does_not_end(health: Health, clock: Time) -> None:
    turns = health.of("promoter", 30)
    turns.begin()
    clock.now += 90
    assert health.look() == []
    clock.now += 1
    (trouble,) = health.look()
    assert trouble.is_standing
    assert str(trouble) == health.report.trouble == "promoter: it is stuck"
    turns.begin()  # it goes on
    assert health.look() == []


def test_turns_that_only_meet_locks_are_no_fault_of_the_worker(health: Health, clock: Time) -> None:
    """It would meet them under another number too."""
    turns = health.of("feeder")
    for _ in range(10):
        turns.begin()
        turns.failed(psycopg.errors.LockNotAvailable("canceling statement due to lock timeout"))
        clock.now += 60
    assert health.look() == []


def test_turns_that_only_fail(health: Health, clock: Time) -> None:
    turns = health.of("promoter")
    for _ in range(7):
        turns.begin()
        turns.failed(ValueError("broken\nand more"))
        clock.now += 10
    (trouble,) = health.look()
    assert not trouble.is_standing
    assert (trouble.errors, trouble.reason) == (7, "ValueError: broken")
    turns.begin()
    turns.went_well()
    assert health.look() == []
    assert health.report.errors == 0


def test_an_outage_is_nobodys_fault(health: Health, clock: Time) -> None:
    turns = health.of("feeder")
    turns.failed(psycopg.OperationalError("refused"))
    clock.now += 1000
    health.excuse()
    assert health.look() == []
    clock.now += 61
    assert health.look() != []


def test_its_own_work_costs_a_worker_its_identity_then_its_process(
    health: Health, clock: Time
) -> None:
    worker = Worker()
    judge = HealthJudge(health, worker, clock=clock)
    turns = health.of("feeder")
    turns.failed(ValueError("broken"))
    clock.now += 61
    judge.look()
    judge.look()
    assert worker.calls == ["give up"]
    turns.failed(ValueError("broken"))
    clock.now += 61
    judge.look()
    assert worker.calls == ["give up", "end"]


@pytest.mark.parametrize(("well_for", "second"), [(121, "give up"), (119, "end")])
def test_one_that_recovered_for_a_while_begins_from_the_start(
    well_for: float, second: str, health: Health, clock: Time
) -> None:
    """A turn that goes well in between is not enough: one that cannot write ends claims well."""
    worker = Worker()
    judge = HealthJudge(health, worker, clock=clock)
    for loop in ("feeder", "rescuer"):
        worker.is_idle = True
        turns = health.of(loop)
        turns.failed(ValueError("broken"))
        clock.now += 61
        judge.look()
        turns.went_well()
        clock.now += well_for
    assert worker.calls == ["give up", second]


def test_nobodys_run_is_cut_off_for_the_fleets_work(health: Health, clock: Time) -> None:
    worker = Worker()
    judge = HealthJudge(health, worker, clock=clock)
    health.of("scheduler").failed(ValueError("broken"))
    clock.now += 61
    judge.look()
    assert worker.calls == []
    worker.is_idle = True
    judge.look()
    assert worker.calls == ["give up"]


def test_housekeeping_costs_nothing(health: Health, clock: Time) -> None:
    worker = Worker()
    worker.is_idle = True
    judge = HealthJudge(health, worker, clock=clock)
    health.of("logs").failed(ValueError("broken"))
    health.of("upkeep").begin()
    clock.now += 62
    judge.look()
    judge.look()
    assert worker.calls == ["restart upkeep"]
    words = "logs: ValueError: broken; upkeep: RuntimeError: it was stuck"
    assert health.report.trouble == words
    health.of("feeder").failed(ValueError("broken"))
    clock.now += 61
    judge.look()
    assert worker.calls[-1] == "give up"


def test_an_outage_in_rotas_own_words_is_one_too(health: Health) -> None:
    """A loop that works through the use cases of operators gets their errors."""
    away = psycopg.OperationalError("connection failed: Connection refused")
    error = DatabaseError("the database did not answer")
    error.__cause__ = away
    assert health.of("feeder").failed(away) is False
    assert health.of("bulk actions").failed(error) is False
    assert health.of("bulk actions").failed(DatabaseError("something else")) is True
