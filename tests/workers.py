"""Real worker processes, which a test may kill, stop and let go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import psycopg

from rota.testing import eventually_sync

_ROOT = Path(__file__).parents[1]

Loop = Literal["uvloop", "asyncio"]


def environment(database_url: str, settings: Mapping[str, Any], loop: Loop) -> dict[str, str]:
    """What a process of ours finds, with an application of `tests.apps`."""
    path = [_ROOT / "src", _ROOT]
    if loop == "asyncio":
        path.insert(0, _ROOT / "tests" / "apps" / "without_uvloop")
    return {
        **os.environ,
        "ROTA_TEST_DATABASE": database_url,
        "ROTA_TEST_SETTINGS": json.dumps(dict(settings)),
        "PYTHONPATH": ":".join(map(str, path)),
    }


class WorkerProcess:
    """`rota worker --app module:attribute`, with its output in a file.

    `looking_at` is how the test itself reaches the database, where the worker has a proxy.
    """

    def __init__(
        self,
        database_url: str,
        app: str,
        settings: Mapping[str, Any],
        *,
        loop: Loop = "uvloop",
        looking_at: str | None = None,
    ) -> None:
        self._url = looking_at or database_url
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rota", "worker", "--app", app],
            cwd=_ROOT,
            stdout=self._output,
            stderr=subprocess.STDOUT,
            env=environment(database_url, settings, loop),
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        self._output.seek(0)
        return self._output.read().decode("utf-8", "replace")

    @property
    def returncode(self) -> int | None:
        return self._process.poll()

    @property
    def id(self) -> int:
        """The newest identity of this process."""
        found = self._ids()
        assert found, f"no worker has pid {self.pid}"
        return found[-1]

    def _ids(self) -> list[int]:
        with psycopg.connect(self._url, autocommit=True) as conn:
            rows = conn.execute(
                "SELECT id FROM rota.workers WHERE pid = %s ORDER BY id", [self.pid]
            ).fetchall()
        return [worker for (worker,) in rows]

    def wait_ready(self, timeout: float = 120.0) -> None:
        """Until it has registered; fails with its output if it ends before."""

        def is_ready() -> bool:
            if self.returncode is not None:
                raise RuntimeError(f"the worker ended with {self.returncode}:\n{self.output}")
            return bool(self._ids())

        eventually_sync(is_ready, timeout)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def terminate(self) -> None:
        """As a service manager does: it may finish what it runs."""
        self.send(signal.SIGTERM)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def freeze(self) -> None:
        self.send(signal.SIGSTOP)

    def thaw(self) -> None:
        self.send(signal.SIGCONT)

    def wait(self, timeout: float = 120.0) -> int:
        """The exit code; fails with its output if it does not end."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the worker goes on after {timeout} s:\n{self.output}") from None

    def close(self) -> None:
        if self.returncode is None:
            self.kill()
        self._output.close()
