from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    """The engine on a fresh database, with one job called work."""
    engine = Engine(conn)
    engine.job("work")
    return engine


@pytest.fixture
def other(connect: Callable[..., psycopg.Connection[Any]], engine: Engine) -> Engine:
    """The same engine, seen by somebody else."""
    return Engine(connect())
