"""What one gets without extras works without them; what needs one says which."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from rota.embedded import binaries
from rota.embedded.accounts import server_account
from rota.errors import EmbeddedError, MissingExtra
from rota.extras import EXTRAS, needing

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Never installed for the sake of these alone, so their modules are not looked for here.
NOT_LOCKED = {"opentelemetry-exporter-otlp-proto-http"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT, check=False
    )


def without(names: str, program: str) -> subprocess.CompletedProcess[str]:
    hidden = f"import sys\nfor name in {names.split()!r}: sys.modules[name] = None\n"
    return run("-c", hidden + program)


@pytest.mark.slow
def test_the_base_declares_enqueues_waits_and_runs(database_url: str) -> None:
    done = run("-m", "tests.packaging.base", database_url)
    assert done.returncode == 0, done.stderr
    base, *answers = done.stdout.splitlines()
    assert answers == ["async 3", "tenant 3", "sync 5"]
    named = {"cronsim", "msgspec", "psycopg", "psycopg-binary", "pydantic", "pydantic-core"}
    assert set(base.split()[1:]) == named | {
        "annotated-types", "rota", "typing-extensions", "typing-inspection",
    }  # fmt: skip


def test_the_base_is_the_driver_validation_and_timing() -> None:
    names = [re.split(r"[\[>]", one)[0] for one in PROJECT["dependencies"]]
    assert names == ["psycopg", "pydantic", "msgspec", "cronsim"]


def test_every_extra_is_known_with_its_modules() -> None:
    declared = PROJECT["optional-dependencies"]
    assert declared.pop("all") == [f"rota[{','.join(EXTRAS)}]"]
    assert list(declared) == list(EXTRAS)
    owners = packages_distributions()
    for extra, requirements in declared.items():
        packages = {re.split(r"[\[>;]", one)[0] for one in requirements} - {"rota"} - NOT_LOCKED
        known = {owner for module in EXTRAS[extra] for owner in owners[module]}
        assert packages <= {name.replace("_", "-").lower() for name in known}, extra


# Parts of a declared package, which requires a version of them itself.
PARTS = {
    "annotated-types": "pydantic", "pydantic-core": "pydantic", "typing-extensions": "pydantic",
    "markupsafe": "jinja2",
}  # fmt: skip
# Modules of users, which Rota supports where they are: frameworks and a test runner.
GUESTS = {"django", "pytest", "structlog"}


def test_every_import_is_declared() -> None:
    """What another package happens to bring may be any version, or gone."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {re.split(r"[\[>;]", one)[0] for wanted in lists for one in wanted}
    owners = packages_distributions()
    imported = {name for path in (ROOT / "src").rglob("*.py") for name in _imports(path)}
    found = {
        name: {owner.replace("_", "-").lower() for owner in owners.get(name, [])}
        for name in imported - {"rota"} - GUESTS - sys.stdlib_module_names
    }
    undeclared = {name for name, names in found.items() if not names & (declared | set(PARTS))}
    assert undeclared == set()
    for part, whole in PARTS.items():
        assert any(re.match(rf"{part}\b", one, re.I) for one in requires(whole) or []), part


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (one.name.partition(".")[0] for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@pytest.mark.parametrize(
    ("missing", "program", "extra"),
    [
        ("fastapi", "import rota.web", "server"),
        ("fastapi", "import rota.api.serve", "server"),
        ("jinja2", "import rota.web.app", "server"),
        ("prometheus_client", "import rota.api", "server"),
        ("uvicorn", "import rota.api.serve", "server"),
        ("tomlkit", "import rota.config.edit", "worker"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(missing: str, program: str, extra: str) -> None:
    done = without(missing, program)
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("rota.errors.MissingExtra: ")
    assert f"needs the package {missing}, which is not installed: pip install 'rota[{extra}]'" in (
        last
    )


@pytest.mark.parametrize("missing", ["typer", "rich typer"])
def test_the_command_line_says_what_it_lacks(missing: str) -> None:
    done = without(missing, "from rota.__main__ import main\nmain()")
    assert done.returncode == 1
    assert done.stderr == (
        "error: the command line needs the package typer, which is not installed:"
        " pip install 'rota[worker]'\n"
    )


def test_a_command_says_what_it_lacks(database_url: str) -> None:
    words = ["server", "--port", "0"]
    program = (
        f"import os\nos.environ['ROTA_DATABASE_URL'] = {database_url!r}\n"
        f"os.environ['ROTA_SERVER_TOKEN'] = 'x' * 40\n"
        f"from rota.cli.main import main\nmain({words!r})"
    )
    done = without("fastapi", program)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "error: the API needs the package fastapi, which is not installed:"
        " pip install 'rota[server]'"
    ]


def test_a_missing_server_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(binaries.BIN_DIR_VARIABLE, raising=False)
    monkeypatch.setattr(binaries, "_candidates", lambda: iter(()))
    with pytest.raises(EmbeddedError) as caught:
        binaries.find_binaries(server_account(tmp_path), tmp_path)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("pip install 'rota[embedded]', or")


def test_other_mistakes_are_not_taken_for_a_missing_extra() -> None:
    with pytest.raises(ModuleNotFoundError) as caught, needing("server", "the API"):
        import no_such_module  # type: ignore[import-not-found]  # noqa: F401
    assert not isinstance(caught.value, MissingExtra)


def test_a_tracer_that_is_asked_for_but_missing_is_not_used(database_url: str) -> None:
    program = (
        "import os\nos.environ['OTEL_PYTHON_TRACER_PROVIDER'] = 'sdk_tracer_provider'\n"
        "from rota.telemetry import otel\nprint(otel.tracer(), otel.carrier())"
    )
    assert without("opentelemetry", program).stdout == "None None\n"
