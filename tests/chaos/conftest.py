from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.embedded import EmbeddedPostgres
from rota.store.migrate import migrate
from tests.engine import Engine


@pytest.fixture
def engine(conn: psycopg.Connection[Any]) -> Engine:
    conn.execute("CREATE TABLE effects (run bigint, attempt int)")
    conn.execute("CREATE TABLE gate (is_open boolean)")
    return Engine(conn)


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """Durable: what was committed must be there after a crash."""
    place = Path(tempfile.mkdtemp(prefix="rota-chaos-")).resolve()
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data")
    server.start()
    migrate(server.url, "rota")
    yield server
    server.stop(wait_seconds=20)
    shutil.rmtree(place, ignore_errors=True)
