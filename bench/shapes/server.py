"""A throw-away PostgreSQL for one experiment: fsync on, and the settings of a new installation."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg

from rota.embedded import EmbeddedPostgres

STOP_SECONDS = 60.0


class Server:
    """Starts on entry; on exit stops and removes its data, whatever happened in between."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="rota-shapes-"))
        self._root.chmod(0o755)  # as root the server has an account of its own, which must enter
        self._postgres = EmbeddedPostgres(self._root / "server")

    def __enter__(self) -> Server:
        try:
            self._postgres.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clean_up()

    @property
    def dsn(self) -> str:
        return self._postgres.superuser_url

    @property
    def pid(self) -> int:
        """The postmaster's, whose children are all that the server is."""
        file = self._postgres.home / "cluster" / "postmaster.pid"
        return int(file.read_text().split("\n")[0])

    def connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self.dsn, autocommit=True)

    def _clean_up(self) -> None:
        self._postgres.stop(wait_seconds=STOP_SECONDS)
        shutil.rmtree(self._root, ignore_errors=True)
