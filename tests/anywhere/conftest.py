"""Servers that are not as ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

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


@pytest.fixture
def owned_url(roles: Server) -> Iterator[str]:
    """A database of the plain owner's, migrated by it, and reached as it."""
    with roles.fresh_database("template1") as url:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        owned = sql.SQL("ALTER DATABASE {} OWNER TO {}")
        roles.admin.execute(owned.format(sql.Identifier(str(name)), sql.Identifier(OWNER)))
        migrate(as_role(url, OWNER), "rota")
        yield as_role(url, OWNER)


@pytest.fixture
def granted_url(owned_url: str) -> str:
    """The same, as the role that was granted the rights of workers and owns nothing."""
    app = rota.App(config=load_config(owned_url, {}))
    app.grant(WORKER)
    app.close_sync()
    return as_role(owned_url, WORKER)
