"""The program as a whole: its start, its help, its ways to fail."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import rota
from tests.cli.conftest import Cli

HEAVY = (
    "psycopg",
    "rich",
    "asyncio",
    "structlog",
    "tomlkit",
    "msgspec",
    "rota.app",
    "fastapi",
    "uvicorn",
)


def test_help_and_completion_import_nothing_heavy() -> None:
    program = f"""if True:
        import sys
        from rota.cli.main import run
        assert run(["worker", "--help"]) == 0
        print([name for name in {HEAVY!r} if name in sys.modules])
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("[]\n")


def test_every_public_name_is_where_it_says() -> None:
    assert sorted(rota.__all__) == sorted(rota._HOMES)
    for name, home in rota._HOMES.items():
        assert getattr(rota, name) is getattr(import_module(home), name)
    assert set(rota.__all__) <= set(dir(rota))
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        rota.Nothing  # noqa: B018


def test_no_command_shows_the_help(bare_cli: Cli) -> None:
    for arguments in ((), ("runs",), ("config",)):
        result = bare_cli(*arguments)
        assert result.code == 2
        assert result.err.startswith("Usage: rota")
    assert bare_cli.done("--help").out.startswith("Usage: rota")
    assert bare_cli.done("--version").out.startswith("rota ")


def test_a_mistyped_command_is_guessed(bare_cli: Cli) -> None:
    result = bare_cli("rnus")
    assert result.code == 2
    assert "'runs'" in result.err


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("runs list --unhandled", "called --no-handled"),
        ("logs tail --grep x", "the argument TEXT"),
        ("schedules preview x --from 1h", "called --after"),
        ("schedules backfill x --from 1h", "called --from-at"),
        ("schedules create x --job send", "the argument JOB"),
        ("events replay --job send", "the argument JOB"),
        ("limits set x --job send", "called --jobs"),
        ("events list order.*", "called --name"),
        ("schedules templates", "called rota templates list"),
    ],
)
def test_an_old_name_is_answered_with_the_new_one(bare_cli: Cli, typed: str, name: str) -> None:
    code, _, err = bare_cli(*typed.split())
    assert (code, err.splitlines()[1]) == (2, f"hint: it is {name} now")


def test_completion_script(here: Path) -> None:
    # It looks for the shell that it was called from: there has to be one, and it has to stay.
    called = f"{sys.executable} -m rota --show-completion && true"
    done = subprocess.run(["bash", "-c", called], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "_ROTA_COMPLETE" in done.stdout or "COMPLETE" in done.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    pipe = f"set -o pipefail; {sys.executable} -m rota config list --json | true"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_values_and_names_are_completed(
    cli: Cli, conn: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    conn.execute("INSERT INTO rota.jobs (name, queue) VALUES ('send', 'mail')")

    def completed(*words: str) -> list[str]:
        monkeypatch.setenv("_ROTA_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("rota", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        with pytest.raises(SystemExit):
            cli()
        return capsys.readouterr().out.split()

    assert completed("runs", "list", "--state", "su") == ["succeeded"]
    assert completed("runs", "list", "--job", "s") == ["send"]
    assert completed("schedules", "list", "--state", "pa") == ["paused", "parked"]
    assert completed("queues", "pause", "m") == ["mail"]
    assert completed("runs", "enqueue", "x") == []
