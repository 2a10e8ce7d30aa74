"""The Postgres that everything is measured on: durable, with the settings of a new installation.

Every system has databases of its own on it. A cell of the table starts from a copy of that
system's freshly prepared database, so that no figure depends on what was measured before it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import psycopg
from psycopg import conninfo, sql

from bench.cpu import cpu_seconds
from rota.embedded import EmbeddedPostgres
from rota.embedded.binaries import in_distribution

Conn = psycopg.Connection[Any]
PREFIX = "rota_bench_"
_STOP_SECONDS = 60.0
_SHOWN = ["server_version", "jit", "fsync", "synchronous_commit", "full_page_writes"]


class Server:
    """A running server, ours or the user's."""

    def __init__(self, url: str, postmaster: int | None = None) -> None:
        self.url = url
        self._postmaster = postmaster

    def url_of(self, database: str) -> str:
        return conninfo.make_conninfo(self.url, dbname=PREFIX + database)

    def environment(self, database: str) -> dict[str, str]:
        """The words that every Postgres client knows, so that no program parses a URL."""
        parts = conninfo.conninfo_to_dict(self.url_of(database))
        names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "password": "PGPASSWORD"}
        known = {env: str(parts[key]) for key, env in names.items() if parts.get(key)}
        return known | {"PGDATABASE": PREFIX + database}

    def connect(self, database: str | None = None) -> Conn:
        url = self.url if database is None else self.url_of(database)
        return psycopg.connect(url, autocommit=True, application_name="rota bench")

    def create(self, database: str, template: str | None = None) -> None:
        self.drop(database)
        name = sql.Identifier(PREFIX + database)
        source = sql.Identifier(PREFIX + template if template else "template1")
        with self.connect() as conn:
            conn.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, source))

    def drop(self, database: str) -> None:
        name = sql.Identifier(PREFIX + database)
        with self.connect() as conn:
            conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))

    def note(self, database: str, text: str) -> None:
        """What is in it, for whoever finds it."""
        name, said = sql.Identifier(PREFIX + database), sql.Literal(text)
        with self.connect() as conn:
            conn.execute(sql.SQL("COMMENT ON DATABASE {} IS {}").format(name, said))

    def noted(self, database: str) -> str | None:
        with self.connect() as conn:
            row = conn.execute(
                "SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s",
                [PREFIX + database],
            ).fetchone()
        return None if row is None else row[0]

    def drop_all(self) -> None:
        with self.connect() as conn:
            rows = conn.execute(
                "SELECT datname FROM pg_database WHERE starts_with(datname, %s)", [PREFIX]
            ).fetchall()
        for (name,) in rows:
            self.drop(name.removeprefix(PREFIX))

    def cpu_seconds(self) -> float | None:
        """All that the server has used so far; ended backends are in the postmaster's account.
        None where the server is somebody else's: its processes may be on another machine."""
        if self._postmaster is None:
            return None
        try:
            main = psutil.Process(self._postmaster)
            ended = main.cpu_times()
            alive = [main.pid, *(child.pid for child in main.children())]
            return float(ended.children_user + ended.children_system) + sum(map(cpu_seconds, alive))
        except psutil.NoSuchProcess:
            return None

    def describe(self) -> dict[str, Any]:
        with self.connect() as conn:
            rows = conn.execute(
                "SELECT name, current_setting(name) FROM unnest(%s::text[]) AS name", [_SHOWN]
            ).fetchall()
        return dict(rows)


def default_places() -> list[str | None]:
    """Ours, and the newest that this machine's packages have installed."""
    return [None, *map(str, islice(in_distribution(), 1))]


# Fifty workers take six each while they start. Nothing else differs from a new installation.
_SETTINGS = {"max_connections": "500"}


@contextmanager
def open_server(
    place: str | None, keep: Path | None = None, *, is_durable: bool = True
) -> Iterator[Server]:
    """The server at this URL; or one of these binaries, by default of our own, which is removed
    afterwards, unless it is to be kept."""
    if place is not None and ("://" in place or "=" in place):
        server = Server(place)
        try:
            yield server
        finally:
            server.drop_all()
        return
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
    root = keep or Path(tempfile.mkdtemp(prefix="rota-bench-"))
    root = root.resolve()
    root.chmod(0o711)  # as root the server has an account of its own, which must enter
    binaries = Path(place) if place else None
    postgres = EmbeddedPostgres(
        root / "server", durable=is_durable, bin_dir=binaries, settings=_SETTINGS
    )
    try:
        postgres.start()
        pid = (postgres.home / "cluster" / "postmaster.pid").read_text().split("\n")[0]
        yield Server(postgres.superuser_url, int(pid))
    finally:
        postgres.stop(wait_seconds=_STOP_SECONDS)
        if keep is None:
            shutil.rmtree(root, ignore_errors=True)
