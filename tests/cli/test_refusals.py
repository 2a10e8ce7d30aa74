"""Every command is asked for what it must refuse: bad input, a thing that is not there, one in the
wrong state. The exit code says which, a sentence says why, and nothing is written."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
import typer.main

import rota
from rota.cli.program import program
from tests.cli.conftest import Cli
from tests.docs.test_cli_docs import commands
from tests.sql_engine import Engine

Connection = psycopg.Connection[tuple[Any, ...]]
Words = tuple[str, ...]

# By command: arguments of bad input, of what is not there, and of the wrong state; or a word about
# why there is no such case.
NO_STATE = "reads, in whatever state"
MATRIX: dict[str, tuple[Words, Words | str, Words | str]] = {
    "runs show": (("seven",), ("999",), NO_STATE),
    "runs cancel": ((), ("999",), ("<ended>",)),
    "runs retry": (("<ended>", "--payload", "["), ("999",), ("<waiting>",)),
    "runs delete": (("<ended>", "--job", "send"), ("999",), ("<waiting>",)),
    "runs enqueue": (("send", "{"), ("sned",), ("send", "--key", "k", "--on-conflict", "raise")),
    "runs list": (("--state", "eaten"), "a list", NO_STATE),
    "logs show": (("seven",), ("999",), NO_STATE),
    "logs search": (("--level", "loud"), "a search", NO_STATE),
    "logs tail": (("--level", "loud"), "a search", NO_STATE),
    "schedules list": (("--state", "eaten"), "a list", NO_STATE),
    "schedules show": ((), ("digset",), NO_STATE),
    "schedules create": (
        ("x", "send", "--interval", "soon"),
        ("x", "sned", "--interval", "1h"),
        ("digest", "send", "--interval", "1h"),
    ),
    "schedules update": (
        ("digest", "--overlap", "maybe"),
        ("digset", "--priority", "1"),
        ("digest", "--priority", "1", "--version", "99"),
    ),
    "schedules delete": ((), ("digset",), ("rota.prune_runs",)),
    "schedules enable": ((), ("digset",), "twice is fine"),
    "schedules disable": ((), ("digset",), "twice is fine"),
    "schedules pause": (("digest", "--until", "teatime"), ("digset",), "again is another reason"),
    "schedules resume": ((), ("digset",), "twice is fine"),
    "schedules trigger": (("digest", "--payload", "7"), ("digset",), "also while paused"),
    "schedules reschedule": (
        ("digest", "--at", "teatime"), ("digset", "--at", "1h"), "moves a time, in whatever state",
    ),
    "schedules preview": (("--cron", "61 * * * *"), ("digset",), NO_STATE),
    "schedules backfill": (
        ("started", "--from-at", "1d"), ("digset", "--from-at", "1d"), "fills in whatever state",
    ),
    "schedules history": (("digest", "--decision", "eaten"), ("digset",), NO_STATE),
    "schedules simulate": (("--display-timezone", "Mars/Base"), "of all", NO_STATE),
    "templates list": (("--json", "maybe"), "a list", NO_STATE),
    "templates set": (("Tea", "soon"), "makes one", "they have no states"),
    "templates remove": ((), ("Hurly",), "they have no states"),
    "find": ((), "it finds or not", NO_STATE),
    "limits list": (("--kind", "odd"), "a list", NO_STATE),
    "limits show": ((), ("none",), NO_STATE),
    "limits set": (("calm", "--cap", "many"), "any name may be a limit", "they have no states"),
    "limits remove": ((), ("none",), "those of the code: tests/api/test_operations.py"),
    "limits unblock": ((), ("none",), "a sequence that waits: tests/cli/queues/test_limits.py"),
    "tenants list": (("--order", "loudest"), "a list", NO_STATE),
    "tenants show": ((), ("none",), NO_STATE),
    "tenants set": (("a/b", "--weight", "2"), "any name may be a tenant", "they have no states"),
    "tenants pause": (("a/b",), "any name may be a tenant", "tests/cli/tenants/test_tenants.py"),
    "tenants resume": ((), ("none",), "twice is fine"),
    "tenants export": ((), ("none", "--to", "x.tar.gz"), NO_STATE),
    "tenants delete": ((), ("none", "--yes"), "a run of it must run: tests/operations"),
    "events emit": (("paid", "["), "any name may be an event", "they have no states"),
    "events list": (("--outcome", "lost"), "a list", NO_STATE),
    "events show": ((), ("999999",), NO_STATE),
    "events bindings": (("--json", "maybe", "x"), "a list", NO_STATE),
    "events replay": (("send",), ("sned", "--id", "1"), "they have no states"),
    "watches add": (("orders", "--on", "truncate"), "that is bad input", "they have no states"),
    "watches remove": (("seven",), ("999999",), "it is watched or not"),
    "watches list": (("--json", "maybe"), "a list", NO_STATE),
    "events refusals": (("--limit", "0"), "a list", NO_STATE),
    "calendars list": (("--json", "maybe"), "a list", NO_STATE),
    "calendars show": ((), ("fere",), NO_STATE),
    "calendars create": (
        ("x", "--definition", "{"), "makes one", ("free", "--definition", "{}"),
    ),
    "calendars update": (
        ("free", "--definition", "{"), ("fere", "--definition", "{}"), "they have no states",
    ),
    "calendars delete": ((), ("fere",), ("busy",)),
    "queues list": (("--paused", "maybe"), "a list", NO_STATE),
    "queues show": ((), ("nowhere",), NO_STATE),
    "tenants reset": ((), ("nobody",), "they have no states"),
    "queues pause": ((), "a queue may be paused before it is used", "twice is fine"),
    "queues resume": ((), ("nowhere",), "twice is fine"),
    "queues set": (("held", "--max-waiting", "-1"), "any name may be a queue", NO_STATE),
    "queues reset": ((), ("nowhere",), NO_STATE),
    "queues clear": ((), ("nowhere",), NO_STATE),
    "workers list": (("--gone", "maybe"), "a list", NO_STATE),
    "workers show": (("seven",), ("999",), NO_STATE),
    "workers drain": (("seven",), ("999",), ("<gone>",)),
    "workers resume": (("seven",), ("999",), ("<gone>",)),
    "jobs list": (("--metadata", "team"), "a list", NO_STATE),
    "jobs show": ((), ("sned",), NO_STATE),
    "jobs update": (
        ("send", "--timeout", "soon"),
        ("sned", "--priority", "1"),
        ("send", "--priority", "1", "--version", "99"),
    ),
    "jobs enable": ((), ("sned",), "twice is fine"),
    "jobs disable": ((), ("sned",), "twice is fine"),
    "jobs rename": ((), ("sned", "other"), ("rota.prune_runs", "other")),
    "jobs delete": (("send", "--cascade=maybe"), ("sned",), ("send",)),
    "workers stop": (("seven",), ("999",), ("<gone>",)),
    "runs handle": (("seven",), ("999",), ("<waiting>",)),
    "runs reopen": (("seven",), ("999",), ("<ended>",)),
    "schedules edits": (("digest", "--limit", "0"), ("digset",), NO_STATE),
    "schedules manual": (("digest", "--limit", "0"), ("digset",), NO_STATE),
    "schedules revert": (("digest", "seven"), ("digset", "1"), ("digest", "999")),
    "attention": (("--limit", "0"), "of all", NO_STATE),
    "doctor": (("--limit", "0"), "of all", NO_STATE),
    "trend": (("--span", "soon"), "of all", NO_STATE),
    "why": (("send", "--kind", "eaten"), ("nothing",), NO_STATE),
    "bulk list": (("--state", "eaten"), "a list", NO_STATE),
    "bulk show": (("seven",), ("999",), NO_STATE),
    "bulk pause": (("seven",), ("999",), "tests/cli/runs/test_bulk.py"),
    "bulk resume": (("seven",), ("999",), "tests/cli/runs/test_bulk.py"),
    "bulk stop": (("seven",), ("999",), "tests/cli/runs/test_bulk.py"),
    "bulk throttle": (("seven",), ("999",), "tests/cli/runs/test_bulk.py"),
    "errors list": (("--order", "eaten"), "a list", NO_STATE),
    "errors show": ((), ("0123456789ab",), NO_STATE),
    "errors handle": ((), ("0123456789ab",), "tests/cli/runs/test_error_groups.py"),
    "errors reopen": ((), ("0123456789ab",), "tests/cli/runs/test_error_groups.py"),
    "views list": (("--watch", "soon"), "a list", NO_STATE),
    "views save": (("mine",), "makes one", "they have no states"),
    "views delete": ((), ("nobodys",), "they have no states"),
    "cleanup list": (("--json", "maybe"), "a list", NO_STATE),
    "cleanup show": ((), ("nothing",), NO_STATE),
    "cleanup add": (
        ("public.nothing",), "a table that is not there is bad input", NO_STATE
    ),
    "cleanup add-recipe": ((), ("nothing",), ("expired_auth_cleanup",)),
    "cleanup plan": (("--older-than", "1d"), ("nothing",), NO_STATE),
    "cleanup recipes": (("--json", "maybe"), "a list", NO_STATE),
    "cleanup remove": ((), ("nothing",), ("rota.cleanup",)),
    "cleanup run": (("--older-than", "1d"), ("nothing",), NO_STATE),
    "audit list": (("--since", "soon"), "a list", NO_STATE),
    "audit show": (("seven",), ("999",), NO_STATE),
    "stats": (("--since", "soon"), "of all", NO_STATE),
    "top": (("--interval", "soon"), "of all", NO_STATE),
}  # fmt: skip
# Each has a file of its own: they need an application, or none of this database.
ELSEWHERE = {
    "jobs create", "jobs functions",
    "dev", "worker", "server", "migrate", "grant", "psql", "bench", "jobs plan", "jobs sync",
    "retention run", "config init", "config get", "config list", "config set", "config unset",
}  # fmt: skip


@pytest.fixture
def shop(cli: Cli, make_app: Any, conn: Connection) -> dict[str, str]:
    """One of everything, and the numbers of what has one."""
    app: rota.App = make_app()

    @app.job
    async def send(user_id: int = 1) -> None: ...

    @app.job(enabled=False)
    async def off() -> None: ...

    put = app.schedules.sync
    put.create("digest", "send", cron="0 8 * * *")
    put.create("stopped", "send", every=60, enabled=False)
    put.create("started", "send", init="start")
    for name in ("free", "busy"):
        app.calendars.sync.create(name, {"holidays": []})
    put.create("closed", "send", every=60, calendar="busy")
    app.queues.sync.pause("held")
    ended, waiting = send.enqueue_sync(), send.options(key="k").enqueue_sync()
    app.runs.sync.cancel(ended.id)
    worker = Engine(conn).worker()
    conn.execute("UPDATE rota.workers SET state = 'gone', ended_at = now()")
    return {"<ended>": str(ended.id), "<waiting>": str(waiting.id), "<gone>": str(worker)}


def test_every_command_is_in_the_matrix_or_tested_elsewhere() -> None:
    every = {path.removeprefix("rota ") for path, _ in commands(typer.main.get_command(program()))}
    assert every - {"rota"} == set(MATRIX) | ELSEWHERE


def answered(cli: Cli, conn: Connection, command: str, words: list[str]) -> str | int:
    """The exit code of a proper refusal; else what is wrong with it."""
    before = everything(conn)
    code, out, err = cli(*command.split(), *words)
    if everything(conn) != before:
        return "left a trace"
    is_said = err.startswith(("error: ", "Usage: ")) and "Traceback" not in err
    return code if is_said and not out else f"{code}, said {out!r} and {err!r}"


def everything(conn: Connection) -> list[Any]:
    return conn.execute(
        "SELECT (SELECT count(*) FROM rota.audit), (SELECT count(*) FROM rota.open_runs),"
        " (SELECT sum(version) FROM rota.schedules), (SELECT sum(version) FROM rota.jobs)"
    ).fetchall()


# One database for all rows of a column: what is refused leaves nothing in it.
@pytest.mark.parametrize(
    ("column", "code"), [(0, 2), (1, 1), (2, 1)], ids=["bad input", "not found", "wrong state"]
)
def test_refusals(cli: Cli, shop: dict[str, str], conn: Connection, column: int, code: int) -> None:
    rows = {command: row[column] for command, row in MATRIX.items()}
    found = {
        command: answered(cli, conn, command, [shop.get(word, word) for word in words])
        for command, words in rows.items()
        if isinstance(words, tuple)
    }
    assert found == dict.fromkeys(found, code)
