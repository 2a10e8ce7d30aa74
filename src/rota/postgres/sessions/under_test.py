"""Keeps applications under test by Django away from the database in their configuration.

Django's test runners, including pytest-django's, give Django a test database but do not change
Rota's: an enqueue in a test would reach the real database.
"""

from __future__ import annotations

import sys
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from rota.errors import ConfigError

# Loaded wherever Django may be under test.
TESTS = "django.test.utils"
_modules = sys.modules


def refuse_real_database(url: str | None) -> None:
    """Raise ConfigError if Django is under test and `url` is not its test database. None means the
    embedded server."""
    if not hasattr(_modules[TESTS]._TestState, "saved_data"):
        return
    name = "" if url is None else str(conninfo_to_dict(url).get("dbname") or "")
    if any(_is_test_database(name, connection.settings_dict) for connection in _connections()):
        return
    shown = "the embedded database" if url is None else f'the database "{name}"'
    raise ConfigError(
        f"Django is under test, and this application would use {shown}, which is not Django's "
        "database for tests",
        hint='set TEST_RUNNER = "rota.testing.django.TestRunner" in the settings, or use '
        "rota.testing.on_database(app, url) in the tests: docs/guides/django.md shows both",
    )


def _connections() -> list[Any]:
    found: list[Any] = _modules["django.db"].connections.all()
    return found


def _is_test_database(name: str, settings: dict[str, Any]) -> bool:
    """Return whether Django uses this database and its name is that of a test database. Databases
    of parallel tests have a number after the name."""
    given = (settings.get("TEST") or {}).get("NAME")
    return name == settings.get("NAME") and name.startswith(given or "test_")
