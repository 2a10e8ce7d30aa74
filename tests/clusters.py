"""Servers of a test's own: initialised, configured, started, stopped, copied."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg import pq

from rota.embedded.accounts import Account, server_account
from rota.testing import eventually_sync
from tests.ports import free_port

SUPERUSER = PASSWORD = "postgres"
# Ends the server with us, even if we are killed: the pipe is ours alone.
_UNTIL_WE_END = '"$@" & read -r _; kill -INT $!; wait'


class Cluster:
    """A data directory and the server on it. `place` must be one that its account can enter."""

    def __init__(self, bin_dir: Path, place: Path) -> None:
        self._bin_dir = bin_dir
        self._account: Account = server_account(place / "none")
        self.home = place / "server"
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def url(self) -> str:
        return f"postgresql://{SUPERUSER}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def initialise(self) -> None:
        self.home.mkdir(mode=0o700, parents=True)
        (self.home / "password").write_text(f"{PASSWORD}\n")
        self.give()
        made = self._account.run(
            self._bin_dir / "initdb",
            f"--pgdata={self.data}",
            f"--username={SUPERUSER}",
            f"--pwfile={self.home / 'password'}",
            "--auth=scram-sha-256",
            env=environment(),
        )
        if made.returncode != 0:
            raise RuntimeError(f"{self._bin_dir}/initdb: {made.stderr or made.stdout}")

    def give(self) -> None:
        """What was written here belongs to the server's account."""
        for path in [self.home, *self.home.rglob("*")]:
            os.chown(path, self._account.uid, self._account.gid, follow_symlinks=False)

    def copy_from(self, other: Cluster) -> None:
        shutil.copytree(other.home, self.home, symlinks=True)
        self.give()

    def start(self, **settings: str) -> None:
        command = [self._bin_dir / "postgres", "-D", self.data, "-p", str(self.port)]
        command += ["-k", self.home]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        who = {"user": self._account.uid, "group": self._account.gid, "extra_groups": []}
        with (self.home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _UNTIL_WE_END, "sh", *map(str, command)],
                stdin=subprocess.PIPE, stdout=log, stderr=log, cwd="/",
                env=environment() | {"HOME": str(self.home)},
                **(who if self._account.is_other else {}),  # type: ignore[call-overload]
            )  # fmt: skip
        try:
            eventually_sync(self._answers, timeout=60)
        except AssertionError:
            raise RuntimeError((self.home / "log").read_text(errors="replace")[-2000:]) from None

    def stop(self) -> None:
        """At once, with all that goes on in it, and cleanly."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate()

    def _answers(self) -> bool:
        return pq.PGconn.ping(self.url.encode()) == pq.Ping.OK


@contextmanager
def running(cluster: Cluster, **settings: str) -> Iterator[Cluster]:
    cluster.start(**settings)
    try:
        yield cluster
    finally:
        cluster.stop()


def environment() -> dict[str, str]:
    """As on a machine in Germany; without that language installed the server speaks English."""
    kept = {name: it for name, it in os.environ.items() if not name.startswith(("PG", "LC_"))}
    return kept | {"LANG": "C.UTF-8", "LANGUAGE": "de"}
