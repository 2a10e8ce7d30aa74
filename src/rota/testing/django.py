"""Rota in the tests of a Django project: docs/guides/django.md shows how to use it.

* `TestRunner`            for `manage.py test`: TEST_RUNNER = "rota.testing.django.TestRunner"
* `database_url(alias)`   the URL of the database that Django uses, for `on_database`
* `use_django_database`   the application on that database, with Rota's schema
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote, urlencode

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections
from django.test.runner import DiscoverRunner

from rota.app import App
from rota.testing.binding import on_database


def database_url(alias: str = DEFAULT_DB_ALIAS) -> str:
    """The URL of the database that Django uses now, in tests the one for tests. It has a password
    only if Django's settings have one."""
    found = connections[alias].settings_dict
    user, password = found["USER"], found["PASSWORD"]
    who = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    # Not before the slash: a directory of sockets is no host there.
    given = {"host": found["HOST"], "port": found["PORT"]}
    rest = urlencode({key: value for key, value in given.items() if value})
    name = quote(found["NAME"], safe="")
    return f"postgresql://{f'{who}@' if who else ''}/{name}{f'?{rest}' if rest else ''}"


@contextmanager
def use_django_database(app: App, alias: str = DEFAULT_DB_ALIAS) -> Iterator[App]:
    """Within the block, the application uses Django's database for tests, where Rota's schema is
    installed if it is missing."""
    with on_database(app, database_url(alias)):
        app.migrate()
        yield app
        # Django drops the database next, and no connection may be left.
        app.close_sync()


class TestRunner(DiscoverRunner):  # type: ignore[misc]
    """Django's test runner, which gives the application its database for tests. The setting
    ROTA_APP names the application, as `module:attribute`. Tests do not run in parallel processes,
    each of which would need a database of Rota's own."""

    __test__ = False  # pytest takes it for a class of tests

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.parallel = 1
        self._rota = ExitStack()

    def setup_databases(self, **options: Any) -> Any:
        made = super().setup_databases(**options)
        self._rota.enter_context(use_django_database(_application()))
        return made

    def teardown_databases(self, old_config: Any, **options: Any) -> None:
        self._rota.close()
        super().teardown_databases(old_config, **options)


def _application() -> App:
    name = str(getattr(settings, "ROTA_APP", ""))
    module, _, attribute = name.partition(":")
    found = getattr(importlib.import_module(module), attribute, None) if module else None
    if not isinstance(found, App):
        raise ImproperlyConfigured(
            "rota.testing.django.TestRunner needs the setting ROTA_APP, the application as "
            f'"module:attribute"; it is {name!r}'
        )
    return found
