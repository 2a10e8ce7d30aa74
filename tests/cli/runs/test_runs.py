from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

import rota
from rota.testing import run_due_sync
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def jobs(make_app: Any) -> rota.App:
    """An application whose jobs are registered; the commands do not know it."""
    app: rota.App = make_app()

    @app.job(queue="mail")
    async def send(ctx: rota.Context, user_id: int = 1) -> dict[str, int]:
        ctx.log.info("sending \x1b[31m", user=user_id)
        return {"user": user_id}

    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no\nway")

    assert app.database.url
    return app


# list


def test_list_of_nothing(cli: Cli, jobs: rota.App) -> None:
    assert cli.done("runs", "list") == (0, "", "no runs\n")
    assert cli.done("runs", "list", "--json").json == []


def test_list_shows_each_state_with_what_matters(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send", "--delay", "1h")
    cli.done("runs", "enqueue", "fail")
    run_due_sync(jobs)
    cli.done("runs", "enqueue", "send")
    lines = cli.done("runs", "list").out.splitlines()
    assert lines[0].split() == ["ID", "STATE", "JOB", "QUEUE", "ATTEMPT", "CREATED", "DETAILS"]
    assert "queued" in lines[1]
    assert "waiting " in lines[1]
    assert "failed" in lines[2]
    assert lines[2].endswith("no")
    assert "1/1" in lines[2]
    assert "due in 59m" in lines[3] or "due in 1h" in lines[3]


def test_list_filters(cli: Cli, jobs: rota.App) -> None:
    cli.done("runs", "enqueue", "send", "--tenant", "t", "--key", "k", "--tag", "a", "--tag", "b")
    cli.done("runs", "enqueue", "fail", "--queue", "q", "--delay", "5m")

    def found(*flags: str) -> list[str]:
        return [run["job"] for run in cli.done("runs", "list", "--json", *flags).json]

    assert found() == ["fail", "send"]
    assert found("--state", "queued") == ["send"]
    assert found("--state", "queued,scheduled") == ["fail", "send"]
    assert found("--state", "queued", "--state", "scheduled") == ["fail", "send"]
    assert found("--job", "fail") == found("--queue", "q") == ["fail"]
    assert found("--tag", "b") == found("--tenant", "t") == found("--key", "k") == ["send"]
    assert found("--since", "2h", "--limit", "1") == ["fail"]
    assert found("--since", "2099-01-01T00:00Z") == []


def test_list_pages(cli: Cli, jobs: rota.App) -> None:
    ids = [cli.done("runs", "enqueue", "send", "--json").json["id"] for _ in range(3)]
    page = cli.done("runs", "list", "--limit", "2")
    assert f"next page: --after {ids[1]}" in page.err
    rest = cli.done("runs", "list", "--json", "--after", ids[1]).json
    assert [run["id"] for run in rest] == ids[:1]


def test_times_are_relative_or_absolute_and_in_json_utc(
    cli: Cli, jobs: rota.App, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    cli.done("runs", "enqueue", "send")
    assert " ago" in cli.done("runs", "list").out
    assert " JST" in cli.done("runs", "list", "--absolute").out
    assert cli.done("runs", "list", "--json").json[0]["created_at"].endswith("Z")
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    "flags",
    [
        ("--state", "done"), ("--since", "3x"), ("--since", "yesterday"), ("--limit", "0"),
        ("--limit", "many"), ("--after", "x"), ("--nonsense",),
    ],
)  # fmt: skip
def test_list_refuses_wrong_use(bare_cli: Cli, flags: tuple[str, ...]) -> None:
    result = bare_cli("runs", "list", *flags)
    assert result.code == 2
    assert result.err.startswith("error: ")
    assert "hint: see `rota runs list --help`" in result.err
    assert flags[0] in result.err


# show


def test_show(cli: Cli, jobs: rota.App) -> None:
    good = cli.done("runs", "enqueue", "send", '{"user_id": 7}', "--json").json["id"]
    bad = cli.done("runs", "enqueue", "fail", "--json").json["id"]
    run_due_sync(jobs)
    text = cli.done("runs", "show", good).out
    for words in ("succeeded", '"user_id": 7', '"user": 7', "manual, actor cli:alice", "sending"):
        assert words in text
    assert "\x1b" not in text
    text = cli.done("runs", "show", bad).out
    for words in ("failed", "attempts used up", "Traceback", "ValueError: no", "1 of 1 used"):
        assert words in text
    found = cli.done("runs", "show", good, "--json").json
    assert set(found) == {"run", "attempts", "logs", "isolation", "handled"}
    assert found["run"]["result"] == {"user": 7}
    assert found["logs"][0]["fields"] == {"user": 7}
    assert cli.done("runs", "show", good, "--json", "--logs", "0").json["logs"] == []


# cancel and retry


def test_cancel_and_retry_are_recorded(cli: Cli, jobs: rota.App, conn: Connection) -> None:
    run = cli.done("runs", "enqueue", "send", "--json").json["id"]
    assert cli.done("runs", "cancel", run, "--reason", "why not").out == f"run {run} cancelled\n"
    assert cli.done("runs", "retry", run, "--reason", "oh").out == f"run {run} will run again\n"
    rows = conn.execute("SELECT actor, action, reason FROM rota.audit ORDER BY id").fetchall()
    assert rows == [
        ("cli:alice", "run.enqueued", None),
        ("cli:alice", "run.cancelled", "why not"),
        ("cli:alice", "run.retried", "oh"),
    ]


def test_several_are_all_tried(cli: Cli, jobs: rota.App) -> None:
    ids = [cli.done("runs", "enqueue", "send", "--json").json["id"] for _ in range(2)]
    result = cli("runs", "cancel", ids[0], 99, ids[1])
    assert result.code == 1
    assert result.out == f"run {ids[0]} cancelled\nrun {ids[1]} cancelled\n"
    assert result.err == "error: there is no run 99\n"


def test_retry_with_another_payload(cli: Cli, jobs: rota.App, here: Path) -> None:
    run = cli.done("runs", "enqueue", "send", '{"user_id": 1}', "--json").json["id"]
    cli.done("runs", "cancel", run)
    (here / "payload.json").write_text('{"user_id": 2}')
    cli.done("runs", "retry", run, "--payload", "@payload.json")
    assert cli.done("runs", "show", run, "--json").json["run"]["payload"] == {"user_id": 2}
    for text in ("{", "[1]", "@nothing.json"):
        result = cli("runs", "retry", run, "--payload", text)
        assert result.code == 2
        assert "--payload" in result.err


# enqueue


def test_enqueue_takes_every_option(cli: Cli, jobs: rota.App) -> None:
    run = cli.done(
        "runs", "enqueue", "send", "-", "--queue", "q", "--priority", "1", "--run-at",
        "2099-01-01T00:00:00Z", "--key", "k", "--tenant", "t", "--max-attempts", "9", "--tag", "a",
        "--expires-in", "1h", "--json", stdin='{"user_id": 3}',
    ).json  # fmt: skip
    assert run["is_duplicate"] is False
    found = cli.done("runs", "show", run["id"], "--json").json["run"]
    shown = {key: found[key] for key in ("queue", "priority", "key", "tenant", "tags", "payload")}
    assert shown == {
        "queue": "q", "priority": 1, "key": "k", "tenant": "t", "tags": ["a"],
        "payload": {"user_id": 3},
    }  # fmt: skip
    assert (found["max_attempts"], found["run_at"]) == (9, "2099-01-01T00:00:00Z")
    assert found["expires_at"] == "2099-01-01T01:00:00Z"
    again = cli.done("runs", "enqueue", "send", "--key", "k", "--tenant", "t")
    assert again.out == f"run {run['id']} already holds the key\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("{",), ("[]",), ("7",), ("@missing.json",), ("{}", "--priority", "10"),
        ("{}", "--delay", "soon"), ("{}", "--run-at", "noon"),
        ("{}", "--delay", "1s", "--run-at", "2099-01-01"),
        ("{}", "--expires-in", "1s", "--expires-at", "2099-01-01"),
        ("{}", "--timeout", "1s"), ("{}", "--max-attempts", "0"),
    ],
)  # fmt: skip
def test_enqueue_refuses_bad_input_before_anything_is_sent(
    bare_cli: Cli, arguments: tuple[str, ...]
) -> None:
    """There is no database to send it to."""
    result = bare_cli("runs", "enqueue", "send", *arguments)
    assert result.code == 2
    assert "error: Invalid value" in result.err


