"""Fixtures for tests of applications that use Rota; docs/guides/testing.md shows how to use them.

pytest loads it in every project that has Rota installed. Therefore nothing of Rota is imported
before a fixture is used, and all names begin with `rota_`.
"""

from __future__ import annotations

import importlib
import os
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rota.app import App
    from rota.testing import Clock, TestWorker
    from rota.testing.databases import TestDatabases

URL = "ROTA_TEST_DATABASE_URL"
_HOW = 'set rota_app = "package.module:app" in the pytest configuration, or override the fixture'


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("rota_app", "The Rota application to test, as module:attribute.", default="")


@pytest.fixture(scope="session")
def rota_application(pytestconfig: pytest.Config) -> App:
    """The application as it is configured. Override it instead of setting `rota_app`: `def
    rota_application(): return app`."""
    name = str(pytestconfig.getini("rota_app")).strip()
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise pytest.UsageError(f"no application is configured: {_HOW} rota_application")
    return _find(module, attribute)


def _find(module: str, attribute: str) -> App:
    from rota.app import App

    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise
        hint = 'is its directory on sys.path? Set pythonpath = ["."] in the pytest configuration'
        raise pytest.UsageError(f"rota_app: no module named {error.name}; {hint}") from error
    if not isinstance(found, App):
        raise pytest.UsageError(f"rota_app: {module}:{attribute} is {found!r}, not a rota.App")
    return found


@pytest.fixture(scope="session")
def rota_databases(pytestconfig: pytest.Config, rota_application: App) -> Iterator[TestDatabases]:
    """The server for the test run: that of ROTA_TEST_DATABASE_URL, or an embedded one."""
    from rota.testing.databases import TestDatabases

    # Given by pytest-xdist to all of its processes.
    worker: dict[str, str] = getattr(pytestconfig, "workerinput", {})
    run = worker.get("testrunuid") or uuid.uuid4().hex
    url = os.environ.get(URL) or None
    databases = TestDatabases(run, url, schema=rota_application.config.schema)
    yield databases
    databases.close()


@pytest.fixture(scope="session")
def rota_prepare() -> Callable[[str], object] | None:
    """Override it with a function that creates your own tables in the template: it is called once,
    with the URL of the template, after Rota's schema was installed."""
    return None


@pytest.fixture(scope="session")
def rota_template(
    rota_databases: TestDatabases, rota_prepare: Callable[[str], object] | None
) -> str:
    """The name of the template database, which is copied for each test."""
    return rota_databases.template(rota_prepare)


@pytest.fixture(scope="session")
def rota_session_url(rota_databases: TestDatabases, rota_template: str) -> Iterator[str]:
    """The URL of a database that all tests of a process share, for tests that roll back their
    changes, such as Django's."""
    with rota_databases.fresh(rota_template) as url:
        yield url


@pytest.fixture
def rota_database_url(rota_databases: TestDatabases, rota_template: str) -> Iterator[str]:
    """The URL of a database for this test only. Override it to use your own."""
    with rota_databases.fresh(rota_template) as url:
        yield url


@pytest.fixture
def rota_app(rota_application: App, rota_database_url: str) -> Iterator[App]:
    """The application, on this test's database."""
    from rota.testing import on_database

    with on_database(rota_application, rota_database_url) as app:
        yield app


@pytest.fixture
def rota_clock(rota_app: App) -> Iterator[Clock]:
    """Moves Rota's clock in this test's database; it is reset after the test."""
    from rota.testing import Clock

    clock = Clock(rota_app)
    yield clock
    clock.reset()


@pytest.fixture
def rota_worker(rota_app: App) -> TestWorker:
    """A worker for this test: `run_all`, `tick`, or a `with` block. It does nothing by itself."""
    from rota.testing import TestWorker

    return TestWorker(rota_app)


@pytest.fixture
def rota_reset(rota_app: App) -> Callable[[], None]:
    """Empties this test's database when it is called."""
    from rota.testing import reset

    return lambda: reset(rota_app)
