"""How entries of the audit are found beside two hundred thousand others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from rota.model.page import Page
from rota.postgres.audit import page_audit
from rota.postgres.plans import Plan
from rota.postgres.statements import Statements
from tests.database import Server
from tests.plans.plans import Watch

pytestmark = pytest.mark.plans

MANY = """
INSERT INTO rota.audit (at, actor, db_user, action, object_type, object_id)
SELECT rota.now() - (200000 - i) * interval '1 s', 'api:me', 'rota', 'run.retried', 'run', i::text
FROM generate_series(1, 200000) i
"""
RARE = """
INSERT INTO rota.audit (at, actor, db_user, action, object_type, object_id)
VALUES (rota.now() - interval '3 days', 'ada', 'rota', 'queue.paused', 'queue', 'mail')
"""


@pytest.fixture(scope="module")
def full(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, psycopg.connect(url, autocommit=True) as conn:
        conn.execute(RARE)
        conn.execute(MANY)
        conn.execute("VACUUM ANALYZE rota.audit")
        yield conn


def drive(conn: psycopg.Connection[Any], plan: Plan[Page[Any]]) -> Page[Any]:
    statements, rows = Statements("rota"), None
    try:
        while True:
            ask = next(plan) if rows is None else plan.send(rows)
            cursor = conn.cursor(row_factory=dict_row)
            cursor.execute(statements.get(ask.statement), ask.params)
            rows = cursor.fetchall() if cursor.description else []
    except StopIteration as done:
        found: Page[Any] = done.value
        return found


@pytest.mark.parametrize(
    "filters",
    [
        {"actor": "ada"},
        {"action": "queue.paused"},
        {"object_type": "queue"},
        {"object_id": "mail"},
        {"object_type": "queue", "object_id": "mail", "actor": "ada"},
    ],
    ids=lambda it: "+".join(it),
)
def test_what_is_rare_is_found_at_once(
    full: psycopg.Connection[Any], filters: dict[str, str]
) -> None:
    seen = Watch(full)
    with full.transaction():
        found = drive(full, page_audit(**filters))
    assert len(found.items) == 1
    assert seen.rows_read("audit") < 100


def test_the_newest_are_found_at_once(full: psycopg.Connection[Any]) -> None:
    seen = Watch(full)
    with full.transaction():
        found = drive(full, page_audit(object_type="run", limit=50))
    assert len(found.items) == 50
    assert seen.rows_read("audit") < 200
