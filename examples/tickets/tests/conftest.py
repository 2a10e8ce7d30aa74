from __future__ import annotations

from collections.abc import Callable

import django
import psycopg
import pytest
from django.conf import settings

# The address of the database is set when the first test needs it: see test_django.py.
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}}, INSTALLED_APPS=["tickets"]
)
django.setup()


@pytest.fixture(scope="session")
def rota_prepare() -> Callable[[str], None]:
    """Creates the application's tables once; each test gets a copy. If you have migrations, run
    them here."""

    def prepare(url: str) -> None:
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE tickets (seat text PRIMARY KEY, is_paid bool NOT NULL)")

    return prepare
