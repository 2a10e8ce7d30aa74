"""The server that a distribution installs, with its defaults: JIT, its own locale and language, a
superuser that is not the application's role."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import psycopg

from rota.embedded.accounts import Account, server_account
from rota.testing import eventually_sync
from tests.database import Connection, Databases, fast_directory
from tests.ports import free_port

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/libexec/postgresql*")
_OLDEST = 15
_ROLE = "shop"
_PASSWORD = "a password: with / and @"
# Ends the server with us, even if we are killed: the pipe is ours alone.
_UNTIL_WE_END = '"$@" & read -r _; kill -INT $!; wait'


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
        place = Path(name)
        account = server_account(place / "data")
        place.chmod(0o711)
        _initialise(bin_dir, place, account)
        port = free_port()
        with _running(bin_dir, place / "server" / "data", account, port):
            databases = Distribution(port)
            yield databases
            databases.admin.close()


def _initialise(bin_dir: Path, place: Path, account: Account) -> None:
    home = place / "server"
    home.mkdir(mode=0o700)
    os.chown(home, account.uid, account.gid)
    (home / "password").write_text("postgres\n")
    os.chown(home / "password", account.uid, account.gid)
    made = account.run(
        bin_dir / "initdb",
        f"--pgdata={home / 'data'}",
        "--username=postgres",
        f"--pwfile={home / 'password'}",
        "--auth=scram-sha-256",
        env=_environment(),
    )
    if made.returncode != 0:
        raise RuntimeError(f"{bin_dir}/initdb: {made.stderr or made.stdout}")


def _environment() -> dict[str, str]:
    """As on a machine in Germany; without that language installed the server speaks English."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LANG": "C.UTF-8", "LANGUAGE": "de"}


@contextmanager
def _running(bin_dir: Path, data: Path, account: Account, port: int) -> Iterator[None]:
    server = [bin_dir / "postgres", "-D", data, "-p", str(port), "-k", data.parent]
    who = {"user": account.uid, "group": account.gid, "extra_groups": []}
    with (data.parent / "log").open("wb") as log:
        process = subprocess.Popen(
            ["sh", "-c", _UNTIL_WE_END, "sh", *map(str, server)],
            stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/", env=_environment(),
            **(who if account.is_other else {}),  # type: ignore[call-overload]
        )  # fmt: skip
    try:
        ready = [bin_dir / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        eventually_sync(lambda: subprocess.run(ready, check=False).returncode == 0, timeout=60)
        yield
    finally:
        process.communicate()
