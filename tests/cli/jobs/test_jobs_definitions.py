"""`rota jobs update|enable|disable|plan|sync`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]

CODE = """
import rota
app = rota.App(name="shop")

@app.job(queue="mail", priority={priority}, schedules=[rota.every(60)])
async def send(n: int = 1) -> None: ...
"""

SCHEDULED = ", schedules=[rota.every(60)]"


@pytest.fixture
def shop(here: Path, make_app: Any) -> rota.App:
    """Registered by its first release, in a file of its own."""
    (here / "shop_jobs.py").write_text(CODE.format(priority=3))
    app: rota.App = make_app()
    return app


def test_plan_and_sync_of_new_code(cli: Cli, shop: rota.App, conn: Connection) -> None:
    found = cli.done("--app", "shop_jobs.py", "jobs", "plan", "--json").json
    assert [(it["kind"], it["name"], it["change"]) for it in found] == [
        ("job", "send", "new"), ("schedule", "send", "new"),
    ]  # fmt: skip
    assert conn.execute("SELECT FROM rota.jobs WHERE name = 'send'").fetchone() is None
    assert "new: will be added" in cli.done("--app", "shop_jobs.py", "jobs", "plan").out
    assert cli.done("--app", "shop_jobs.py", "jobs", "sync").out == "1 job written: send\n"
    assert cli.done("--app", "shop_jobs.py", "jobs", "sync").out == "nothing to write\n"
    assert "are in sync" in cli.done("--app", "shop_jobs.py", "jobs", "plan").err
    assert cli.done("jobs", "list").out.split("\n")[1].split()[:3] == ["send", "mail", "3"]


def test_what_was_changed_is_kept_until_forced(cli: Cli, shop: rota.App, conn: Connection) -> None:
    cli.done("--app", "shop_jobs.py", "jobs", "sync")
    cli.done("jobs", "update", "send", "--priority", "8", "--reason", "load")
    line = cli.done("--app", "shop_jobs.py", "jobs", "plan").out.splitlines()[1]
    assert line.split()[:6] == ["send", "job", "priority", "3", "8", "kept"]
    assert "cli:alice" in line
    assert "priority by cli:alice" in cli.done("jobs", "show", "send").out
    result = cli.done("--app", "shop_jobs.py", "jobs", "sync", "--force", "send", "--json")
    assert result.json["written"] == ["send"]
    assert cli.done("jobs", "show", "send", "--json").json["priority"] == 3
    rows = conn.execute("SELECT actor, action, reason FROM rota.audit WHERE object_type = 'job'")
    assert rows.fetchall() == [
        ("cli:alice", "job.updated", "load"), ("cli:alice", "job.synced", None),
    ]  # fmt: skip


def test_update_sets_and_resets(cli: Cli, shop: rota.App) -> None:
    cli.done("--app", "shop_jobs.py", "jobs", "sync")
    result = cli.done(
        "jobs", "update", "send", "--queue", "slow", "--max-attempts", "7", "--timeout", "5m",
        "--backoff", '{"kind": "fixed", "base_seconds": 5}', "--tags", "a,b",
        "--default-payload", '{"n": 2}', "--description", "Slow.", "--json",
    ).json[0]["result"]  # fmt: skip
    assert (result["queue"], result["max_attempts"], result["timeout_seconds"]) == ("slow", 7, 300)
    assert (result["backoff"]["kind"], result["backoff"]["base_seconds"]) == ("fixed", 5)
    assert (result["tags"], result["default_payload"]) == (["a", "b"], {"n": 2})
    assert cli.done("jobs", "update", "send", "--timeout", "none").out == 'job "send" updated\n'
    result = cli.done(
        "jobs", "update", "send", "--reset", "queue", "--reset", "tags", "--json"
    ).json[0]["result"]
    assert (result["queue"], result["tags"]) == ("mail", [])
    assert "queue" not in result["edited"]


def test_update_refuses_a_payload_that_the_job_would_not_take(cli: Cli, shop: rota.App) -> None:
    cli.done("--app", "shop_jobs.py", "jobs", "sync")
    refused = cli("jobs", "update", "send", "--default-payload", '{"n": "many"}')
    assert refused.code == 2
    assert 'job "send": its default payload is not valid: argument n has the wrong' in refused.err


def test_a_job_gone_from_the_code_shows(cli: Cli, shop: rota.App, here: Path) -> None:
    cli.done("--app", "shop_jobs.py", "jobs", "sync")
    (here / "bare.py").write_text("import rota\napp = rota.App(name='shop')\n")
    plan = cli.done("--app", "bare.py", "jobs", "plan", "--json").json
    assert [(it["name"], it["change"]) for it in plan] == [("send", "gone")]
    cli.done("--app", "bare.py", "jobs", "sync")
    assert "(deleted from code)" in cli.done("jobs", "list").out


def test_a_schedule_gone_from_the_code_shows_with_what_it_does(
    cli: Cli, make_app: Any, here: Path
) -> None:
    app: rota.App = make_app()
    made = f"app = rota.App(name={app.name!r})"
    (here / "bare.py").write_text(f"import rota\n{made}\n@app.job\nasync def send() -> None: ...")

    @app.job
    async def send() -> None: ...

    for name in ("a", "b", "c", "d"):
        app.schedule(name, send, every=60, shadow=name == "d")
    app.database.open_sync()
    app.schedules.sync.disable("b")
    app.schedules.sync.pause("c")

    def statuses() -> list[str]:
        found = cli.done("--app", "bare.py", "jobs", "plan").out
        return re.findall(r"removed from the code, (.*?): rota schedules delete", found)

    assert statuses() == ["still active", "disabled", "paused", "still decides, as a shadow"]
    app.jobs.sync.disable("send")
    assert statuses()[0] == "skips its times (job disabled)"


def test_an_application_is_needed(cli: Cli, shop: rota.App) -> None:
    for verb in ("plan", "sync"):
        result = cli("jobs", verb)
        assert (result.code, "no application specified" in result.err) == (2, True)
    result = cli("--app", "shop_jobs.py", "jobs", "sync", "--force", "sned")
    assert result.code == 1
    assert "did you mean send?" in result.err


def test_what_the_runs_of_a_job_have(cli: Cli, shop: rota.App) -> None:
    (code := Path("shop_jobs.py")).write_text(code.read_text().replace(SCHEDULED, ""))
    cli.done("--app", "shop_jobs.py", "jobs", "sync")
    cli.done(
        "jobs", "update", "send", "--delay", "90s", "--expires-in", "2h", "--key", "n:{n}",
        "--tenant", "acme", "--default-payload", '{"n": 5}',
    )  # fmt: skip
    told = cli.done("jobs", "show", "send").out
    for words in ("delay            1m 30s", "key              n:{n}", "tenant           acme"):
        assert words in told, told
    run = cli.done("runs", "enqueue", "send", "--json").json
    found = cli.done("runs", "show", run["id"], "--json").json["run"]
    assert (found["payload"], found["key"], found["tenant"]) == ({"n": 5}, "n:5", "acme")
    cli.done(
        "jobs", "update", "send", "--delay", "none", "--key", "none", "--default-payload", "none"
    )
    shown = cli.done("jobs", "show", "send", "--json").json
    assert (shown["delay_seconds"], shown["key"], shown["default_payload"]) == (None, None, None)
    assert shown["definition_hash"]
    forced = cli.done("--app", "shop_jobs.py", "jobs", "sync", "--force-all", "--json")
    assert forced.json["written"] == ["send"]
    assert cli.done("jobs", "show", "send", "--json").json["tenant"] is None
