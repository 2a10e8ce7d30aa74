"""The bench runs and reports. Nothing here is about how fast anything is."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.phases import PHASES
from bench.systems import OURS
from tests.database import fast_directory

FIRST = ("one", "bulk", "drain")


@pytest.fixture(autouse=True)
def _in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(fast_directory()))


def measure(phases: list[str], tmp_path: Path, rows: str = ",".join(OURS)) -> dict[str, set[str]]:
    """The rows that have figures, by phase."""
    file = tmp_path / "figures.json"
    main(["--quick", "--rows", rows, "--only", ",".join(phases), "--json", str(file)])
    answer = json.loads(file.read_text())
    assert answer["notes"] == []
    assert all(value >= 0 for one in answer["figures"] for value in one["values"])
    found: dict[str, set[str]] = {}
    for one in answer["figures"]:
        found.setdefault(one["phase"], set()).add(one["row"])
    return found


def test_rota_and_the_floor_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert measure(list(FIRST), tmp_path) == {name: set(OURS) for name in FIRST}
    assert "÷ floor" in capsys.readouterr().out


@pytest.mark.slow
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
