"""`rota jobs plan` and `sync`, between two releases that differ in all that code declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.apps import releases
from tests.apps.releases import NEW, OLD
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]
CODE = """
import rota
from tests.apps.releases import declare
app = rota.App(name="shop")
declare(app, {release})
"""


@pytest.fixture
def shop(cli: Cli, here: Path, conn: Connection) -> Cli:
    conn.execute("INSERT INTO rota.calendars (name, definition) VALUES ('banking', '{}')")
    for name, release in (("old", OLD), ("new", NEW)):
        (here / f"{name}.py").write_text(CODE.format(release=release))
    return cli


def test_every_difference_is_listed_and_then_stored(shop: Cli) -> None:
    first = shop.done("jobs", "sync", "--app", "old.py").out
    assert f"{len(releases.QUEUE)} queues written" in first
    assert "up" not in shop.done("jobs", "plan", "--app", "old.py").out
    text = shop.done("jobs", "plan", "--app", "new.py").out
    told = shop.done("jobs", "plan", "--app", "new.py", "--json").json
    listed = {(one["kind"], one["name"]) for one in told}
    for option in releases.JOB:
        assert ("job", f"job {option}") in listed or option == "schedules", option
    for option in releases.SCHEDULE:
        assert {("schedule", f"with {option}"), ("schedule", f"decorated {option}")} <= listed
    for option in releases.QUEUE:
        assert ("queue", f"queue {option}") in listed
    assert len(text.splitlines()) == len(told) + 1
    written = shop.done("jobs", "sync", "--app", "new.py", "--json").json
    assert written["schedules"] >= len(releases.SCHEDULE)
    assert written["queues"] == len(releases.QUEUE)
    assert "in sync" in shop.done("jobs", "plan", "--app", "new.py").err
    assert shop.done("jobs", "sync", "--app", "new.py").out == "nothing to write\n"


def test_what_is_marked_is_not_called_written(cli: Cli, here: Path) -> None:
    code = "import rota\napp = rota.App(name='shop')\n@app.job\ndef {name}() -> None: ...\n"
    (here / "old.py").write_text(code.format(name="a"))
    (here / "new.py").write_text(code.format(name="b"))
    cli.done("jobs", "sync", "--app", "old.py")
    said = cli.done("jobs", "sync", "--app", "new.py").out
    assert said == "1 job written: b\n1 job marked as deleted: a\n"


def test_a_changed_signature(cli: Cli, here: Path) -> None:
    code = "import rota\napp = rota.App(name='shop')\n@app.job\ndef a({args}) -> None: ...\n"
    (here / "old.py").write_text(code.format(args=""))
    (here / "new.py").write_text(code.format(args="n: int = 1"))
    cli.done("jobs", "sync", "--app", "old.py")
    assert "payload_schema" in cli.done("jobs", "plan", "--app", "new.py").out


def test_force_resets_the_schedules_of_app_schedule(cli: Cli, here: Path, conn: Connection) -> None:
    (here / "shop.py").write_text(
        "import rota\napp = rota.App(name='shop')\n@app.job\ndef a() -> None: ...\n"
        "app.schedule('poll', a, every=60)\n"
    )
    cli.done("jobs", "sync", "--app", "shop.py")
    cli.done("schedules", "update", "poll", "--interval", "5m")
    cli.done("jobs", "sync", "--app", "shop.py")
    query = "SELECT interval_seconds, edited FROM rota.schedules WHERE name = 'poll'"
    assert conn.execute(query).fetchone()[0] == 300  # type: ignore[index]
    assert cli.done("jobs", "sync", "--app", "shop.py", "--force", "a").out.endswith(
        "1 schedule written\n"
    )
    assert conn.execute(query).fetchone() == (60, {})


def test_a_renamed_job(cli: Cli, here: Path, conn: Connection) -> None:
    code = (
        "import rota\napp = rota.App(name='shop')\n"
        "@app.job({more}schedules=[rota.every(60), rota.every(90)])\ndef {name}() -> None: ...\n"
    )
    (here / "old.py").write_text(code.format(name="send_welcome", more=""))
    (here / "new.py").write_text(code.format(name="greet", more="aliases=['send_welcome'], "))
    cli.done("jobs", "sync", "--app", "old.py")
    found = cli.done("jobs", "plan", "--app", "new.py", "--json").json
    assert [(it["kind"], it["name"], it["change"], it["stored"]) for it in found] == [
        ("job", "greet", "renamed", "send_welcome")
    ]
    assert "will be renamed from send_welcome" in cli.done("jobs", "plan", "--app", "new.py").out
    assert cli.done("jobs", "sync", "--app", "new.py").out == "1 job written: greet\n"
    assert "in sync" in cli.done("jobs", "plan", "--app", "new.py").err
    names = conn.execute("SELECT name FROM rota.schedules WHERE NOT is_system ORDER BY 1")
    assert names.fetchall() == [("greet",), ("greet-2",)]


def test_an_operator_renames_a_job(cli: Cli, here: Path) -> None:
    code = "import rota\napp = rota.App(name='shop')\n@app.job\ndef a() -> None: ...\n"
    (here / "shop.py").write_text(code)
    cli.done("jobs", "sync", "--app", "shop.py")
    run = cli.done("runs", "enqueue", "a", "--json").json["id"]
    said = cli.done("jobs", "rename", "a", "b", "--reason", "renamed in release 2").out
    assert said == 'job "a" renamed, 1 unfinished run moved\n'
    found = cli.done("runs", "list", "--job", "a", "--json").json
    assert [(it["id"], it["job"]) for it in found] == [(run, "b")]
