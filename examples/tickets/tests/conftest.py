from __future__ import annotations

from collections.abc import Callable

import django
import psycopg
import pytest
from django.conf import settings

# Where the database is, is known when the first test asks for it: see test_django.py.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}, INSTALLED_APPS=["tickets"]
)
django.setup()


@pytest.fixture(scope="session")
def rota_prepare() -> Callable[[str], None]:
    """The tables of the application, once: each test gets a copy. With migrations of your own,
    this is the place to run them."""

    def prepare(url: str) -> None:
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE tickets (seat text PRIMARY KEY, is_paid bool NOT NULL)")

    return prepare
