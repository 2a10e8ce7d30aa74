"""The data directory: created in one step, checked for its version, and its password."""

from __future__ import annotations

import secrets
import shutil
from pathlib import Path

from rota.embedded.accounts import server_environment
from rota.embedded.binaries import Binaries
from rota.embedded.locks import FileLock
from rota.embedded.paths import Home
from rota.errors import EmbeddedError

# Applications use this role, which owns its database and nothing else: an attacker who can make an
# application run SQL must not write files as the owner of the server. Its name is not `rota`,
# because a schema with the name of the role comes first in its search path.
USER = "rota_app"
# For maintenance of the server.
SUPERUSER = "postgres"


def ensure_cluster(home: Home, binaries: Binaries, running: FileLock) -> bool:
    """Create the cluster, or check its version. Return True if it was created. Call under the start
    lock."""
    if home.cluster.exists():
        _check_version(home, binaries)
        return False
    _initialise(home, binaries, running)
    return True


def read_password(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError as error:
        raise EmbeddedError(
            f"cannot read the password in {file}: {error.strerror}",
            hint="run as the user who started the server first; a lost file cannot be replaced",
        ) from error


def _check_version(home: Home, binaries: Binaries) -> None:
    try:
        major = (home.cluster / "PG_VERSION").read_text().strip()
    except OSError as error:
        raise EmbeddedError(
            f"{home.cluster} is damaged: its PG_VERSION cannot be read: {error.strerror}",
            hint=f"restore it from a backup, or delete {home.path} to start over",
        ) from error
    if major != str(binaries.major):
        raise EmbeddedError(
            f"{home.path} was created by PostgreSQL {major},"
            f" but {binaries.directory} is PostgreSQL {binaries.major}",
            hint=f"install PostgreSQL {major} and set ROTA_EMBEDDED_BIN_DIR to its bin directory"
            f" (then pg_dump to keep the data), or delete {home.path} to start over",
        )


def _initialise(home: Home, binaries: Binaries, running: FileLock) -> None:
    # Created elsewhere and then renamed: an interrupted initdb leaves nothing in the way.
    unfinished = home.path / "cluster.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    for file in (home.password_file, home.superuser_password_file):
        home.create(file.name, secrets.token_urlsafe(24) + "\n")
    answer = home.account.run(
        binaries.initdb,
        f"--pgdata={unfinished}",
        f"--username={SUPERUSER}",
        f"--pwfile={home.superuser_password_file}",
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--no-sync",  # a fresh cluster contains nothing to lose; the watchdog syncs it afterwards
        *_locale(binaries),
        # TZ saves initdb the search for the host's zone.
        env=server_environment() | {"TZ": "UTC"},
        # If this process is killed, the next one waits for the end of this initdb.
        pass_fds=[running.descriptor],
    )
    if answer.returncode != 0:
        output = (answer.stderr or answer.stdout).strip()
        raise EmbeddedError(f"initdb could not create {home.cluster}:\n{output}")
    home.create(".gitignore", "*\n")
    unfinished.rename(home.cluster)


def _locale(binaries: Binaries) -> tuple[str, ...]:
    if binaries.major < 17:
        return ("--locale=C",)
    return ("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8")
