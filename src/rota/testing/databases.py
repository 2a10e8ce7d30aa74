"""One server for a test run, one template on it, and a fresh database for each test.

The processes of a run (those of pytest-xdist) share server and template: they know each other by
the name of the run, and the last one to leave cleans up.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from rota.embedded import EmbeddedPostgres
from rota.postgres.migrate import migrate
from rota.postgres.statements import Statements
from rota.postgres.testing import quiet

Prepare = Callable[[str], object]
_MEMORY = Path("/dev/shm")
_ROOM = 2 * 2**30
_SETTINGS = {"max_connections": "200", "log_min_messages": "error"}
_NO_TEMPLATE = "SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s"
_TRIES = 200
_PREFIX = "rota-test-"
_OLD_SECONDS = 600


class TestDatabases:
    """`url` is a server on which databases can be created; if omitted, one is started. `run` is the
    name of the test run, the same in all of its processes."""

    __test__ = False

    def __init__(self, run: str, url: str | None, *, schema: str = "rota") -> None:
        self._run = re.sub(r"\W", "", run)[:24]
        self._schema = schema
        self._place = _place(self._run)
        self._server: EmbeddedPostgres | None = None
        self._numbers = itertools.count(1)
        remove_old_places(self._place.parent)
        with self._locked():
            if url is None:
                # Nothing in it outlives the run.
                self._server = EmbeddedPostgres(
                    self._place / "data", durable=False, settings=_SETTINGS
                )
                self._server.start()
                # Tests may create roles and extensions.
                url = self._server.superuser_url
            self._url = url
            (self._place / "users").mkdir(exist_ok=True)
            self._sign().touch()
        self._admin = self._connect()
        self._dropper = ThreadPoolExecutor(1, "drops databases")
        self._drops: list[Future[None]] = []

    # Templates.

    def template(self, prepare: Prepare | None = None) -> str:
        """Return the name of a migrated database, created by the first call. `prepare` is called
        once with its URL, to create the application's own tables."""
        name = f"rota_test_{self._run}_template"
        with self._locked():
            if not self._admin.execute(_NO_TEMPLATE, [name]).fetchone():
                making = f"{name}_making"
                # Left by somebody who failed here: the error shall be seen again, not this one.
                self._do("DROP DATABASE IF EXISTS {}", making)
                self._do("CREATE DATABASE {}", making)
                self._fill(self.url(making), prepare)
                self._do("ALTER DATABASE {} RENAME TO {}", making, name)
        return name

    def _fill(self, url: str, prepare: Prepare | None) -> None:
        migrate(url, self._schema)
        with psycopg.connect(url, autocommit=True) as conn:
            conn.execute(quiet(Statements(self._schema)))
        if prepare is not None:
            prepare(url)

    # Databases.

    @contextmanager
    def fresh(self, template: str) -> Iterator[str]:
        """The URL of a copy of the template, dropped at the end."""
        name = f"rota_test_{self._run}_{os.getpid()}_{next(self._numbers)}"
        # Copied as files: faster for a small database than through the log.
        way = " STRATEGY file_copy" if self._admin.info.server_version >= 150000 else ""
        self._do("CREATE DATABASE {} TEMPLATE {}" + way, name, template)
        try:
            yield self.url(name)
        finally:
            # Nobody waits for it: the server takes 100 ms and more.
            self._drops.append(self._dropper.submit(self._drop, name))

    def url(self, database: str) -> str:
        if "://" not in self._url:
            return make_conninfo(self._url, dbname=database)
        return urlsplit(self._url)._replace(path=f"/{database}").geturl()

    # The end.

    def close(self) -> None:
        self._dropper.shutdown()
        with self._locked():
            self._sign().unlink(missing_ok=True)
            is_last = not any(map(_is_alive, (self._place / "users").iterdir()))
            if is_last:
                self._drop(f"rota_test_{self._run}_template")
            self._admin.close()
            if self._server is not None:
                self._server.stop(wait_seconds=20 if is_last else 0)
            if is_last:
                shutil.rmtree(self._place, ignore_errors=True)
                self._place.with_suffix(".lock").unlink(missing_ok=True)
        for drop in self._drops:
            drop.result()

    def _sign(self) -> Path:
        return self._place / "users" / str(os.getpid())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Against the other processes of the run."""
        descriptor = _lock(self._place.with_suffix(".lock"))
        try:
            self._place.mkdir(exist_ok=True)
            # As root the server has another account, which has to get in.
            self._place.chmod(0o711)
            yield
        finally:
            os.close(descriptor)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url, autocommit=True)

    def _drop(self, name: str) -> None:
        with self._connect() as conn:
            _retry(conn, "DROP DATABASE IF EXISTS {} WITH (FORCE)", name)

    def _do(self, statement: str, *names: str) -> None:
        _retry(self._admin, statement, *names)


def _lock(path: Path) -> int:
    """Held until it is closed. The last process of a run removes the file: who has waited for a
    file that is no longer there takes the new one."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        os.close(descriptor)


def _retry(conn: psycopg.Connection[Any], statement: str, *names: str) -> None:
    """A session that has just ended takes a moment to be gone."""
    query = sql.SQL(statement).format(*map(sql.Identifier, names))
    for attempt in itertools.count(1):
        try:
            conn.execute(query)
            return
        except psycopg.errors.ObjectInUse:
            if attempt == _TRIES:
                raise
            time.sleep(0.02)


def _place(run: str) -> Path:
    """Return a directory in memory if it has room: a database is hundreds of files, created ten
    times faster there."""
    parent = Path(tempfile.gettempdir())
    with suppress(OSError):
        if shutil.disk_usage(_MEMORY).free > _ROOM and os.access(_MEMORY, os.W_OK | os.X_OK):
            parent = _MEMORY
    return parent / f"{_PREFIX}{os.getuid()}-{run}"


def remove_old_places(parent: Path) -> None:
    """Remove the data that killed test runs have left: their server has ended."""
    for place in parent.glob(f"{_PREFIX}{os.getuid()}-*"):
        with suppress(OSError):
            is_old = time.time() - place.stat().st_mtime > _OLD_SECONDS
            if is_old and place.is_dir() and not any(map(_is_alive, (place / "users").iterdir())):
                shutil.rmtree(place, ignore_errors=True)
                place.with_suffix(".lock").unlink(missing_ok=True)


def _is_alive(sign: Path) -> bool:
    try:
        os.kill(int(sign.name), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
