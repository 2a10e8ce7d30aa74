from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.embedded import EmbeddedPostgres
from tests.database import fast_directory
from tests.embedded.places import eventually, processes_of


def make_place() -> Path:
    # Not tmp_path: as root its parents are closed to the account that the server runs as.
    place = Path(tempfile.mkdtemp(prefix="rota-test-", dir=fast_directory())).resolve()
    place.chmod(0o711)
    return place


def clear(place: Path) -> None:
    eventually(lambda: not processes_of(place), f"the servers in {place} end with their users")
    shutil.rmtree(place)


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory for servers; at the end of the test none of them may be left."""
    place = make_place()
    yield place
    clear(place)


@pytest.fixture(scope="session")
def running() -> Iterator[EmbeddedPostgres]:
    """A server with all defaults, for tests that only look at it."""
    place = make_place()
    with EmbeddedPostgres(place / "data") as server:
        yield server
    clear(place)


@pytest.fixture(scope="session")
def made() -> Iterator[Path]:
    """A data directory whose server has run once."""
    place = make_place()
    server = EmbeddedPostgres(place / "data", durable=False)
    server.start()
    server.stop(wait_seconds=30)
    yield place / "data"
    clear(place)


@pytest.fixture
def data(place: Path, made: Path) -> Path:
    """A copy of it, for tests that are not about the first start: initdb is most of a start."""
    subprocess.run(["cp", "-a", str(made), str(place / "data")], check=True)
    return place / "data"
