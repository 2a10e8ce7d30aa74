"""Django's TestCase: all tests share a database; each is a transaction that is rolled back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection, connections
from django.test import TestCase
from psycopg.conninfo import conninfo_to_dict
from tickets.jobs import send_ticket
from tickets.models import Ticket, sell

import rota
from rota.testing import assert_enqueued


@pytest.fixture(scope="module", autouse=True)
def django_database(rota_session_url: str) -> Iterator[str]:
    found = conninfo_to_dict(rota_session_url)
    names = {
        "NAME": "dbname",
        "USER": "user",
        "PASSWORD": "password",
        "HOST": "host",
        "PORT": "port",
    }
    connections["default"].settings_dict.update(
        {key: found.get(it, "") for key, it in names.items()}
    )
    yield rota_session_url
    connection.close()


@pytest.fixture
def rota_database_url(django_database: str) -> str:
    """The application uses the same database as Django."""
    return django_database


class TestSales(TestCase):
    app: rota.App

    @pytest.fixture(autouse=True)
    def with_app(self, rota_app: rota.App) -> None:
        self.app = rota_app

    def test_a_sale_sends_the_ticket(self) -> None:
        sell("12A")
        assert Ticket.objects.filter(seat="12A").exists()
        assert_enqueued(
            self.app, send_ticket, payload={"seat": "12A"}, count=1, connection=connection
        )

    def test_a_seat_is_sold_once(self) -> None:
        sell("12A")  # the sale of the other test was rolled back
        assert_enqueued(self.app, send_ticket, count=1, connection=connection)

    def test_nothing_is_committed(self) -> None:
        sell("14C")
        with pytest.raises(AssertionError, match="found 0"):
            assert_enqueued(self.app, send_ticket)
