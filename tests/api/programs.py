"""`rota server` and `rota dev` as processes, on the test's database, under either event loop."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rota.testing import eventually_sync
from tests.cli.conftest import here

__all__ = ["here"]
TOKEN = "a token for tests"
LOOPS = ("uvloop", "asyncio")
_WITHOUT_UVLOOP = Path(__file__).parents[1] / "apps" / "without_uvloop"


class Served:
    """A started program, and where it listens."""

    def __init__(self, place: Path, *arguments: str, files: int | None = None, **env: str) -> None:
        self._output = (place / "output").open("wb")
        self._path = place / "output"
        self.process = subprocess.Popen(
            [*_limited(files), sys.executable, "-P", "-m", "rota", *arguments],
            cwd=place, stdout=self._output, stderr=subprocess.STDOUT, env=os.environ | env,
        )  # fmt: skip

    @property
    def output(self) -> str:
        return self._path.read_text()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def url(self) -> str:
        def listening() -> str:
            found = re.search(r"http://[\d.]+:\d+", self.output)
            assert found, self.output
            return found[0]

        return eventually_sync(listening, 30)

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(120)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(120)
        self._output.close()


@pytest.fixture
def serve(here: Path, database_url: str) -> Iterator[Callable[..., Served]]:
    started: list[Served] = []

    def start(
        *arguments: str, loop: str = "uvloop", files: int | None = None, **env: str
    ) -> Served:
        more = {"ROTA_DATABASE_URL": database_url, **_loop(loop), **env}
        started.append(Served(here, *arguments, files=files, **more))
        return started[-1]

    yield start
    for one in started:
        one.close()


def _limited(files: int | None) -> list[str]:
    return [] if files is None else ["/bin/sh", "-c", f'ulimit -n {files}; exec "$@"', "sh"]


def _loop(name: str) -> dict[str, str]:
    return {} if name == "uvloop" else {"PYTHONPATH": str(_WITHOUT_UVLOOP)}
