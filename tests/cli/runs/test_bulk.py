"""`rota runs cancel`, `retry` and `delete` by filters, and the flags of an enqueue."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from rota.testing import run_due_sync
from tests.cli.conftest import Cli


@pytest.fixture
def jobs(make_app: Any) -> rota.App:
    app: rota.App = make_app()

    @app.job(queue="mail")
    async def send(user_id: int = 1) -> int:
        return user_id

    @app.job(max_attempts=1)
    async def fail() -> None:
        raise ValueError("no way")

    assert app.database.url
    return app


def _enqueue(cli: Cli, job: str, *flags: str) -> int:
    found: int = cli.done("runs", "enqueue", job, "--json", *flags).json["id"]
    return found


def test_a_filter_needs_a_yes_and_says_what_it_would_do(cli: Cli, jobs: rota.App) -> None:
    _enqueue(cli, "send")
    result = cli("runs", "cancel", "--job", "send")
    assert result.code == 2
    assert "--yes" in result.err
    assert "cancel 1 run by filter" in result.err
    told = cli.done("runs", "cancel", "--job", "send", "--dry-run")
    assert told.out.split() == ["JOB", "STATE", "RUNS", "send", "queued", "1"]
    assert told.err == "1 run would be cancelled\n"
    done = cli.done("runs", "cancel", "--job", "send", "--yes")
    assert done.out == "1 run cancelled, 0 skipped, 0 failed\n"
    assert "bulk action 1; it continues" in done.err
    assert cli.done("runs", "cancel", "--job", "send").err == "no runs match\n"
    assert cli.done("runs", "cancel", "--job", "send", "--dry-run").err == "no runs match\n"
    assert "no runs match\n" in cli.done("runs", "cancel", "--job", "send", "--yes").err


def test_dead_letters_are_listed_retried_and_deleted(cli: Cli, jobs: rota.App) -> None:
    runs = [_enqueue(cli, "fail") for _ in range(25)]
    run_due_sync(jobs)
    assert len(cli.done("runs", "list", "--dead", "--json").json) == 25
    many = cli.done("runs", "retry", "--dead", "--since", "1h", "--yes", "--delay", "1h")
    assert many.out == "25 runs retried, 0 skipped, 0 failed\n"
    assert cli.done("runs", "list", "--dead", "--json").json == []
    result = cli("runs", "delete", runs[0])
    assert result.code == 1
    assert result.err.startswith(f"error: run {runs[0]} is scheduled\nhint: ")
    cli.done("runs", "cancel", "--job", "fail", "--yes")
    gone = cli.done("runs", "delete", "--state", "cancelled", "--limit", "5", "--yes", "--json")
    assert (gone.json["done"], gone.json["state"]) == (5, "finished")
    assert len(cli.done("runs", "list", "--json").json) == 20


def test_what_could_not_be_done_makes_the_exit_code(cli: Cli, jobs: rota.App) -> None:
    run = _enqueue(cli, "send", "--key", "k")
    cli.done("runs", "cancel", run)
    _enqueue(cli, "send", "--key", "k")
    result = cli("runs", "retry", "--state", "cancelled", "--yes")
    assert result.code == 1
    assert "0 runs retried, 0 skipped, 1 failed" in result.out
    assert "its key" in result.err


def test_a_bulk_action_is_followed_and_steered(cli: Cli, jobs: rota.App) -> None:
    _enqueue(cli, "send")
    flags = ("--job", "send", "--yes", "--detach", "--rate", "5", "--reason", "storm")
    started = cli.done("runs", "cancel", *flags)
    assert started.out == "bulk action 1 started\n"
    assert "no worker is live" in started.err
    assert "waiting for a live worker" in cli.done("bulk", "list").out
    assert "paused" in cli.done("bulk", "pause", 1, "--reason", "wait").out
    assert "paused" in cli.done("bulk", "pause", 1).out
    shown = cli.done("bulk", "show", 1)
    assert "job send" in shown.out
    assert "5/s" in shown.out
    assert cli.done("bulk", "throttle", 1, "--json").json[0]["result"]["rate"] is None
    assert "limited to 2/s" in cli.done("bulk", "throttle", 1, "--rate", "2").out
    assert "is resumed" in cli.done("bulk", "resume", 1).out
    assert cli.done("bulk", "stop", 1, "--json").json[0]["result"]["state"] == "stopped"
    assert cli("bulk", "resume", 1).code == 1
    assert cli.done("bulk", "list", "--state", "running").err == "no bulk actions\n"
    assert len(cli.done("bulk", "list", "--json").json) == 1
    assert cli.done("bulk", "show", 1, "--json").json["reason"] == "storm"


def test_what_was_refused_makes_the_exit_code(cli: Cli, jobs: rota.App) -> None:
    result = cli("runs", "delete", 99, "--json")
    assert result.code == 1
    assert result.json["items"] == [
        {"id": 99, "outcome": "refused", "reason": "there is no run 99"}
    ]


def test_which_runs_must_be_said_once(bare_cli: Cli) -> None:
    for flags in ((), ("7", "--job", "send"), ("--limit", "0", "7"), ("--state", "done")):
        for verb in ("cancel", "retry", "delete"):
            assert bare_cli("runs", verb, *flags).code == 2


def test_list_in_the_other_order_by_schedule_and_until(cli: Cli, jobs: rota.App) -> None:
    first, second = _enqueue(cli, "send"), _enqueue(cli, "fail")

    def found(*flags: str) -> list[int]:
        return [run["id"] for run in cli.done("runs", "list", "--json", *flags).json]

    assert found("--order", "oldest") == [first, second]
    assert found("--order", "oldest", "--after", str(first)) == [second]
    assert found("--until", "1h") == found("--schedule", "none") == []


def test_enqueue_takes_every_option_of_python(cli: Cli, jobs: rota.App) -> None:
    flags = (
        "--expires-at", "2099-01-01T00:00Z", "--attempt-timeout", "30s", "--metadata", '{"a": 1}',
        "--key", "k", "--on-conflict", "raise", "--key-keep", "forever", "--delay", "1h",
    )  # fmt: skip
    run = _enqueue(cli, "send", *flags)
    found = cli.done("runs", "show", run, "--json").json["run"]
    assert (found["metadata"], found["expires_at"]) == ({"a": 1}, "2099-01-01T00:00:00Z")
    again = cli("runs", "enqueue", "send", *flags)
    assert again.code == 1
    assert str(run) in again.err
    assert cli("runs", "enqueue", "send", "--key", "x", "--on-conflict", "maybe").code == 2
    assert cli("runs", "enqueue", "send", "--key-keep", "1h").code == 2
    assert cli("runs", "enqueue", "send", "--metadata", "[]").code == 2
