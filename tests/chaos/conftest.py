from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from rota.embedded import EmbeddedPostgres
from tests.chaos.server import make_server
from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    conn.execute("CREATE TABLE effects (run bigint, attempt int)")
    conn.execute("CREATE TABLE gate (is_open boolean)")
    return Engine(conn)


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    with make_server() as server:
        yield server
