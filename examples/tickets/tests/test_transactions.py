"""A test that rolls back: its enqueues are visible only on its own connection."""

from __future__ import annotations

import psycopg
import pytest
from tickets.jobs import sell, send_ticket

import rota
from rota.testing import assert_enqueued


def test_a_sale_sends_the_ticket(rota_app: rota.App, rota_database_url: str) -> None:
    with psycopg.connect(rota_database_url) as conn:
        sell(conn, "12A")
        assert_enqueued(rota_app, send_ticket, payload={"seat": "12A"}, count=1, connection=conn)
        conn.rollback()
    with pytest.raises(AssertionError, match="found 0"):
        assert_enqueued(rota_app, send_ticket)
