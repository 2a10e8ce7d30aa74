"""Directories, processes and patience for the tests of the embedded server."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil

import rota.embedded

USER_PROGRAM = """
import sys
from pathlib import Path
from rota.embedded import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]), durable=False)
server.start()
print(server.url, flush=True)
sys.stdin.read()
"""


def eventually(condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
    """Wait for the condition; the limit is there only to end a test that has failed."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not happen: {what}"
        time.sleep(0.03)


def import_path() -> str:
    source = Path(rota.embedded.__file__).parents[2]
    return os.pathsep.join([str(source), *(entry for entry in sys.path if entry)])


class User:
    """Another process that uses the server of a directory until it is told to end."""

    def __init__(
        self, data_dir: Path, env: Mapping[str, str] | None = None, program: str = USER_PROGRAM
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", program, str(data_dir)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": import_path(), **(env or {})},
        )
        self._url = ""

    @property
    def url(self) -> str:
        """Waits until the process has started or joined."""
        if not self._url:
            assert self.process.stdout is not None
            self._url = self.process.stdout.readline().strip()
            assert self._url, "the other process could not start the server"
        return self._url

    def end(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.end()


def server_pid(home: Path) -> int:
    return int((home / "cluster" / "postmaster.pid").read_text().split("\n", 1)[0])


def socket_dir(home: Path) -> Path:
    return Path((home / "cluster" / "postmaster.pid").read_text().split("\n")[4])


def is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def processes_of(directory: Path) -> list[psutil.Process]:
    """Servers and watchdogs that name the directory in their command."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        command = process.info["cmdline"] or []
        if any(str(directory) in part for part in command) and process.pid != os.getpid():
            found.append(process)
    return found
