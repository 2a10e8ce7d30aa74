"""Rows of a stranger on the terminal of whoever looks: every list, page, error and document."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.testing import eventually_sync
from tests.cli.conftest import Cli
from tests.conftest import MakeApp
from tests.loglines import write
from tests.sql_engine import Engine
from tests.terminal import EVIL, check

Connection = psycopg.Connection[Any]
NAME = EVIL[:90]
# What is left of it in the name of a tenant, which holds no control characters and no slash.
TENANT = re.sub(r"[\x00-\x1f\x7f/]", "", NAME).strip()


@pytest.fixture
def hostile(cli: Cli, make_app: MakeApp, conn: Connection) -> int:
    """Somebody may use SQL, and every text is theirs. Answers a run that has ended."""
    engine = Engine(conn)
    engine.job(NAME, queue=NAME)
    odd = {NAME: NAME}
    options = {"key": NAME, "tenant": TENANT, "tags": [NAME], "metadata": odd}
    run = engine.enqueue_run(NAME, odd, **options)["run_id"]
    engine.cancel(run, EVIL, EVIL)
    write(conn, EVIL, 0, run=run, job=NAME, tenant=TENANT, fields={EVIL: EVIL})
    conn.execute("SELECT rota.pause_queue(%s, reason => %s, actor => %s)", [NAME, EVIL, EVIL])
    engine.worker(NAME)
    conn.execute("UPDATE rota.workers SET host = %s, version = %s", [EVIL, EVIL])
    schedules = make_app().schedules.by(EVIL).sync
    schedules.create(NAME, NAME, every=3600, description=EVIL, tenant=TENANT)
    return int(run)


LOOKS: tuple[tuple[object, ...], ...] = (
    ("runs", "list"), ("runs", "list", "--absolute"), ("runs", "show", "RUN"), ("jobs", "list"),
    ("jobs", "show", NAME), ("queues", "list"), ("queues", "show", NAME), ("workers", "list"),
    ("schedules", "list"), ("schedules", "show", NAME, "--tenant", TENANT), ("audit", "list"),
    ("audit", "show", "ENTRY"), ("logs", "search"), ("logs", "show", "RUN"), ("top", "--once"),
    ("stats",),
    ("schedules", "history", NAME, "--tenant", TENANT), ("calendars", "list"),
)  # fmt: skip
DEEDS: tuple[tuple[object, ...], ...] = (
    ("schedules", "disable", NAME, "--tenant", TENANT), ("queues", "resume", NAME),
    ("schedules", "enable", NAME, "--tenant", TENANT, "--json"),
    ("queues", "pause", NAME, "--json"),
    ("schedules", "trigger", NAME, "--tenant", TENANT), ("jobs", "disable", NAME),
)  # fmt: skip
REFUSALS: tuple[tuple[object, ...], ...] = (
    ("jobs", "show", f"no {NAME}"), ("schedules", "show", f"no {NAME}"),
    ("runs", "enqueue", f"no {NAME}"), ("runs", "retry", "RUN", "--reason", EVIL, "--queue", EVIL),
    ("calendars", "show", EVIL), ("runs", "list", "--state", EVIL), ("config", "get", EVIL),
    ("runs", "enqueue", NAME, EVIL), ("worker", "--app", EVIL), ("logs", "search", "--level", EVIL),
    ("schedules", "create", EVIL, NAME, "--cron", EVIL),
)  # fmt: skip


def test_nothing_reaches_the_terminal_as_it_came(cli: Cli, hostile: int, conn: Connection) -> None:
    (entry,) = conn.execute("SELECT max(id) FROM rota.audit").fetchone() or (0,)
    for look in LOOKS:
        words = [{"RUN": hostile, "ENTRY": entry}.get(str(word), word) for word in look]
        result = cli.done(*words)
        check(result.out + result.err)
        assert "evil" in result.out or look[0] in ("calendars", "stats") or "history" in look
        document = cli.done(*words, "--json")
        check(document.out + document.err)
        json.loads(document.out)
    for deed in DEEDS:
        check("".join(cli.done(*deed)[1:]))


def test_documents_say_the_same_to_programs(cli: Cli, hostile: int) -> None:
    found = cli.done("runs", "show", hostile, "--json").json["run"]
    assert (found["job"], found["payload"]) == (NAME, {NAME: NAME})
    assert found["end_reason"].endswith(EVIL)


def test_errors_are_lines_of_ours_alone(
    cli: Cli, hostile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for debug in ("", "1"):
        monkeypatch.setenv("ROTA_DEBUG", debug)
        for words in REFUSALS:
            result = cli(*[hostile if word == "RUN" else word for word in words])
            assert result.code in (1, 2), (words, result)
            check(result.out + result.err)


def test_completion_offers_what_a_shell_can_show(cli: Cli, hostile: int) -> None:
    from rota.cli.terminal.names import job_names

    class Nowhere:
        def find_object(self, _: Any) -> None:
            return None

    assert NAME not in job_names(Nowhere(), "")  # type: ignore[arg-type]


HOSTILE_APP = """
import logging, structlog, rota
from threading import Thread
from tests.terminal import EVIL
app = rota.App()

def raising(message: str) -> None:
    logging.getLogger(EVIL).warning(message)
    structlog.get_logger().info(message, **{message: message})
    raise ValueError(message)

@app.job(name=EVIL[:90], max_attempts=1)
async def work(ctx: rota.Context, message: str) -> None:
    ctx.log.warning(message, **{message: message})
    thread = Thread(target=raising, name=message, args=[message])
    thread.start()
    thread.join()
    raising(message)

@app.job(name="child " + EVIL[:90], executor="process", max_attempts=1)
def child(ctx: rota.Context, message: str) -> None:
    ctx.log.warning(message, **{message: message})
    raising(message)
"""


def test_the_console_of_a_worker(cli: Cli, here: Path, conn: Connection) -> None:
    """A real process: what handlers bring, in its loop and in a child."""
    (here / "hostile_app.py").write_text(HOSTILE_APP)
    root = Path(__file__).parents[3]
    with (here / "output").open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "rota", "worker", "--app", "hostile_app.py"],
            cwd=here, stdout=output, stderr=subprocess.STDOUT,
            env=os.environ | {"PYTHONPATH": str(root)},
        )  # fmt: skip
        try:
            eventually_sync(lambda: b"worker started" in (here / "output").read_bytes(), 60)
            for name in (NAME, f"child {NAME}"):
                conn.execute("SELECT rota.enqueue(%s, %s)", [name, json.dumps({"message": EVIL})])
            ended = "SELECT count(*) FROM rota.ended_runs WHERE state = 'failed'"
            eventually_sync(lambda: conn.execute(ended).fetchone() == (2,), 60)
        finally:
            worker.terminate()
            worker.wait(60)
    shown = (here / "output").read_bytes().decode()
    check(shown)
    assert shown.count("structlog      evil") == 3
    assert shown.count("exception in thread evil") == 1
