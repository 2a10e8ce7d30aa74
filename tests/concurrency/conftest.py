from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    engine = Engine(conn)
    engine.job("work", max_attempts=100)
    return engine
