"""`rota logs`: search, tail, show."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import rota
from rota.testing import run_due_sync
from tests.cli.conftest import Cli
from tests.loglines import write

Connection = psycopg.Connection[Any]


def test_search(cli: Cli, conn: Connection) -> None:
    write(conn, "order 17\x1b[31m shipped", 60, run=1, fields={"user": 7})
    write(conn, "order 18 shipped", 30, run=2, job="ship", level="error", tenant="blue")
    lines = cli.done("logs", "search", "shipped").out.splitlines()
    assert [("order 18" in line, "order 17" in line) for line in lines] == [
        (True, False),
        (False, True),
    ]
    assert lines[1].endswith("work 1.1  order 17\\x1b[31m shipped  user=7")
    for flags in (["--job", "ship"], ["--run", 2], ["--level", "warning"], ["--tenant", "blue"],
                  ["--since", "45s"], ["--attempt", 1, "--limit", 1]):  # fmt: skip
        found = cli.done("logs", "search", "order", *flags, "--json").json
        assert [line["run_id"] for line in found["lines"]] == [2], flags
    assert len(cli.done("logs", "search", "--until", "45s", "--json").json["lines"]) == 1


def test_search_goes_on_by_its_cursor(cli: Cli, conn: Connection) -> None:
    for n in range(3):
        write(conn, f"line {n}", 10 - n, seq=n + 1)
    first = cli.done("logs", "search", "line", "--limit", 2)
    assert "searched back to" in first.err
    cursor = first.err.split("--after ")[1].strip()
    rest = cli.done("logs", "search", "line", "--limit", 2, "--after", cursor)
    assert "line 0" in rest.out
    assert rest.err == ""
    assert cli.done("logs", "search", "nosuchword") == (0, "", "no log lines\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ["search", "?"],
        ["search", "--level", "loud"],
        ["search", "--since", "yesterday"],
        ["search", "--limit", "0"],
        ["search", "--after", "x"],
        ["search", "--patience", "long"],
        ["tail", "--level", "loud"],
        ["tail", "--lines", "-1"],
        ["show", "x"],
    ],
)
def test_bad_input(cli: Cli, arguments: list[str]) -> None:
    result = cli("logs", *arguments)
    assert result.code == 2
    assert result.err.startswith("error: ")


def test_show(cli: Cli, make_app: Any) -> None:
    app: rota.App = make_app()

    @app.job()
    async def work(ctx: rota.Context) -> None:
        ctx.log.info("first")
        ctx.log.warning("second", n=2)

    run = work.enqueue_sync()
    quiet = work.options(delay=3600).enqueue_sync()
    run_due_sync(app)
    lines = cli.done("logs", "show", run.id).out.splitlines()
    assert [line.split("  ", 2)[1].strip() for line in lines] == ["info", "warning"]
    assert [one["seq"] for one in cli.done("logs", "show", run.id, "--json").json] == [1, 2]
    assert cli.done("logs", "show", run.id, "--attempt", 2).err == "no log lines\n"
    assert cli.done("logs", "show", quiet.id).err == "no log lines\n"


def test_tail_until_it_is_stopped(
    cli: Cli, conn: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(conn, "before", 5)
    looks = iter([lambda: write(conn, "after", seq=2), lambda: None])

    def next_look(_: float) -> None:
        try:
            next(looks)()
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr("rota.operations.logs.logs.time.sleep", next_look)
    result = cli("logs", "tail", "--json")
    assert result.code == 130
    assert ['"before"' in line for line in result.out.splitlines()] == [True, False]
    assert '"after"' in result.out.splitlines()[1]


def test_the_level_of_a_job(cli: Cli, make_app: Any) -> None:
    app: rota.App = make_app()

    @app.job()
    async def work() -> None: ...

    assert app.database.url
    cli.done("jobs", "update", "work", "--log-level", "debug")
    assert cli.done("jobs", "show", "work", "--json").json["log_level"] == "debug"
    assert "debug" in cli.done("jobs", "show", "work").out
    cli.done("jobs", "update", "work", "--log-level", "none")
    assert cli.done("jobs", "show", "work", "--json").json["log_level"] is None
    assert cli("jobs", "update", "work", "--log-level", "loud").code == 2
    assert cli("jobs", "update", "nobody", "--log-level", "info").code == 1
