"""Which application and which database a command is about: every command can be told, hints say
what they need, and a process that has no database says so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.cli.program import _build
from tests.cli.conftest import Cli
from tests.database import Server

CODE = """
import rota
app = rota.App({url!r}, name="shop")

@app.job
async def send(n: int = 1) -> None: ...
"""


def every_command(command: Any, path: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found = {path: command}
    for name, child in getattr(command, "commands", {}).items():
        found |= every_command(child, (*path, name))
    return found


COMMANDS = every_command(_build(None, is_outline=False))


def test_the_application_is_taken_before_and_behind_every_command() -> None:
    assert len(COMMANDS) > 100
    for path, command in COMMANDS.items():
        taken = [flag for one in command.params for flag in one.opts]
        assert taken.count("--app") == 1, path
        assert taken.count("--config") == 1, path


@pytest.mark.parametrize("place", range(3))
def test_it_is_the_same_wherever_it_stands(
    bare_cli: Cli, here: Path, app_url: str, place: int
) -> None:
    (here / "shop.py").write_text(CODE.format(url=app_url))
    words = ["jobs", "list", "--json"]
    words[place:place] = ["--app", "shop.py"]
    assert bare_cli.done(*words).json == []


def test_a_hint_carries_what_the_command_was_told(
    bare_cli: Cli, here: Path, server: Server
) -> None:
    """The URL stands in the code: without the application, the hint would lead to a new embedded
    database."""
    with server.fresh_database("template0") as url:
        (here / "shop.py").write_text(CODE.format(url=url))
        for words in (["worker", "--app", "shop.py"], ["--app=shop.py", "runs", "list"]):
            result = bare_cli(*words)
            assert result.code == 1, result
            assert "hint: run `rota --app shop.py migrate`" in result.err
        migrated = bare_cli.done("--app", "shop.py", "migrate").out.splitlines()
        assert migrated[0].startswith('database "')
        assert bare_cli.done("runs", "list", "--app", "shop.py", "--json").json == []
    assert not (here / ".rota").exists()


def test_every_command_that_is_advised_carries_it(
    bare_cli: Cli, here: Path, app_url: str, conn: psycopg.Connection[Any]
) -> None:
    (here / "shop.py").write_text(CODE.format(url=app_url))
    place = ("--app", "shop.py")
    bare_cli.done("jobs", "sync", *place)
    run = bare_cli.done("runs", "enqueue", "send", *place, "--json").json["id"]
    conn.execute("UPDATE rota.open_runs SET enqueued_at = enqueued_at - interval '1 hour'")
    said = bare_cli.done("why", run, *place).out
    said += bare_cli.done("runs", "show", run, *place).out
    said += bare_cli.done("attention", *place).out
    said += bare_cli("doctor", *place).out
    told = (
        bare_cli.done("workers", "list", *place).err + bare_cli.done("limits", "list", *place).err
    )
    assert "`rota --app shop.py worker`" in told
    named = re.findall(r"rota (?:--app shop.py )?(?=[a-z])[a-z]+.*", said + told)
    assert len(named) > 4, said
    assert [it for it in named if not it.startswith("rota --app shop.py ")] == []


def test_the_library_names_the_application_whose_code_has_the_url(server: Server) -> None:
    with server.fresh_database("template0") as url:
        app = rota.App(url)
        with pytest.raises(rota.SchemaError) as caught:
            app.database.open_sync()
        assert caught.value.hint == f"run `rota --app {__name__} migrate`"
        app.close_sync()


def test_the_library_names_the_file_that_has_the_url(server: Server, here: Path) -> None:
    with server.fresh_database("template0") as url:
        for place, needed in (("rota.toml", ""), ("other.toml", f" --config {here}/other.toml")):
            (here / place).write_text(f'database_url = "{url}"')
            app = rota.App(config=rota.Config.load(here / place, env={}))
            with pytest.raises(rota.SchemaError) as caught:
                app.database.open_sync()
            assert caught.value.hint == f"run `rota{needed} migrate`"
            app.close_sync()


def test_the_library_names_the_application_as_long_as_it_runs(
    server: Server, conn: psycopg.Connection[Any], app_url: str
) -> None:
    """The schema may go while the application has it open."""
    app = rota.App(app_url)
    app.database.open_sync()
    conn.execute("DROP SCHEMA rota CASCADE")
    with pytest.raises(rota.SchemaError) as caught:
        app.check_schema()
    assert caught.value.hint == f"run `rota --app {__name__} migrate`"
    app.close_sync()


def test_a_process_without_a_url_says_so_once(here: Path) -> None:
    script = (
        "import rota; app = rota.App()\n"
        "app.database.open_sync(); app.runs.sync.list(); app.migrate(); app.close_sync()"
    )
    environment = {key: it for key, it in os.environ.items() if not key.startswith("ROTA_")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=here, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr.count("no database URL is set: this process uses the embedded Postgres") == 1
    chosen = subprocess.run(
        [sys.executable, "-c", script],
        cwd=here, env=environment | {"ROTA_EMBEDDED": "true"}, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert chosen.stderr == ""
