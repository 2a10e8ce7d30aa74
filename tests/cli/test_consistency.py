"""What every command has in common, so that one who knows one knows all."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

import rota
from rota.cli.program import program
from tests.cli.conftest import Cli
from tests.docs.test_cli_docs import commands, flags

EVERY = {path: flags(one) for path, one in commands(typer.main.get_command(program()))}
# Programs that run until they are stopped; they answer nothing.
RUNNING = {"rota", "rota dev", "rota psql", "rota worker", "rota server"}
# What stands in files does not change by itself; a log is followed by `tail`.
STILL = {"rota config list", "rota logs show"}


def test_every_answer_can_be_had_as_json() -> None:
    assert [path for path in EVERY if path not in RUNNING and "--json" not in EVERY[path]] == []


def test_every_list_and_page_can_be_watched_in_any_zone() -> None:
    seen = [path for path in EVERY if path.split()[-1] in ("list", "show", "history")]
    assert len(seen) > 10
    for path in set(seen) - STILL:
        assert {"--watch", "--timezone"} <= set(EVERY[path]), path


def test_pages_have_a_limit() -> None:
    for path in ("runs list", "schedules list", "schedules history", "audit list"):
        assert "--limit" in EVERY[f"rota {path}"]


def test_a_command_by_itself_is_what_it_is_among_all() -> None:
    names = {path.split()[1] for path in EVERY if path != "rota"}
    assert len(names) > 25
    alone = {
        path: flags(one)
        for name in names
        for path, one in commands(typer.main.get_command(program(name)))
    }
    assert alone == EVERY


def test_a_command_loads_no_other() -> None:
    code = (
        "import sys; from rota.cli.main import run\n"
        "try: run(['--app', 'x', 'worker', '--help'])\n"
        "finally: print(*(name for name in sys.modules if name.startswith('rota.cli.')),"
        " file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    rooms = {name.split(".")[2] for name in done.stderr.split()}
    assert rooms == {"loading", "main", "program", "session", "terminal", "workers"}
    assert "rota.cli.workers.workers" not in done.stderr.split()


def test_help_loads_nothing_heavy() -> None:
    """An operator who asks for help does not wait for drivers, validators and web servers."""
    code = (
        "import sys; from rota.cli.main import run\n"
        "try: run(['--help'])\n"
        "finally: print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stderr.split())
    heavy = {"psycopg", "psycopg_pool", "pydantic", "fastapi", "starlette", "uvicorn", "asyncio"}
    heavy |= {"opentelemetry", "prometheus_client", "msgspec", "structlog", "cronsim"}
    assert loaded & heavy == set()
    assert "rota top" not in done.stdout
    assert "top" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("calendars", "delete", "free"), {"calendar": "free", "action": "deleted"}),
        (("jobs", "disable", "work"), {"job": "work", "action": "disabled"}),
        (
            ("schedules", "pause", "often"),
            {"schedule": "often", "tenant": "", "action": "paused"},
        ),
        (
            ("schedules", "delete", "often"),
            {"schedule": "often", "tenant": "", "action": "deleted", "cancelled_runs": 0},
        ),
    ],
)
def test_actions_say_what_they_did(
    cli: Cli, conn: Any, arguments: tuple[str, ...], told: dict[str, object]
) -> None:
    conn.execute("INSERT INTO rota.jobs (name) VALUES ('work')")
    conn.execute(
        "INSERT INTO rota.schedules (name, job, interval_seconds) VALUES ('often', 'work', 60)"
    )
    cli.done("calendars", "create", "--name", "free", "--definition", '{"holidays": []}')
    assert cli.done(*arguments, "--json").json == told


def test_settings_say_what_was_written(bare_cli: Cli) -> None:
    assert bare_cli.done("config", "init", "--json").json["action"] == "written"
    told = bare_cli.done("config", "set", "worker.concurrency", "4", "--json").json
    assert (told["key"], told["value"]) == ("worker.concurrency", "4")
    assert (
        bare_cli.done("config", "unset", "worker.concurrency", "--json").json["action"] == "unset"
    )
    assert bare_cli("config", "unset", "worker.concurrency", "--json").code == 1


def test_the_server_neither_claims_nor_ticks() -> None:
    """It could start nothing of the kind: of the loops it knows the event loop alone."""
    place = Path(rota.__file__).parent
    files = [*(place / "api").rglob("*.py"), place / "cli" / "serving" / "server.py"]
    imported = {
        name
        for path in files
        for name in re.findall(r"rota\.runtime[.\w]*", path.read_text(encoding="utf-8"))
    }
    assert imported == {"rota.runtime.processes.event_loop"}
