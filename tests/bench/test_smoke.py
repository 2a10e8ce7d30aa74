"""The bench runs and reports. Nothing here is about how fast anything is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.phases import PHASES
from bench.server import default_places
from bench.systems import OURS
from tests.database import fast_directory
from tests.distribution import find_distribution

FIRST = ("one", "bulk", "throughput")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(fast_directory()))


def measure(phases: list[str], tmp_path: Path, rows: str = ",".join(OURS)) -> dict[str, set[str]]:
    """The rows that have figures, by phase."""
    (server,) = run(["--rows", rows, "--only", ",".join(phases)], tmp_path)
    found: dict[str, set[str]] = {}
    for one in server["figures"]:
        found.setdefault(one["phase"], set()).add(one["row"])
    return found


def run(words: list[str], tmp_path: Path) -> list[dict[str, Any]]:
    file = tmp_path / "figures.json"
    main(["--quick", *words, "--json", str(file)])
    servers: list[dict[str, Any]] = json.loads(file.read_text())["servers"]
    for server in servers:
        assert server["notes"] == []
        assert all(value >= 0 for one in server["figures"] for value in one["values"])
    return servers


def test_rota_and_the_floor_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(list(FIRST), tmp_path) == {name: set(OURS) for name in FIRST}
    assert "÷ floor" in capsys.readouterr().out


WORDS = ["--rows", "floor", "--only", "bulk", "--postgres"]


def test_a_running_server_is_measured(tmp_path: Path, database_url: str) -> None:
    (server,) = run([*WORDS, database_url], tmp_path)
    assert len(server["figures"]) == 1


def test_binaries_are_measured_on_a_server_of_their_own(tmp_path: Path) -> None:
    place = find_distribution()
    if place is None:
        pytest.skip("no PostgreSQL of this machine's packages")
    (server,) = run([*WORDS, str(place)], tmp_path)
    assert server["server"]["server_version"].split(".")[0] in place.parts


def test_the_distribution_is_measured_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    newest = Path("/usr/lib/postgresql/17/bin")
    monkeypatch.setattr("bench.server.in_distribution", lambda: iter([newest, newest.parent]))
    assert default_places() == [None, str(newest)]


@pytest.mark.deep
@pytest.mark.timeout(900)  # dozens of processes
def test_every_other_phase_gives_figures(tmp_path: Path) -> None:
    others = [name for name in PHASES if name not in FIRST]
    found = measure(others, tmp_path, "rota")
    assert all("rota" in found[name] for name in others)


@pytest.mark.parametrize("wrong", [["--only", "speed"], ["--rows", "celery"]])
def test_an_unknown_name_is_refused_with_the_known_ones(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(wrong)
    assert refused.value.code == 2
    assert "there is no" in capsys.readouterr().err
