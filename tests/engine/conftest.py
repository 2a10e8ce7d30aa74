from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from tests.conftest import MakeApp
from tests.sql_engine import Engine


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    """Retries come at once."""
    return make_app(runs={"backoff_base_seconds": 0, "backoff_jitter_seconds": 0})


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    return Engine(conn)
