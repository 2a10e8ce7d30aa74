"""One server for a whole test run, and a fresh database for every test."""

from __future__ import annotations

import fcntl
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from rota.embedded import EmbeddedPostgres
from rota.postgres.migrate import migrate
from tests.connections import close_all
from tests.ports import free_port
from tests.servers import note_tested

Connection = psycopg.Connection[Any]

PLACE = "ROTA_TESTS_PLACE"
TEMPLATE = "rota_tests_template"
_PREFIX = "rota-tests-"
_MEMORY = Path("/dev/shm")
_ROOM = 6 * 2**30  # what the largest tables of tests take, and more
_SETTINGS = {
    "max_connections": "300", "shared_buffers": "256MB", "log_min_messages": "error",
    "max_prepared_transactions": "10",
}  # fmt: skip
_numbers = itertools.count(1)


def make_place() -> Path:
    """Where the run's server lives; the runners of xdist find it in their environment.

    Not pytest's directory: as root its parents are closed to the account that the server runs as.
    """
    _remove_old_places()
    place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=fast_directory())).resolve()
    place.chmod(0o711)
    os.environ[PLACE] = str(place)
    return place


def fast_directory() -> Path:
    """In memory, if there is room: a database is hundreds of files, made ten times faster there."""
    with suppress(OSError):
        has_room = min(shutil.disk_usage(_MEMORY).free, psutil.virtual_memory().available) > _ROOM
        if has_room and os.access(_MEMORY, os.W_OK | os.X_OK):
            return _MEMORY
    return Path(tempfile.gettempdir())


def _remove_old_places() -> None:
    """What runs that were killed have left: their servers ended, nobody removed the data."""
    for place in [
        *Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"),
        *_MEMORY.glob(f"{_PREFIX}*"),
    ]:
        with suppress(OSError):
            is_old = time.time() - place.stat().st_mtime > 600
            if is_old and not (place / "data" / "cluster" / "postmaster.pid").exists():
                shutil.rmtree(place, ignore_errors=True)


def remove_place(place: Path) -> None:
    os.environ.pop(PLACE, None)
    if (place / "data").exists():
        EmbeddedPostgres(place / "data").stop()
        _wait_gone(place / "data")
    shutil.rmtree(place, ignore_errors=True)


def _wait_gone(data: Path) -> None:
    deadline = time.monotonic() + 20
    while (data / "cluster" / "postmaster.pid").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


class Databases:
    """A fresh database for every test, on a server that is reached as users reach theirs: by TCP,
    with a password. `url` names the role that the tests have."""

    make = "CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy"
    kind = "as the embedded server"

    def __init__(self, url: str) -> None:
        self._base, _, _ = url.rpartition("/")
        self.admin = self.open_admin("postgres")
        self._cleaner = ThreadPoolExecutor(1, "drops databases")
        self._cleaner_admin = self.open_admin("postgres")
        self._drops: list[Future[None]] = []
        if self.admin.info.server_version < 150000:  # it knows no other way
            self.make = self.make.removesuffix(" STRATEGY file_copy")
        version = self.admin.info.server_version
        note_tested(f"{version // 10000}.{version % 10000}", self.kind)

    def close(self) -> None:
        self._cleaner.shutdown()
        self._cleaner_admin.close()
        self.admin.close()
        for drop in self._drops:
            drop.result()

    def url(self, database: str) -> str:
        return f"{self._base}/{database}"

    def open_admin(self, database: str) -> Connection:
        return psycopg.connect(self.url(database), autocommit=True)

    def cheapen_logins(self) -> None:
        """With a password as ever, but hashed once instead of 4,096 times on either side: tests
        open tens of thousands of connections."""
        if self.admin.info.server_version >= 160000:
            self.admin.execute("SET scram_iterations = 1")
            password = sql.Literal(self.admin.info.password)
            self.admin.execute(sql.SQL("ALTER ROLE CURRENT_USER PASSWORD {}").format(password))

    def ensure_template(self) -> None:
        found = self.admin.execute("SELECT FROM pg_database WHERE datname = %s", [TEMPLATE])
        if found.fetchone() is None:
            # Left by a runner that failed here: its error shall be seen again, not this one.
            self.admin.execute("DROP DATABASE IF EXISTS rota_tests_making WITH (FORCE)")
            self._retry(self.admin, self.make, "rota_tests_making", "template1")
            migrate(self.url("rota_tests_making"), "rota")
            with self.open_admin("rota_tests_making") as conn:
                # Tests jump over nights; those of retention call it themselves.
                conn.execute("UPDATE rota.schedules SET is_enabled = false WHERE is_system")
                conn.execute("TRUNCATE rota.audit")
            self._retry(self.admin, "ALTER DATABASE rota_tests_making RENAME TO {}", TEMPLATE)

    @contextmanager
    def fresh_database(self, template: str = TEMPLATE) -> Iterator[str]:
        """The URL of a migrated database of one's own."""
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self._retry(self.admin, self.make, name, template)
        try:
            yield self.url(name)
            close_all(name)
        finally:
            # Nobody waits for it: the server looks only every 100 ms whether the last user is gone.
            drop = "DROP DATABASE {} WITH (FORCE)"
            self._drops.append(self._cleaner.submit(self._retry, self._cleaner_admin, drop, name))

    def _retry(self, admin: Connection, statement: str, *names: str) -> None:
        """A backend that has just been left takes a moment to be gone."""
        query = sql.SQL(statement).format(*map(sql.Identifier, names))
        for attempt in itertools.count(1):
            try:
                admin.execute(query)
                return
            except psycopg.errors.ObjectInUse:
                if attempt == 200:
                    raise
                time.sleep(0.02)


class _InSavepoints(psycopg.Cursor[Any]):
    """Inside a transaction that goes on after an error."""

    def execute(self, *arguments: Any, **options: Any) -> Self:
        with self.connection.transaction():
            return super().execute(*arguments, **options)


def open_shared(url: str) -> Connection:
    """For tests that are rolled back. Nothing that one of them prepared is there for the next."""
    return psycopg.connect(
        url, autocommit=True, cursor_factory=_InSavepoints, prepare_threshold=None
    )


@contextmanager
def rolled_back(conn: Connection) -> Iterator[None]:
    with conn.transaction(force_rollback=True):
        yield
        conn.execute("SET CONSTRAINTS ALL IMMEDIATE")  # what a commit would check


def by_tcp() -> dict[str, str]:
    """Settings of an embedded server that shall be reached as any other is."""
    return {"listen_addresses": "127.0.0.1", "port": str(free_port())}


def tcp_url(server: EmbeddedPostgres) -> str:
    known = conninfo_to_dict(server.superuser_url)
    login = f"{known['user']}:{known['password']}"
    return f"postgresql://{login}@127.0.0.1:{known['port']}/{known['dbname']}"


class Server(Databases):
    """This runner's share of the embedded server: it ends by itself with its last user."""

    def __init__(self) -> None:
        place = Path(os.environ[PLACE])
        self._server = EmbeddedPostgres(
            place / "data", durable=False, settings=_SETTINGS | by_tcp()
        )
        with _locked(place / "lock"):
            self._server.start()
            super().__init__(tcp_url(self._server))
            self.cheapen_logins()
            self.ensure_template()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._server.stop()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
