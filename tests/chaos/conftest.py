from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    conn.execute("CREATE TABLE effects (run bigint, attempt int)")
    conn.execute("CREATE TABLE gate (is_open boolean)")
    return Engine(conn)
