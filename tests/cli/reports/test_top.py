from __future__ import annotations

import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from fcntl import ioctl
from functools import partial
from io import StringIO
from termios import TIOCSWINSZ
from typing import Any

import psycopg
import pytest
from rich.console import Console

import rota
from rota.cli.reports.top_view import Inflow, Picture, share
from rota.model.overview import Overview, QueueRate
from rota.model.queue import QueueInfo
from tests.cli.conftest import Cli

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.fixture
def busy(make_app: Any, conn: Connection) -> rota.App:
    """Runs that wait, run and fail, a worker, a schedule."""
    app: rota.App = make_app()

    @app.job(queue="mail", max_attempts=1)
    async def send() -> None: ...

    app.schedule("digest", send, every=3600)
    assert app.database.url
    conn.execute("UPDATE rota.schedules SET next_run_at = now() + interval '1 hour'")
    for _ in range(3):
        app.runs.sync.enqueue("send")
    row = conn.execute(
        "SELECT rota.register_worker('w', 'box', 7, '1.0', '{}', '{send}', 4, 3000)"
    ).fetchone()
    assert row is not None
    conn.execute("SELECT rota.claim_runs(%s, 1, '{mail}', 1, '{send}', '{}')", row)
    conn.execute(
        "SELECT rota.add_tallies(%s, '{send}', '{mail}', '{failed}', '{5}', '{1}', '{1}', '{0}')",
        row,
    )
    return app


def test_workers_show_the_release_of_the_application(
    cli: Cli, busy: rota.App, conn: Connection
) -> None:
    for command in (("top", "--once"), ("workers", "list")):
        text = cli.done(*command).out
        assert "RELEASE" not in text
        assert "VERSION" not in text
    conn.execute("SELECT rota.register_worker('v', 'box', 8, '1.1', '{}', '{send}', 4, 3000)")
    conn.execute("UPDATE rota.workers SET release = 'shop-42' WHERE name = 'w'")
    for command in (("top", "--once"), ("workers", "list")):
        lines = cli.done(*command).out.splitlines()
        head = next(line for line in lines if "RELEASE" in line)
        release, version = head.index("RELEASE"), head.index("VERSION")
        rows = [line for line in lines if " box " in line]
        shown = {(row[release:version].strip(), row[version : version + 4].strip()) for row in rows}
        assert shown == {("shop-42", "1.0"), ("", "1.1")}


def test_a_paused_queue_says_for_how_long(cli: Cli, busy: rota.App, conn: Connection) -> None:
    conn.execute("SELECT rota.pause_queue('mail', until => rota.now() + interval '3 hours')")
    text = cli.done("top", "--once").out
    assert "h" in text.partition("mail   paused, ")[2].partition(" left")[0]


def test_one_look_shows_everything(cli: Cli, busy: rota.App) -> None:
    text = cli.done("top", "--once").out
    lines = [line.split() for line in text.splitlines()]
    assert "2 queued" in text
    assert "1/4 slots" in text
    assert next(line for line in lines if line[:2] == ["mail", "open"])[2] == "2"
    assert any(line[1:3] == ["live", "1/4"] and "box" in line for line in lines if line)
    assert "RUNNING LONGEST" in text
    assert ["send", "5", "5"] in lines
    assert any("digest" in line for line in lines)
    assert "\x1b" not in text


def test_as_json(cli: Cli, busy: rota.App) -> None:
    found = cli.done("top", "--once", "--json").json
    assert (found["queues"][0]["queue"]["queued"], len(found["running"])) == (2, 1)
    assert found["failing"][0]["failures"] == 5
    assert found["schedules"][0]["name"] == "digest"


def test_an_empty_place(cli: Cli) -> None:
    text = cli.done("top", "--once").out
    for words in (
        "no queues",
        "start one with `rota worker`",
        "nothing is running",
        "nothing failed",
    ):
        assert words in text


def test_wrong_use(bare_cli: Cli) -> None:
    assert bare_cli("top", "--interval", "1ms").code == 2
    assert bare_cli("top", "--interval", "soon").code == 2
    assert bare_cli("top", "--rows", "0").code == 2


