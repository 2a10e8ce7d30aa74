from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rota.embedded import EmbeddedPostgres
from tests.embedded.places import eventually, processes_of


def make_place() -> Path:
    # Not tmp_path: as root its parents are closed to the account that the server runs as.
    place = Path(tempfile.mkdtemp(prefix="rota-test-")).resolve()
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


@pytest.fixture(scope="module")
def running() -> Iterator[EmbeddedPostgres]:
    """A server with all defaults, for tests that only look at it."""
    place = make_place()
    with EmbeddedPostgres(place / "data") as server:
        yield server
    clear(place)
