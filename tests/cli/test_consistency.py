"""What every command has in common, so that one who knows one knows all."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

import rota
from rota.cli.program import program
from tests.cli.conftest import Cli
from tests.docs.test_cli_docs import commands, flags

COMMANDS = dict(commands(typer.main.get_command(program())))
EVERY = {path: flags(one) for path, one in COMMANDS.items()}
# They show the first few, or of each kind, or act on so many: there is no next page.
FIRST_ONLY = {
    "rota find", "rota attention", "rota runs cancel", "rota runs retry", "rota runs delete",
}  # fmt: skip
# Programs that run until they are stopped; they answer nothing.
RUNNING = {"rota", "rota dev", "rota psql", "rota worker", "rota server"}
# What stands in files does not change by itself; a log is followed by `tail`.
STILL = {"rota config list", "rota logs show"}


def help_of(path: str, flag: str) -> str:
    (found,) = (one for one in COMMANDS[path].params if flag in one.opts)
    return str(found.help)


def test_every_answer_can_be_had_as_json() -> None:
    assert [path for path in EVERY if path not in RUNNING and "--json" not in EVERY[path]] == []


def test_every_list_and_page_can_be_watched_in_any_zone() -> None:
    seen = [path for path in EVERY if path.split()[-1] in ("list", "show", "history")]
    assert len(seen) > 10
    for path in set(seen) - STILL:
        assert {"--watch", "--display-timezone"} <= set(EVERY[path]), path


def test_one_way_to_page() -> None:
    # A preview has times after a time.
    paged = {path for path in EVERY if "--after" in EVERY[path]} - {"rota schedules preview"}
    assert {"rota runs list", "rota schedules history", "rota logs search"} <= paged
    assert {path for path in EVERY if "--limit" in EVERY[path]} == paged | FIRST_ONLY
    others = {"--before", "--cursor", "--page", "--offset", "--count-from"}
    assert [path for path in EVERY if others & set(EVERY[path])] == []
    for path in paged:
        assert help_of(path, "--limit") == "Maximum number of results."
        assert help_of(path, "--after").startswith("Show the next page")


def test_one_way_to_order() -> None:
    ordered = [path for path in EVERY if "--order" in EVERY[path]]
    assert len(ordered) > 10
    assert all(help_of(path, "--order").startswith("Sort order: ") for path in ordered)
    others = {"--oldest", "--newest", "--sort", "--reverse"}
    assert [path for path in EVERY if others & set(EVERY[path])] == []


def test_a_time_zone_is_a_schedules_or_the_viewers() -> None:
    own = {path for path in EVERY if "--timezone" in EVERY[path]}
    schedules = {f"rota schedules {verb}" for verb in ("create", "update", "preview")}
    assert own == {*schedules, "rota cleanup add", "rota schedules simulate"}
    assert {help_of(path, "--timezone") for path in schedules} == {
        "IANA time zone of the schedule, e.g. Europe/Paris. Default: UTC."
    }
    seen = [path for path in EVERY if "--display-timezone" in EVERY[path]]
    assert {help_of(path, "--display-timezone") for path in seen} == {
        "Time zone for display. Default: ROTA_CLI_TIMEZONE, TZ or the system's."
    }
    assert [path for path in EVERY if {"--zone", "--tz"} & set(EVERY[path])] == []


def test_what_a_command_is_about_is_an_argument() -> None:
    # They are about a table or a recipe, and have a name by themselves; or filter by names.
    made = ["rota cleanup add", "rota cleanup add-recipe", "rota events list"]
    assert sorted(path for path in EVERY if "--name" in EVERY[path]) == made
    about = ("show", "create", "update", "delete", "set", "pause", "resume", "enable", "disable")
    for path in EVERY:
        if path.split()[-1] in about and path != "rota config set":
            first = EVERY[path][0]
            assert first in ("NAME", "ID", "RUN", "GROUP"), path


def test_every_argument_and_option_explains_itself() -> None:
    silent = [
        f"{path} {parameter.opts[0]}"
        for path, command in COMMANDS.items()
        for parameter in command.params
        if not getattr(parameter, "hidden", False) and not parameter.help
    ]
    assert silent == []


@pytest.mark.parametrize("path", [path for path in EVERY if path not in ("rota", "rota psql")])
def test_wrong_use_is_2_and_points_to_the_help(bare_cli: Cli, path: str) -> None:
    code, out, err = bare_cli(*path.split()[1:], "--nonsense")
    assert (code, out) == (2, "")
    assert err.startswith("error: No such option: --nonsense")
    assert f"hint: see `{path} --help`" in err
    assert bare_cli(*path.split()[1:], "--help").code == 0


def test_every_column_has_a_heading() -> None:
    """A row of headings is a tuple or list of words in capitals, where `>` marks numbers."""
    place = Path(rota.__file__).parent / "cli"
    found = [
        [it.value for it in node.elts if isinstance(it, ast.Constant)]
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Tuple | ast.List)
    ]
    words = [[it for it in row if isinstance(it, str)] for row in found]
    heads = [row for row in words if sum(_is_heading(it) for it in row) > 1]
    assert len(heads) > 30
    assert [row for row in heads if "" in row] == []


def _is_heading(text: str) -> bool:
    return bool(re.fullmatch(r"[#A-Z][-A-Z0-9 ]*>?", text))


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
        for name in re.findall(r"rota\.engine[.\w]*", path.read_text(encoding="utf-8"))
    }
    assert imported == {"rota.engine.processes.event_loop"}
