"""Holds the promises that the files around the code make to somebody with a fresh clone."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ["setup", "demo", "test", "check", "bench", "chaos", "screenshots", "release"]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_executable_and_explained(name: str) -> None:
    script = ROOT / "script" / name
    assert os.access(script, os.X_OK)
    assert "set -eu" in script.read_text()
    assert f"`./script/{name}`" in CONTRIBUTING


def test_every_script_is_listed() -> None:
    assert sorted(path.name for path in (ROOT / "script").iterdir()) == sorted(SCRIPTS)


def test_ci_calls_the_test_script_and_nothing_else() -> None:
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert commands == ["set -eu", 'exec "$(dirname -- "$0")/../script/test" --deep </dev/null']


def test_lock_pins_every_package_by_hash_and_names_no_source() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index-url" not in lock
    assert "--find-links" not in lock
    blocks = [block for block in re.split(r"\n(?=\w)", lock) if not block.startswith("#")]
    assert blocks
    for block in blocks:
        assert re.match(r"[\w.-]+==\S+", block), block
        assert "--hash=sha256:" in block, block


def test_lock_covers_every_declared_dependency() -> None:
    lock = (ROOT / "requirements.lock").read_text()
    locked = set(re.findall(r"^([\w.-]+)==", lock, re.MULTILINE))
    extras = PYPROJECT["project"]["optional-dependencies"]
    declared = [*PYPROJECT["project"]["dependencies"], *PYPROJECT["dependency-groups"]["dev"]]
    declared += [*extras["worker"], *extras["server"], *extras["embedded"]]
    names = {re.split(r"[\[<>=;! ]", requirement)[0].lower() for requirement in declared}
    assert names - {"rota"} <= locked


def test_contributing_draws_every_layer_of_the_contract() -> None:
    contract = PYPROJECT["tool"]["importlinter"]["contracts"][0]
    for layer in contract["layers"]:
        assert f"\n{re.sub(r'[()]', '', layer)}  " in CONTRIBUTING, layer


def test_contributing_explains_every_marker() -> None:
    for marker in PYPROJECT["tool"]["pytest"]["ini_options"]["markers"]:
        assert f"`{marker.split(':')[0]}`" in CONTRIBUTING


def test_changelog_has_a_place_for_what_comes_next() -> None:
    assert "\n## [Unreleased]\n" in (ROOT / "CHANGELOG.md").read_text()


def test_setup_refuses_to_clear_a_directory_that_is_no_environment(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("")
    environment = os.environ | {"ROTA_VENV": str(tmp_path)}
    done = subprocess.run(
        [ROOT / "script" / "setup"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "is not a virtual environment" in done.stderr
    assert (tmp_path / "precious").exists()


def test_setup_names_what_is_wrong_with_the_interpreter(tmp_path: Path) -> None:
    environment = os.environ | {"ROTA_VENV": str(tmp_path / "venv"), "PYTHON": "/bin/false"}
    done = subprocess.run(
        [ROOT / "script" / "setup"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "PYTHON=/bin/false is not a working Python 3.11 or newer" in done.stderr


def test_the_formatter_lays_out_all_code_of_the_package() -> None:
    sources = (ROOT / "src").rglob("*.py")
    assert [path for path in sources if re.search(r"# fmt: (skip|off)", path.read_text())] == []
