"""Servers that are not as ours."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.sql_engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)
