"""EmbeddedPostgres: this process's share of the server of a data directory."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import quote

import psycopg
from psycopg import pq, sql
from psycopg.conninfo import make_conninfo

from rota.embedded.accounts import server_account
from rota.embedded.binaries import find_binaries
from rota.embedded.cluster import SUPERUSER, USER, ensure_cluster, read_password
from rota.embedded.launch import Launch, launch, log_error, start_watchdog
from rota.embedded.locks import FileLock
from rota.embedded.paths import Home, open_home
from rota.errors import EmbeddedError

_DATABASE = "rota"
_ALWAYS_THERE = "postgres"
# Long enough for the recovery of a large database after a crash.
_START_SECONDS = 60.0


class EmbeddedPostgres:
    """Starts the server of `data_dir`, or joins it if another process has started it.

    The server lives until the last process that uses it stops or dies. `durable=False` trades the
    data's safety in a crash of the machine for speed; `settings` are PostgreSQL's own. Both apply
    in the process that starts the server; a process that joins uses the server unchanged.

    A forked child has no share: it may use the server while its parent does, or call `start()`.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        durable: bool = True,
        settings: Mapping[str, str] | None = None,
        bin_dir: Path | None = None,
    ) -> None:
        self._data_dir = Path(data_dir)
        self._durable = durable
        self._settings = dict(settings or {})
        self._bin_dir = bin_dir
        self._guard = threading.Lock()
        self._share: FileLock | None = None
        self._home: Home | None = None
        self._url: str | None = None

    @property
    def url(self) -> str:
        """The URL for psycopg and asyncpg; contains the password. Its role owns the database, and
        is no superuser."""
        if self._url is None:
            raise EmbeddedError("the embedded Postgres has no URL yet: call start() first")
        return self._url

    @property
    def superuser_url(self) -> str:
        """The same database as the superuser, for maintenance of the server."""
        return _superuser_url(Home(self.home, server_account(self.home)), self.url)

    @property
    def home(self) -> Path:
        """The data directory: `data_dir`, or its substitute if the server's account cannot use that
        one."""
        if self._home is None:
            raise EmbeddedError(
                "the embedded Postgres has no data directory yet: call start() first"
            )
        return self._home.path

    def start(self) -> None:
        """Start or join the server; return when a connection has worked. Does nothing if it runs
        already."""
        with self._guard:
            if self._is_started():
                return
            home = open_home(self._data_dir)
            with home.lock("start") as starting:
                starting.exclusive(_START_SECONDS)
                share = home.lock("users")
                try:
                    share.share()
                    self._url = self._join_or_launch(home)
                except BaseException:
                    share.close()
                    raise
            if self._share is not None:
                self._share.close()
            self._share, self._home = share, home

    def stop(self, *, wait_seconds: float = 0.0) -> None:
        """Give up this object's share; if it was the last, the server stops shortly afterwards.

        Waits up to `wait_seconds` for that, for callers that delete the directory; the server may
        keep running for other processes. Harmless if not started or stopped already.
        """
        with self._guard:
            share, self._share = self._share, None
            if share is None or self._home is None:
                return
            share.close()
            deadline = time.monotonic() + wait_seconds
            while time.monotonic() < deadline and _is_running(self._home):
                time.sleep(0.01)

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def _is_started(self) -> bool:
        # Tested, not remembered: the server may have been killed since.
        if self._share is None or self._url is None or not self._share.is_open:
            return False
        return _answers(self._url)

    def _join_or_launch(self, home: Home) -> str:
        launched: Launch | None = None
        deadline = time.monotonic() + _START_SECONDS
        while (url := _ready_url(home, launched)) is None:
            with home.lock("running") as running:
                if running.try_exclusive():
                    if launched is not None:
                        shutil.rmtree(launched.socket_dir, ignore_errors=True)
                        raise log_error(home, "did not start", launched.log_offset)
                    launched = self._launch(home, running)
            if time.monotonic() > deadline:
                raise log_error(home, f"was not ready within {_START_SECONDS:g} s")
            time.sleep(0.01)
        _ensure_watchdog(home)
        _ensure_database(home, url)
        return url

    def _launch(self, home: Home, running: FileLock) -> Launch:
        binaries = find_binaries(home.account, home.copied_binaries, self._bin_dir)
        is_new = ensure_cluster(home, binaries, running)
        return launch(
            home,
            binaries,
            running,
            durable=self._durable,
            is_new=is_new,
            settings=self._settings,
        )


def _is_running(home: Home) -> bool:
    with home.lock("running") as running:
        return not running.try_exclusive()


def _ready_url(home: Home, launched: Launch | None) -> str | None:
    if not _is_running(home):
        return None
    ready = _ready_socket(home)
    # A different socket belongs to a server that prevents ours from starting.
    if ready is None or (launched is not None and ready.directory != launched.socket_dir):
        return None
    host = quote(str(ready.directory), safe="")
    password = read_password(home.password_file)
    url = f"postgresql://{USER}:{password}@/{_DATABASE}?host={host}&port={ready.port}"
    return url if _answers(url) else None


class _Socket(NamedTuple):
    directory: Path
    port: int


def _ready_socket(home: Home) -> _Socket | None:
    # Read from the server's file, not derived: TMPDIR and the port may differ between its users.
    try:
        lines = home.postmaster_file.read_text().split("\n")
        return _Socket(Path(lines[4]), int(lines[3])) if lines[7].strip() == "ready" else None
    except (OSError, IndexError, ValueError):
        return None


def _answers(url: str) -> bool:
    conninfo = make_conninfo(url, dbname=_ALWAYS_THERE)
    return pq.PGconn.ping(conninfo.encode()) == pq.Ping.OK


def _ensure_watchdog(home: Home) -> None:
    with home.lock("watchdog") as lock:
        is_missing = lock.try_exclusive()
    ready = _ready_socket(home)
    if is_missing and ready is not None:
        start_watchdog(home, ready.directory)


def _superuser_url(home: Home, url: str) -> str:
    _, _, place = url.partition("@")
    return f"postgresql://{SUPERUSER}:{read_password(home.superuser_password_file)}@{place}"


def _ensure_database(home: Home, url: str) -> None:
    """Create the application's role and its database, as the superuser, at the first start."""
    try:
        with psycopg.connect(
            _superuser_url(home, url), dbname=_ALWAYS_THERE, autocommit=True
        ) as conn:
            if not _has(conn, "pg_roles", "rolname", USER):
                # The role may create databases, for tests, and read statistics, for `rota doctor`.
                conn.execute(
                    sql.SQL("CREATE ROLE {} LOGIN CREATEDB IN ROLE pg_monitor PASSWORD {}").format(
                        sql.Identifier(USER), read_password(home.password_file)
                    )
                )
            if not _has(conn, "pg_database", "datname", _DATABASE):
                conn.execute(f"CREATE DATABASE {_DATABASE} OWNER {USER}")
    except psycopg.Error as error:
        raise EmbeddedError(f"the embedded Postgres refuses connections: {error}") from error


def _has(conn: psycopg.Connection[tuple[object, ...]], table: str, column: str, name: str) -> bool:
    query = sql.SQL("SELECT FROM {} WHERE {} = {}").format(
        sql.Identifier("pg_catalog", table), sql.Identifier(column), name
    )
    return conn.execute(query).fetchone() is not None
