"""The pytest plugin: found by itself, in nobody's way, and clear about what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rota.pytest_plugin

JOBS = """import rota
app = rota.App(embedded=False)
@app.job
def work(): pass
"""
HEAVY = ("rota.app", "rota.testing", "psycopg", "pydantic", "msgspec", "rota.embedded")


def run_pytest(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {name: it for name, it in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", *arguments]
    return subprocess.run(command, cwd=place, env=kept, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    (tmp_path / "jobs.py").write_text(JOBS)
    (tmp_path / "test_it.py").write_text("def test_app(rota_app):\n    pass\n")
    return tmp_path


def test_it_is_loaded_once(pytestconfig: pytest.Config) -> None:
    loaded = pytestconfig.pluginmanager.list_name_plugin()
    assert [name for name, it in loaded if it is rota.pytest_plugin] == ["rota"]


def test_all_names_are_its_own() -> None:
    public = {name for name in vars(rota.pytest_plugin) if name.startswith("rota_")}
    made = {
        name
        for name, it in vars(rota.pytest_plugin).items()
        if type(it).__name__ == "FixtureFunctionDefinition"
    }
    assert made == public
    assert len(made) >= 9


def test_a_project_without_rota_notices_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        f"import sys\ndef test_it():\n    assert not {set(HEAVY)!r} & set(sys.modules)\n"
    )
    done = run_pytest(tmp_path)
    assert done.returncode == 0, done.stdout
    assert run_pytest(tmp_path, "-p", "no:rota").returncode == 0


def test_without_an_application_it_says_how_to_name_one(project: Path) -> None:
    done = run_pytest(project)
    assert done.returncode == 1
    assert 'no application is configured: set rota_app = "package.module:app"' in done.stdout


@pytest.mark.parametrize(
    ("module", "attribute", "message"),
    [
        ("nowhere", "app", "rota_app: no module named nowhere; is its directory on sys.path?"),
        ("wrong_jobs", "other", "rota_app: wrong_jobs:other is 7, not a rota.App"),
        ("wrong_jobs", "nothing", "rota_app: wrong_jobs:nothing is None, not a rota.App"),
    ],
)
def test_a_wrong_name_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, attribute: str, message: str
) -> None:
    (tmp_path / "wrong_jobs.py").write_text("other = 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(pytest.UsageError) as caught:
        rota.pytest_plugin._find(module, attribute)
    assert str(caught.value).startswith(message)


def test_the_application_may_be_given_by_a_fixture(project: Path, database_url: str) -> None:
    (project / "conftest.py").write_text(
        "import pytest, jobs\n"
        "@pytest.fixture(scope='session')\n"
        "def rota_application(): return jobs.app\n"
        "@pytest.fixture\n"
        f"def rota_database_url(): return {database_url!r}\n"
    )
    (project / "test_it.py").write_text(
        "def test_app(rota_app, rota_clock, rota_reset):\n"
        f"    assert rota_app.database.url == {database_url!r}\n"
        "    assert [job.name for job in rota_app.jobs.sync.list()] == ['work']\n"
        "    rota_reset()\n"
    )
    done = run_pytest(project)
    assert done.returncode == 0, done.stdout


def test_another_schema_is_that_of_the_template(
    project: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "jobs.py").write_text(
        "import rota\napp = rota.App(embedded=False, schema='tasks')\n"
        "@app.job\ndef double(n: int) -> int: return 2 * n\n"
    )
    (project / "test_it.py").write_text(
        "from jobs import double\n"
        "def test_app(rota_app, rota_worker, rota_reset):\n"
        "    double.enqueue_sync(4)\n"
        "    assert [run.result for run in rota_worker.run_all_sync()] == [8]\n"
        "    rota_reset()\n"
        "    assert rota_app.runs.sync.list() == []\n"
    )
    monkeypatch.setenv("ROTA_TEST_DATABASE_URL", database_url)
    done = run_pytest(project, "-o", "rota_app=jobs:app")
    assert done.returncode == 0, done.stdout
