"""`script/release` builds packages that are whole and work, and finds those that are not."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.packaging import contents

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, because a release is built in the tree; its environment is that of the tests."""
    place = tmp_path_factory.mktemp("release") / "rota"
    place.mkdir()
    for name in ("src", "script", "tests"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE", "hatch_build.py"):
        shutil.copy(ROOT / name, place / name)
    (place / "script" / "setup").write_text("#!/bin/sh\n")  # it would be made anew for this copy
    return place


@pytest.mark.slow
@pytest.mark.xdist_group("release")
def test_a_release_is_built_and_works(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_VENV", sys.prefix)
    done = subprocess.run(
        [clone / "script" / "release", "--try"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("are good\n")
    wheel = clone / "dist" / f"rota-{rota.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert not [name for name in names if "tests" in name.split("/")]
    check_that_faults_are_found(wheel, clone)


def check_that_faults_are_found(wheel: Path, place: Path) -> None:
    broken = place / wheel.name
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(broken, "w") as part:
        for name in whole.namelist():
            if name != "rota/postgres/sql/runs/enqueue.sql":
                part.writestr(name, whole.read(name))
        part.writestr("tests/test_x.py", "")
    assert contents.check_wheel(broken, rota.__version__) == [
        "rota/postgres/sql/runs/enqueue.sql is missing",
        "tests does not belong into it",
    ]


def test_the_version_is_that_of_the_package() -> None:
    assert version("rota") == rota.__version__


def test_the_description_has_no_link_that_leads_nowhere() -> None:
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    hook: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    text = "<!-- run -->\n![a](docs/a.png) [b](docs/b.md#c) [d](https://d.example) [e](#f)\n"
    assert hook.describe(text, None) == " b [d](https://d.example) [e](#f)\n"
    assert hook.describe(text, "https://x.example/r/") == (
        "![a](https://x.example/r/raw/main/docs/a.png)"
        " [b](https://x.example/r/blob/main/docs/b.md#c) [d](https://d.example) [e](#f)\n"
    )
    assert contents._NEAR.findall(hook.describe((ROOT / "README.md").read_text(), None)) == []
