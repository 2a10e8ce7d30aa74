"""Django: its connections at the edges of attempts, and its tests on no other database."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rota
from rota.testing import eventually_sync
from tests.workers import _ROOT

SITE = Path(__file__).parent / "django_site"
Manage = Callable[..., subprocess.CompletedProcess[str]]


def environment(url: str, **others: str) -> dict[str, str]:
    path = os.pathsep.join(map(str, (_ROOT / "src", SITE)))
    return {**os.environ, "SITE_DATABASE_URL": url, "PYTHONPATH": path, **others}


@pytest.fixture
def manage(database_url: str) -> Manage:
    def run(*arguments: str, **others: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=SITE, env=environment(database_url, **others), capture_output=True, text=True,
            timeout=250,
        )  # fmt: skip

    return run


def _runs(conn: psycopg.Connection[Any]) -> int:
    found = conn.execute("SELECT count(*) FROM rota.runs WHERE job NOT LIKE 'rota.%'").fetchone()
    assert found is not None
    return int(found[0])


def test_tests_of_django_run_on_its_own_database(
    manage: Manage, conn: psycopg.Connection[Any]
) -> None:
    result = manage("test")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Ran 4 tests" in result.stderr
    assert _runs(conn) == 0


def test_without_the_runner_tests_do_not_reach_the_real_database(
    manage: Manage, conn: psycopg.Connection[Any]
) -> None:
    plain = "django.test.runner.DiscoverRunner"
    result = manage("test", "orders.tests.OnCommit", SITE_TEST_RUNNER=plain)
    assert result.returncode == 1
    assert "Django is under test, and this application would use the database" in result.stderr
    assert "rota.testing.django.TestRunner" in result.stderr
    assert _runs(conn) == 0
    assert conn.execute("SELECT count(*) FROM rota.jobs WHERE name = 'charge'").fetchone() == (0,)


def test_the_application_is_named_in_the_settings(manage: Manage) -> None:
    result = manage("test", SITE_ROTA_APP="orders.jobs:nothing")
    assert result.returncode == 1
    assert "needs the setting ROTA_APP" in result.stderr


# As docs/guides/django.md tells it, with pytest-django.

IMPORTS = """
import pytest
from orders.jobs import app
from rota.testing.django import database_url, use_django_database
"""
TESTS = """
import pytest
from django.db import connection
from orders.jobs import app, charge
from orders.models import Order, place
from rota.testing import assert_enqueued


@pytest.mark.django_db
@pytest.mark.parametrize("again", [False, True])
def test_in_the_same_transaction(again):
    place(1)
    assert_enqueued(app, charge, payload={"order_id": 1}, count=1, connection=connection)


@pytest.mark.django_db(transaction=True)
def test_handlers_use_the_orm(rota_app, rota_worker):
    place(3)
    (ended,) = [it for it in rota_worker.run_all_sync() if it.payload == {"order_id": 3}]
    assert ended.state == "succeeded"
    assert Order.objects.get(id=3).is_paid


@pytest.mark.django_db(transaction=True)
def test_without_a_connection(rota_app, rota_clock):
    charge.enqueue_sync(4)
    assert_enqueued(app, charge, payload={"order_id": 4})
"""


@pytest.mark.parametrize("has_password", [True, False])
def test_with_pytest_django(
    tmp_path: Path, database_url: str, conn: psycopg.Connection[Any], has_password: bool
) -> None:
    guide = (_ROOT / "docs/guides/django.md").read_text()
    (recipe,) = re.findall(r"```python\n# conftest.py\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "conftest.py").write_text(IMPORTS + recipe)
    (tmp_path / "test_orders.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nrota_app = orders.jobs:app\n")
    url, given = database_url, {}
    if not has_password:  # as with a .pgpass file, or a server that trusts the socket
        parts = conninfo_to_dict(database_url)
        given = {"PGPASSWORD": str(parts.pop("password", None) or "")}
        url = make_conninfo(**parts)
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "--ds", "site_settings"],
        cwd=tmp_path, env=environment(url, **given), capture_output=True, text=True, timeout=250,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4 passed" in result.stdout
    assert _runs(conn) == 0


# A worker.


@pytest.fixture
def worker(database_url: str, manage: Manage) -> Iterator[subprocess.Popen[bytes]]:
    result = manage("migrate", "--run-syncdb")
    assert result.returncode == 0, result.stderr
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "rota", "worker", "--app", "worker:app", "--poll", "0.2s"],
        cwd=SITE, env=environment(database_url, ROTA_RUNS_BACKOFF_BASE_SECONDS="0.1"),
    )  # fmt: skip
    yield process
    process.terminate()
    process.wait(60)


@pytest.mark.parametrize("job", ["charge", "charge_in_process", "look"])
def test_handlers_recover_when_the_server_has_closed_their_connection(
    worker: subprocess.Popen[bytes], database_url: str, conn: psycopg.Connection[Any], job: str
) -> None:
    """Django sees a broken connection when it is used, so one attempt may fail for each thread;
    after that there is a new one."""
    conn.execute("INSERT INTO orders_order (id, is_paid) VALUES (1, false)")
    app = rota.App(database_url, name="test")
    eventually_sync(lambda: job in [known.name for known in app.jobs.sync.list()], 60)
    for _ in range(2):
        for _ in range(2):
            app.runs.sync.enqueue(job, {"order_id": 1}).wait_sync(60)
        conn.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND query LIKE '%%orders_order%%'"
            " AND pid <> pg_backend_pid()"
        )
    app.runs.sync.enqueue(job, {"order_id": 1}).wait_sync(60)
    app.close_sync()


def test_a_coroutine_leaves_no_connection_behind(
    worker: subprocess.Popen[bytes], database_url: str, conn: psycopg.Connection[Any]
) -> None:
    conn.execute("INSERT INTO orders_order (id, is_paid) VALUES (1, true)")
    app = rota.App(database_url, name="test")
    eventually_sync(lambda: "look" in [known.name for known in app.jobs.sync.list()], 60)
    assert app.runs.sync.enqueue("look", {"order_id": 1}).wait_sync(60) is True

    def is_closed() -> bool:
        found = conn.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE '%%orders_order%%' AND pid <> pg_backend_pid()"
        ).fetchone()
        return found == (0,)

    eventually_sync(is_closed)
    app.close_sync()