def test_enqueue_with_an_application_checks_the_payload(cli: Cli, here: Path) -> None:
    (here / "shop_checked.py").write_text(
        "import rota\napp = rota.App()\n@app.job\nasync def greet(user_id: int) -> None: ...\n"
    )
    result = cli("runs", "enqueue", "greet", '{"user": 1}', "--app", "shop_checked.py")
    assert result.code == 2
    assert "argument user_id is missing" in result.err
    assert cli.done("--app", "shop_checked:app", "runs", "enqueue", "greet", '{"user_id": 1}').out


async def test_enqueue_and_wait(cli: Cli, jobs: rota.App) -> None:
    import asyncio

    async with jobs.worker():
        good = await asyncio.to_thread(cli, "runs", "enqueue", "send", '{"user_id": 5}', "--wait")
        assert (good.code, good.json) == (0, {"user": 5})
        bad = await asyncio.to_thread(cli, "runs", "enqueue", "fail", "--wait", "--json")
    assert (bad.code, bad.json["state"]) == (1, "failed")
    assert "run 2 failed: attempts used up: no\n  way" in bad.err
    late = await asyncio.to_thread(cli, "runs", "enqueue", "send", "--wait", "--timeout", "10ms")
    assert late.code == 1
    assert "had not ended" in late.err


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        ('{"user_id": "x"}', "argument user_id has the wrong type"),
        ('{"user_id": 7, "colour": 1}', "unknown argument colour"),
        ("{}", "argument user_id is missing"),
        (None, "argument user_id is missing"),
    ],
)
def test_a_payload_that_the_stored_schema_refuses(
    cli: Cli, make_app: Any, conn: Any, payload: str | None, problem: str
) -> None:
    """Without the application: the database knows the arguments of its jobs."""
    app: rota.App = make_app()

    @app.job
    async def greet(user_id: int) -> None: ...

    app.database.open_sync()
    result = cli("runs", "enqueue", "greet", *([] if payload is None else [payload]))
    assert result.code == 2
    assert problem in result.err
    assert conn.execute("SELECT count(*) FROM rota.runs").fetchone() == (0,)
    cli.done("runs", "enqueue", "greet", '{"user_id": 7}')
