"""Keeps an application whose Django is under test away from the database that it is configured for.

Django's test runners, pytest-django's too, give Django a database for tests, and know nothing of
Rota's: an enqueue in a test would end in the real one.
"""

from __future__ import annotations

import sys
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from rota.errors import ConfigError

# Loaded where anything of Django may be under test.
TESTS = "django.test.utils"
_modules = sys.modules


def refuse_real_database(url: str | None) -> None:
    """Raise ConfigError if Django is under test and this is not its database for tests. None: the
    embedded server's."""
    if not hasattr(_modules[TESTS]._TestState, "saved_data"):
        return
    name = "" if url is None else str(conninfo_to_dict(url).get("dbname") or "")
    if any(_is_test_database(name, one.settings_dict) for one in _connections()):
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
    """Whether Django uses it, and it is named as Django names databases for tests. Those of
    parallel tests have a number behind it."""
    given = (settings.get("TEST") or {}).get("NAME")
    return name == settings.get("NAME") and name.startswith(given or "test_")
