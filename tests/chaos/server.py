"""A server that may be killed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rota.embedded import EmbeddedPostgres
from rota.postgres.migrate import migrate
from tests.database import by_tcp


@contextmanager
def make_server() -> Iterator[EmbeddedPostgres]:
    """Durable: what was committed must be there after a crash."""
    place = Path(tempfile.mkdtemp(prefix="rota-chaos-")).resolve()
    place.chmod(0o711)
    server = EmbeddedPostgres(place / "data", settings=by_tcp())
    server.start()
    migrate(server.url, "rota")
    try:
        yield server
    finally:
        server.stop(wait_seconds=20)
        shutil.rmtree(place, ignore_errors=True)
