"""`why`, beside more than a million open runs: every look is bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.plans.plans import Watch
from tests.plans.test_large_tables import empty, fresh, none_at_all
from tests.sql_engine import Engine

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("large tables")]

# As far as a place in line is counted; to know that there are many, so many are looked at; and the
# front of each lane that has running ones.
LINE, MANY, LANE = 10_001, 20_001, 1_000
SUBJECTS = {
    "the first in line": ("500001", "run"),
    "the last in line": ("1000000", "run"),
    "one for later": ("1200000", "run"),
    "one that has ended": ("3500000", "run"),
    "a job": ("work", "job"),
    "a queue": ("mail", "queue"),
    "a schedule": ("nightly", "schedule"),
}


@pytest.fixture(scope="module")
def asked(large: psycopg.Connection[Any]) -> Iterator[psycopg.Connection[Any]]:
    """All slots of one worker are busy, so that what runs is looked at too."""
    engine = Engine(large)
    engine._insert("schedules", {"name": "nightly", "job": "work", "cron": "0 3 * * *"})
    claims = engine.claim(worker := engine.worker(), 10, ["default"])
    engine.count_depths()
    large.execute("UPDATE rota.count_marks SET took_ms = 1000000000")
    yield large
    large.execute("UPDATE rota.count_marks SET took_ms = 0")
    engine.succeed(worker, *claims)
    large.execute("DELETE FROM rota.schedules WHERE name = 'nightly'")
    large.execute("UPDATE rota.workers SET state = 'gone', ended_at = now(), is_waiting = false")


@pytest.fixture(params=[fresh, none_at_all, empty], ids=lambda it: it.__name__)
def seen(asked: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Iterator[Watch]:
    request.param(asked)
    info = asked.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as conn:
        yield Watch(conn)


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_look_is_bounded(seen: Watch, subject: str) -> None:
    for _ in range(7):  # by then with whatever plan the server settles on
        seen.plans.clear()
        found = Engine(seen.conn).rows("SELECT code FROM rota.why(%s, %s)", *SUBJECTS[subject])
    assert found
    assert seen.rows_read("open_runs") <= LINE + 2 * MANY + 2 * (LANE + 20)
    ended = {
        str(node["Relation Name"])
        for plan in seen.plans
        for node in _relations(plan["Plan"])
        if str(node["Relation Name"]).startswith("ended_runs")
    }
    assert sum(seen.rows_read(it) for it in ended) <= 10


def _relations(node: Any) -> Iterator[Any]:
    if "Relation Name" in node:
        yield node
    for child in node.get("Plans", []):
        yield from _relations(child)
