from __future__ import annotations

import re
from typing import Any

import psycopg
import pytest

import rota
from tests.cli.conftest import Cli

pytestmark = pytest.mark.both_servers

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job(
        queue="mail", timeout=30, description="Greets.", tags=["a"], metadata={"team": "growth"}
    )  # fmt: skip
    async def send(user_id: int = 1) -> None: ...

    assert app.database.url
    return app


def test_nothing_to_list(cli: Cli) -> None:
    assert cli.done("queues", "list").err.startswith("no queues; ")
    assert "rota worker" in cli.done("workers", "list").err
    assert "no jobs" in cli.done("jobs", "list").err
    for noun in ("queues", "workers", "jobs"):
        assert cli.done(noun, "list", "--json").json == []


def test_jobs_by_tag_queue_and_metadata(cli: Cli, jobs: rota.App) -> None:
    for flags in (("--tag", "a"), ("--queue", "mail"), ("--metadata", "team:growth")):
        assert [job["name"] for job in cli.done("jobs", "list", *flags, "--json").json] == ["send"]
    for flags in (("--tag", "b"), ("--queue", "default"), ("--metadata", "team:core")):
        assert cli.done("jobs", "list", *flags).err == "no jobs match\n"
    assert cli("jobs", "list", "--metadata", "team").code == 2


def test_a_queue_of_rota_is_known(cli: Cli, jobs: rota.App) -> None:
    assert "no job or run uses it" not in cli.done("queues", "pause", "rota.system").out
    assert "no job or run uses it" in cli.done("queues", "pause", "rotary").out


def test_a_pause_with_an_end(cli: Cli, jobs: rota.App) -> None:
    said = cli.done("queues", "pause", "mail", "--until", "2h", "--reason", "smtp").out
    assert said.startswith('queue "mail" paused until 20')
    assert "by cli:alice: smtp; resumes in " in cli.done("queues", "list").out
    assert "; resumes 20" in cli.done("queues", "show", "mail").out
    assert cli.done("queues", "pause", "mail", "--until", "2099-01-31T14:30Z").out.startswith(
        'queue "mail" paused until 2099-01-31'
    )
    assert cli("queues", "pause", "mail", "--until", "2020-01-31T14:30Z").code == 2
    assert cli("queues", "pause", "mail", "--until", "soon").code == 2


