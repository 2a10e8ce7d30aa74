"""A million events: what lists read of them, and what an event costs beside them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from rota.postgres.events import page_events
from tests.database import Server
from tests.plans.plans import Watch
from tests.plans.test_audit import drive

pytestmark = [pytest.mark.plans, pytest.mark.deep, pytest.mark.xdist_group("a million events")]

# A week of them: a thousand names, ten tenants; one name and one tenant that came once, long ago.
EVENTS = """
INSERT INTO rota.events (tenant, name, id, at, payload, deliveries)
SELECT CASE WHEN i = 7 THEN 'once' ELSE 't' || i % 10 END,
    CASE WHEN i = 9 THEN 'rare.one' ELSE 'order.' || i % 1000 END, i,
    rota.now() - interval '6 days' + i * interval '0.5 second', '{"n": 1}',
    CASE WHEN i % 100 = 0 THEN '[{"job": "ship", "run": 1}]'::jsonb END
FROM generate_series(1, 1000000) i
"""
PAGE = 51  # one more than is shown: whether there is another page


@pytest.fixture(scope="module")
def events(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute("SELECT rota.ensure_partitions(rota.now() - interval '7 days', rota.now())")
        conn.execute(EVENTS)
        conn.execute("SELECT setval('rota.event_ids', 1000001)")
        conn.execute("VACUUM ANALYZE rota.events")
        yield conn


def read(conn: psycopg.Connection[Any], **filters: Any) -> tuple[Watch, list[int]]:
    """What the list read, and the numbers that it has found."""
    seen = Watch(conn)
    found = drive(conn, page_events(limit=PAGE - 1, **filters))
    return seen, [item.id for item in found.items]


def rows_read(seen: Watch) -> float:
    return sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
        for node in partitions(seen)
    )


def partitions(seen: Watch) -> list[Any]:
    return [
        node
        for node in seen.every()
        if str(node.get("Relation Name", "")).startswith("events_")
        and (node["Actual Rows"] or node.get("Rows Removed by Filter"))
    ]  # fmt: skip


FILTERS: list[tuple[dict[str, Any], list[int], float]] = [
    ({}, [1_000_000, 999_999], 500),
    ({"order": "oldest"}, [1, 2], 500),
    ({"cursor": (500_000,)}, [499_999, 499_998], 500),
    ({"tenant": "t3"}, [999_993, 999_983], 5_000),
    ({"tenant": "t5", "name": "order.995"}, [999_995, 998_995], 2_000),
    ({"tenant": "once"}, [7], 500),
    ({"tenant": "once", "name": "order.7"}, [7], 500),
    ({"name": "order.7"}, [999_007, 998_007], 5_000),
    ({"name": "rare.one"}, [9], 500),
    ({"name": "rare.one", "order": "oldest"}, [9], 500),
    ({"name": "order.*"}, [1_000_000, 999_999], 500),
    ({"since": timedelta(days=30)}, [1_000_000, 999_999], 500),
    # Other days are not looked at; of its own day all that came later is.
    ({"until": timedelta(days=3)}, [], 200_000),
]


@pytest.mark.parametrize(("filters", "first", "most"), FILTERS)
def test_lists_read_a_bounded_part(
    events: psycopg.Connection[Any], filters: dict[str, Any], first: list[int], most: float
) -> None:
    seen, found = read(events, **filters)
    assert found[: len(first)] == first
    kinds = {node["Node Type"] for node in partitions(seen)}
    assert "Seq Scan" not in kinds
    assert rows_read(seen) < most


def test_an_event_reads_none_of_them(events: psycopg.Connection[Any]) -> None:
    seen = Watch(events)
    events.execute("SELECT rota.emit('order.7', tenant => 't1')")
    assert rows_read(seen) == 0
