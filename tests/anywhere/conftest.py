"""Servers that are not as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import rota
from rota.postgres.migrate import migrate
from tests.conftest import load_config
from tests.database import Server
from tests.sql_engine import Engine

OWNER, WORKER, PASSWORD = "plain_owner", "plain_worker", "a 'password'"


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)


@pytest.fixture(scope="module")
def roles(server: Server) -> Server:
    for role in (OWNER, WORKER):
        made = sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), PASSWORD)
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            server.admin.execute(made)
    return server  # they go with it


def as_role(url: str, role: str) -> str:
    return make_conninfo(url, user=role, password=PASSWORD)


@contextmanager
def owned(roles: Server, template: str) -> Iterator[str]:
    """A database of the plain owner's, reached as it."""
    with roles.fresh_database(template) as url:
        command = sql.SQL("ALTER DATABASE {} OWNER TO {}")
        names = (sql.Identifier(name_of(url)), sql.Identifier(OWNER))
        roles.admin.execute(command.format(*names))
        yield as_role(url, OWNER)


def name_of(url: str) -> str:
    return str(conninfo_to_dict(url)["dbname"])


@pytest.fixture(scope="module")
def migrated(roles: Server) -> Iterator[str]:
    """Migrated by the plain owner; to be copied."""
    with owned(roles, "template1") as url:
        migrate(url, "rota")
        yield name_of(url)


@pytest.fixture(scope="module")
def granted(roles: Server, migrated: str) -> Iterator[str]:
    """The same, where another role was granted the rights of workers."""
    with owned(roles, migrated) as url:
        app = rota.App(config=load_config(url, {}))
        app.grant(WORKER)
        app.close_sync()
        yield name_of(url)


@pytest.fixture
def owned_url(request: pytest.FixtureRequest, roles: Server, migrated: str) -> Iterator[str]:
    is_granted = "granted_url" in request.fixturenames
    template = request.getfixturevalue("granted") if is_granted else migrated
    with owned(roles, template) as url:
        yield url


@pytest.fixture
def granted_url(owned_url: str) -> str:
    """As the role that was granted the rights of workers and owns nothing."""
    return as_role(owned_url, WORKER)