def test_one_queue_by_job(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send")
    cli.done("runs", "enqueue", "send", "--delay", "1h")
    text = cli.done("queues", "show", "mail").out
    assert "by job" in text
    assert text.splitlines()[-1].split()[:2] == ["send", "1"]
    found = cli.done("queues", "show", "mail", "--json").json
    assert (found["queue"]["queued"], found["jobs"][0]["scheduled"]) == (1, 1)
    result = cli("queues", "show", "mial")
    assert result.code == 1
    assert "hint: did you mean mail?" in result.err


def test_what_was_done_to_each_queue(cli: Cli, jobs: rota.App) -> None:
    cli.done("queues", "pause", "mail")
    result = cli.done("queues", "pause", "mail", "web", "--json")
    assert [(it["target"], it["is_changed"]) for it in result.json] == [
        ("mail", False),
        ("web", True),
    ]
    assert all(it["result"]["is_paused"] for it in result.json)
    assert [it["name"] for it in cli.done("queues", "list", "--paused", "--json").json] == [
        "mail",
        "web",
    ]
    assert "2 queues, 0 queued, 0 running" in cli.done("queues", "list").err
    cli.done("queues", "resume", "mail", "web")
    assert cli.done("queues", "list", "--paused").err == "no queues are paused\n"


def test_names_are_completed(cli: Cli, jobs: rota.App, monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from rota.cli.program import program
    from rota.cli.terminal.names import job_names, queue_names

    ctx = typer.Context(typer.main.get_command(program()))
    assert queue_names(ctx, "m") == ["mail"]
    assert job_names(ctx, "x") == []
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://localhost:1/none")
    assert job_names(ctx, "") == []


def test_workers(cli: Cli, conn: Connection) -> None:
    conn.execute("SELECT rota.register_worker('w', 'box', 7, '', '{a,b}', '{send}', 4, 30)")
    conn.execute("SELECT rota.register_worker('v', 'box', 8, '', '{}', '{}', 4, 30)")
    conn.execute("UPDATE rota.workers SET is_stuck = true WHERE pid = 8")
    _, second, first = cli.done("workers", "list").out.splitlines()
    assert first.split()[1:7] == ["live", "box", "7", "a,", "b", "0/4"]
    assert second.split()[1:6] == ["stuck", "box", "8", "all", "0/4"]
    conn.execute("UPDATE rota.workers SET lease_expires_at = clock_timestamp() WHERE pid = 7")
    assert " silent " in cli.done("workers", "list").out
    conn.execute(
        "UPDATE rota.workers SET state = 'gone', ended_at = clock_timestamp() WHERE pid = 7"
    )
    assert len(cli.done("workers", "list", "--json").json) == 1
    assert len(cli.done("workers", "list", "--include-gone", "--json").json) == 2


def test_workers_that_do_not_get_their_work_done(cli: Cli, conn: Connection) -> None:
    conn.execute("SELECT rota.register_worker('w', 'box', 7, '', '{}', '{}', 4, 30)")
    conn.execute("SELECT rota.beat(id, false, 60, 90, 7, 'feeder: it is stuck') FROM rota.workers")
    _, line = cli.done("workers", "list", "--status", "failing").out.splitlines()
    assert line.split()[1] == "failing"
    assert line.rstrip().endswith("failing: feeder: it is stuck")
    (found,) = cli.done("workers", "list", "--json").json
    assert (found["errors"], found["trouble"]) == (7, "feeder: it is stuck")
    assert found["finished_at"] < found["claimed_at"] < found["heartbeat_at"]
    shown = cli.done("workers", "show", str(found["id"])).out
    assert "errors in a row  7" in shown
    conn.execute("SELECT rota.beat(id) FROM rota.workers")
    assert cli.done("workers", "list", "--json").json[0]["status"] == "live"


def test_jobs(cli: Cli, jobs: rota.App) -> None:
    _, line = cli.done("jobs", "list").out.splitlines()
    assert " ".join(line.split()) == "send mail 5 3 30 s on demand async 0 Greets."
    text = cli.done("jobs", "show", "send").out
    assert "30 s" in text
    assert '"user_id"' in text
    assert cli.done("jobs", "show", "send", "--json").json["queue"] == "mail"
    result = cli("jobs", "show", "sned")
    assert result[::2] == (1, 'error: no job is named "sned"\nhint: did you mean send?\n')


def test_a_sql_job_shows_function_role_and_transaction(cli: Cli, conn: Any) -> None:
    conn.execute(
        "CREATE FUNCTION public.tidy() RETURNS jsonb LANGUAGE sql AS 'SELECT NULL::jsonb';"
        "CREATE PROCEDURE public.steps() LANGUAGE plpgsql AS 'BEGIN END';"
        "INSERT INTO rota.jobs (name, kind, function_name, transaction_mode) VALUES"
        " ('tidy', 'sql', 'public.tidy', 'whole'), ('steps', 'sql', 'public.steps', 'none')"
    )
    shown = cli.done("jobs", "show", "tidy").out
    assert re.search(r"^function +public\.tidy$", shown, re.MULTILINE)
    assert re.search(r"^runs as +the workers' role$", shown, re.MULTILINE)
    assert re.search(r"^transaction +whole: one transaction with the end", shown, re.MULTILINE)
    assert "none: the procedure commits by itself" in cli.done("jobs", "show", "steps").out
    assert cli.done("jobs", "show", "steps", "--json").json["transaction_mode"] == "none"
