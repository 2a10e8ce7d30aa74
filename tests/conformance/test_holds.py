"""What holds a run: a suspect is isolated, whatever else has held it since its worker was lost."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from tests.conformance.test_limits import admit, books, limit
from tests.sql_engine import Engine

LIMITS: dict[str, Callable[[Engine], None]] = {
    "none": lambda engine: None,
    "concurrency": lambda engine: limit_of(engine, kind="concurrency", cap=5),
    "rate": lambda engine: limit_of(engine, "often", kind="rate", cap=100, period_seconds=1),
    "sequence": lambda engine: limit_of(engine, "line", kind="sequence", cap=None),
    "two": lambda engine: (
        limit_of(engine, kind="concurrency", cap=5),
        limit_of(engine, "often", kind="rate", cap=100, period_seconds=1),
    )[0],
}


def limit_of(engine: Engine, name: str = "few", **changes: object) -> None:
    limit(engine, name, **changes)


def pause_and_resume(engine: Engine) -> None:
    engine.one("SELECT rota.pause_tenant('acme')")
    assert held_by(engine) == "tenant"
    engine.one("SELECT rota.resume_tenant('acme')")


def park_and_free(engine: Engine) -> None:
    engine.conn.execute("UPDATE rota.workers SET state = 'gone', ended_at = clock_timestamp()")
    admit(engine)
    engine.park()
    assert held_by(engine) == "no_worker"
    engine.worker()
    assert engine.free() == 1


def add_a_limit(engine: Engine) -> None:
    limit_of(engine, "later", kind="concurrency", cap=3)
    admit(engine)


def remove_the_limits(engine: Engine) -> None:
    engine.conn.execute("DELETE FROM rota.limits")


def hand_back(engine: Engine) -> None:
    worker = engine.worker()
    admit(engine)
    assert engine.hand_back(worker, *engine.claim_suspect(worker))


def cut_off(engine: Engine) -> None:
    worker = engine.worker()
    admit(engine)
    (claim,) = engine.claim_suspect(worker)
    engine.requeue(worker, claim, None, state="cancelled", spent=False, error=None)


def kill_its_process(engine: Engine) -> None:
    worker = engine.worker()
    admit(engine)
    (claim,) = engine.claim_suspect(worker)
    engine.requeue(worker, claim, 5.0, state="lost")
    assert engine.one("SELECT state FROM rota.open_runs WHERE id = %s", claim["id"]) == "scheduled"
    engine.advance(6)
    assert engine.promote() == 1


def held_by(engine: Engine) -> str | None:
    found: str | None = engine.one("SELECT held_by FROM rota.open_runs")
    return found


def suspect(engine: Engine) -> int:
    """A run of tenant acme whose worker was lost with it, and with nothing else."""
    run = engine.enqueue(tenant="acme", max_attempts=10)
    worker = engine.worker()
    admit(engine)
    engine.claim_one(worker, lane="acme")
    engine.lose(worker)
    assert engine.rescue() == {run: "requeued"}
    return run


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize(
    "way",
    [
        pause_and_resume, park_and_free, add_a_limit, remove_the_limits, hand_back, cut_off,
        kill_its_process,
    ],
)  # fmt: skip
def test_a_suspect_stays_one(engine: Engine, limits: str, way: Callable[[Engine], None]) -> None:
    LIMITS[limits](engine)
    run = suspect(engine)
    engine.worker()
    admit(engine)
    way(engine)
    admit(engine)
    worker = engine.worker()
    assert engine.claim(worker, lane="acme") == [], "beside others"
    (claim,) = engine.claim_suspect(worker)
    assert (claim["id"], claim["is_suspect"]) == (run, True)
    engine.succeed(worker, claim)
    admit(engine)
    books(engine)


def test_what_was_sent_back_to_normal_work_stays_there(engine: Engine) -> None:
    """Lost among others it is under suspicion, but need not be isolated: no hold changes that."""
    runs = [engine.enqueue(tenant="acme", max_attempts=10) for _ in range(2)]
    worker = engine.worker()
    assert len(engine.claim(worker, lane="acme")) == 2
    engine.lose(worker)
    engine.rescue()
    engine.worker()
    engine.conn.execute("DELETE FROM rota.open_runs WHERE id = %s", [runs[1]])
    park_and_free(engine)
    pause_and_resume(engine)
    fresh = engine.worker()
    assert engine.claim_suspect(fresh) == []
    assert [one["id"] for one in engine.claim(fresh, lane="acme")] == [runs[0]]


def test_no_statement_makes_a_suspect_claimable(engine: Engine) -> None:
    suspect(engine)
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.conn.execute("UPDATE rota.open_runs SET held_by = NULL")
    with pytest.raises(psycopg.errors.CheckViolation):
        engine.conn.execute("UPDATE rota.open_runs SET suspicion = 3")


@pytest.mark.parametrize(
    ("facts", "hold"),
    [
        ("true, NULL", None),
        ("true, '{}'", None),
        ("true, '{c1:}'", "limit"),
        ("true, NULL, 1::smallint", None),
        ("true, NULL, 2::smallint", "suspect"),
        ("true, '{c1:}', 2::smallint", "limit"),
        ("true, '{c1:}', 2::smallint, 'tenant'", "tenant"),
        ("true, NULL, 2::smallint, 'no_worker'", "no_worker"),
        ("true, NULL, 0::smallint, 'limit'", None),
        ("true, NULL, 2::smallint, 'limit'", "suspect"),
        ("true, NULL, 0::smallint, 'suspect'", None),
        ("false, '{c1:}', 2::smallint, 'overlap'", None),
    ],
)
def test_one_function_decides(engine: Engine, facts: str, hold: str | None) -> None:
    assert engine.one(f"SELECT rota.hold_of({facts})") == hold