def test_the_database_away_at_the_start(bare_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROTA_DATABASE_URL", "postgresql://localhost:1/none")
    code, out, err = bare_cli("top", "--once")
    assert (code, out) == (1, "")
    assert "hint: is the database running?" in err


# The picture.


def queue(name: str, queued: int, counted: float = 0) -> QueueRate:
    return QueueRate(
        QueueInfo(name, 0, 0, queued, 0, 0, None, counted, 1, True, False, None, None, None), 2.0
    )


def overview(at: float, *queues: QueueRate) -> Overview:
    return Overview(datetime.fromtimestamp(at, UTC), list(queues), [], [], [], [])


def test_what_comes_in_is_what_ended_and_what_the_line_grew_by() -> None:
    inflow = Inflow()
    inflow.learn(overview(100, queue("a", 10)))
    assert inflow.rates == {}
    inflow.learn(overview(110, queue("a", 40)))
    assert inflow.rates == {"a": 5.0}
    # Counted at the same moment as before: nothing new is known.
    inflow.learn(overview(115, queue("a", 40, counted=5)))
    assert inflow.rates == {"a": 5.0}


def test_rows_are_shared_by_need() -> None:
    assert share([100, 2, 0], 10) == [8, 2, 0]
    assert share([5, 5], 4) == [2, 2]
    assert share([1, 1], 50) == [1, 1]
    assert share([3], -2) == [0]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 12), (200, 60)])
def test_a_thousand_queues_fit_any_terminal(width: int, height: int) -> None:
    seen = overview(0, *(queue(f"queue-with-a-long-name-{i}", 1000 - i) for i in range(1000)))
    out = Console(width=width, height=height, file=StringIO(), force_terminal=True)
    options = out.options.update(width=width, height=height)
    lines = out.render_lines(Picture(seen, Inflow(), 300), options, pad=False)
    assert len(lines) <= height
    texts = ["".join(part.text for part in line) for line in lines]
    assert all(len(text) <= width for text in texts)
    assert any("more)" in text for text in texts)


# In a terminal.


class Terminal:
    """A program in a pseudo-terminal, and what it has drawn."""

    def __init__(self, url: str, *arguments: str) -> None:
        self._parent, child = pty.openpty()
        self.resize(24, 80)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rota", "top", *arguments],
            stdin=child, stdout=child, stderr=child, start_new_session=True,
            env={**os.environ, "ROTA_DATABASE_URL": url, "TERM": "xterm"},
            # Tests in a shell's background inherit that Ctrl-C is ignored; a terminal does not.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip
        os.close(child)
        self.drawn = ""

    def resize(self, lines: int, columns: int) -> None:
        ioctl(self._parent, TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def wait_for(self, *words: str) -> None:
        """Until all are drawn that were not before."""
        self.drawn, deadline = "", time.monotonic() + 60
        while not all(word in self.drawn for word in words):
            assert time.monotonic() < deadline, self.drawn[-3000:]
            ready, _, _ = select.select([self._parent], [], [], 1)
            if ready:
                self.drawn += os.read(self._parent, 65536).decode("utf-8", "replace")

    def press(self, key: str) -> None:
        os.write(self._parent, key.encode())

    def interrupt(self) -> None:
        """As Ctrl-C does to what a terminal controls."""
        self._process.send_signal(signal.SIGINT)

    def wait(self) -> int:
        """The exit code; what is drawn meanwhile is read, or it could not end."""
        deadline = time.monotonic() + 30
        while self._process.poll() is None and time.monotonic() < deadline:
            ready, _, _ = select.select([self._parent], [], [], 0.1)
            if ready:
                try:
                    os.read(self._parent, 65536)
                except OSError:
                    break
        return self._process.wait(120)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._parent)


@pytest.fixture
def terminal(database_url: str) -> Iterator[Terminal]:
    it = Terminal(database_url, "--interval", "200ms")
    yield it
    it.close()


def test_live_until_q(terminal: Terminal, busy: rota.App) -> None:
    terminal.wait_for("QUEUES", "mail", "WORKERS", "box", "digest", "q: quit")
    terminal.resize(12, 60)
    terminal.wait_for("QUEUES")
    terminal.press("q")
    assert terminal.wait() == 0


def test_ctrl_c_ends_it_with_0(terminal: Terminal, busy: rota.App) -> None:
    terminal.wait_for("QUEUES")
    terminal.interrupt()
    assert terminal.wait() == 0


def test_a_database_that_restarts(terminal: Terminal, busy: rota.App, conn: Connection) -> None:
    terminal.wait_for("QUEUES", "mail")
    name = conn.info.dbname
    conn.execute("UPDATE pg_database SET datallowconn = false WHERE datname = %s", [name])
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'rota'"
    )
    terminal.wait_for("database unavailable", "mail")
    conn.execute("UPDATE pg_database SET datallowconn = true WHERE datname = %s", [name])
    terminal.wait_for("QUEUES", "slots")
    terminal.press("q")
    assert terminal.wait() == 0


def test_into_a_pipe_one_picture_follows_the_other(database_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "rota", "top", "--interval", "100ms", "--json"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "ROTA_DATABASE_URL": database_url},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert [json.loads(process.stdout.readline())["queues"] for _ in range(2)] == [[], []]
        process.terminate()
