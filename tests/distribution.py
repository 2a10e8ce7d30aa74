"""The server that a distribution installs, with its defaults: JIT, its own locale and language, a
superuser that is not the application's role."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from tests.clusters import Cluster, running
from tests.database import Connection, Databases, fast_directory

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*")
_OLDEST = 15
_ROLE = "shop"
_PASSWORD = "a password: with / and @"


def find_distribution() -> Path | None:
    """Where the newest server of this machine's packages is, if it is new enough for us."""
    found = []
    for place in _PLACES:
        for directory in Path("/").glob(place.removeprefix("/")):
            if (directory / "initdb").exists() and (version := _version(directory)) >= _OLDEST:
                found.append((version, directory))
    return max(found)[1] if found else None


def _version(directory: Path) -> int:
    said = subprocess.run(
        [directory / "postgres", "--version"], capture_output=True, text=True, check=True
    ).stdout
    number = re.search(r"\d+", said)
    return int(number[0]) if number else 0


class Distribution(Databases):
    """Databases that belong to a plain role, which may do in them what an owner may."""

    make = f"CREATE DATABASE {{}} TEMPLATE {{}} OWNER {_ROLE}"
    kind = "of this machine's packages"

    def __init__(self, port: int) -> None:
        self._admin_login = f"postgres:postgres@127.0.0.1:{port}"
        login = f"{_ROLE}:{quote(_PASSWORD, safe='')}"
        super().__init__(f"postgresql://{login}@127.0.0.1:{port}/postgres")
        self.admin.execute(f"CREATE ROLE {_ROLE} LOGIN PASSWORD '{_PASSWORD}'")
        self.ensure_template()

    def open_admin(self, database: str) -> Connection:
        return psycopg.connect(f"postgresql://{self._admin_login}/{database}", autocommit=True)


@contextmanager
def distribution(bin_dir: Path) -> Iterator[Distribution]:
    with tempfile.TemporaryDirectory(prefix="rota-distribution-", dir=fast_directory()) as name:
        Path(name).chmod(0o711)
        cluster = Cluster(bin_dir, Path(name))
        cluster.initialise()
        with running(cluster):
            databases = Distribution(cluster.port)
            yield databases
            databases.close()
