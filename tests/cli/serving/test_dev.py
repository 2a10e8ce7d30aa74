"""`rota dev` as a process: banner, reload, and its end."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from rota.cli.serving.reload import snapshot
from rota.testing import eventually_sync
from tests.cli.conftest import Cli
from tests.ports import free_port

Connection = psycopg.Connection[tuple[Any, ...]]

SHOP = """
import rota
app = rota.App()

@app.job
async def version() -> int:
    return 1
"""


class Dev:
    """A started `rota dev`, with its output in a file."""

    def __init__(self, place: Path, *arguments: str) -> None:
        self._place = place
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "rota", "dev", *arguments],
            cwd=place, stdout=self._output, stderr=subprocess.STDOUT, env=os.environ,
        )  # fmt: skip

    @property
    def output(self) -> str:
        self._output.seek(0)
        return self._output.read().decode()

    def wait_for(self, words: str, count: int = 1) -> None:
        def said() -> None:
            assert self.output.count(words) >= count, self.output

        eventually_sync(said, 30)

    def ask(self, *arguments: str) -> str:
        """What another command says in its directory."""
        return subprocess.run(
            [sys.executable, "-P", "-m", "rota", *arguments],
            cwd=self._place, capture_output=True, text=True, check=True, env=os.environ,
        ).stdout  # fmt: skip

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)
        self._output.close()


@pytest.fixture
def dev(here: Path) -> Iterator[Callable[..., Dev]]:
    started: list[Dev] = []

    def start(*arguments: str) -> Dev:
        started.append(Dev(here, *arguments))
        return started[-1]

    yield start
    for one in started:
        one.close()


def write(path: Path, text: str) -> None:
    """With another time than before, on any file system."""
    before = path.stat().st_mtime_ns if path.exists() else 0
    path.write_text(text)
    os.utime(path, ns=(before + 10**9, before + 10**9))


@pytest.mark.slow
def test_it_migrates_reloads_survives_errors_and_stops(
    cli: Cli, here: Path, dev: Callable[..., Dev], conn: Connection
) -> None:
    conn.execute("DROP SCHEMA rota CASCADE")
    shop = here / "dev_shop.py"
    write(shop, SHOP)
    port = free_port()
    program = dev("dev_shop.py", "--port", str(port))
    program.wait_for("worker started")
    assert f"http://127.0.0.1:{port}/?token=" in program.output
    assert "application  dev_shop:app, 1 job\n" in program.output
    assert re.search(r", \d+ migrations? applied", program.output)
    assert "password" not in program.output
    ask = ("runs", "enqueue", "version", "--wait", "--timeout", "20s")
    assert cli.done(*ask).out == "1\n"

    write(shop, SHOP.replace("return 1", "return 2"))
    program.wait_for("worker started", 2)
    assert "dev_shop.py changed" in program.output
    assert cli.done(*ask).out == "2\n"

    write(shop, "import rota\nx = (\n")
    program.wait_for("waiting for a code change")
    assert "SyntaxError" in program.output
    write(shop, SHOP.replace("return 1", "return 3"))
    program.wait_for("worker started", 3)
    assert cli.done(*ask).out == "3\n"

    program.process.send_signal(signal.SIGINT)
    assert program.process.wait(120) == 0
    assert conn.execute("SELECT DISTINCT state FROM rota.workers").fetchall() == [("gone",)]


@pytest.mark.slow
def test_only_the_user_who_started_it_gets_in(
    cli: Cli, here: Path, dev: Callable[..., Dev]
) -> None:
    """Every user of the machine can connect to the port."""
    leak = "import os\n" + SHOP.replace("return 1", "return int('ROTA_DEV_TOKEN' in os.environ)")
    write(here / "dev_shared.py", leak)
    (here / "pyproject.toml").touch()
    tokens = []
    for _ in range(2):
        program = dev("dev_shared.py", "--port", str(port := free_port()))
        program.wait_for("worker started")
        place = f"http://127.0.0.1:{port}"
        file = here / ".rota" / "token"
        tokens.append(token := file.read_text().strip())
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert f"{place}/?token={token}\n" in program.output
        for path in ("/api/v1/runs", "/metrics", "/api/openapi.json", "/api/v1/stream"):
            assert httpx.get(place + path).status_code == 401
        assert httpx.post(f"{place}/api/v1/watches", json={}).status_code == 401
        for path in ("/", "/runs", "/?token=x", f"/?token={tokens[0]}x"):
            assert "/sign-in" in httpx.get(place + path, follow_redirects=True).url.path
        bearer = {"Authorization": f"Bearer {token}"}
        assert httpx.get(f"{place}/api/v1/runs", headers=bearer).status_code == 200
        with httpx.Client(base_url=place) as browser:
            assert browser.get(f"/runs?token={token}&q=1").headers["location"] == "/runs?q=1"
            assert browser.get("/runs").status_code == 200
            write(here / "dev_shared.py", leak)
            program.wait_for("worker started", 2)
            assert browser.get("/runs").status_code == 200
        ask = ("runs", "enqueue", "version", "--wait", "--timeout", "20s")
        assert cli.done(*ask).out == "0\n"
        program.close()
    assert tokens[0] != tokens[1]


@pytest.mark.slow
def test_the_program_ends_with_its_supervisor(
    cli: Cli, here: Path, dev: Callable[..., Dev], conn: Connection
) -> None:
    write(here / "dev_orphan.py", SHOP)
    program = dev("--app", "dev_orphan")
    program.wait_for("worker started")
    program.process.kill()
    program.process.wait()
    program.wait_for("worker stopped")
    eventually_sync(lambda: conn.execute("SELECT state FROM rota.workers").fetchone() == ("gone",))


@pytest.mark.slow
def test_no_reload_is_one_process(
    cli: Cli, here: Path, dev: Callable[..., Dev], conn: Connection
) -> None:
    write(here / "dev_plain.py", SHOP)
    port = free_port()
    program = dev("dev_plain.py", "--no-reload", "--port", str(port))
    program.wait_for("worker started")
    assert f"http://127.0.0.1:{port}/?token=" in program.output
    row = conn.execute("SELECT pid FROM rota.workers").fetchone()
    assert row == (program.process.pid,)
    assert "reload       off" in program.output
    program.process.send_signal(signal.SIGTERM)
    assert program.process.wait(120) == 0


@pytest.mark.slow
def test_without_a_database_it_makes_one(bare_cli: Cli, dev: Callable[..., Dev]) -> None:
    # Not pytest's directory: as root its parents are closed to the account of the server.
    with tempfile.TemporaryDirectory(prefix="rota-dev-") as name:
        place = Path(name)
        place.chmod(0o711)
        (place / "pyproject.toml").write_text("")
        write(place / "dev_embedded.py", SHOP)
        program = Dev(place, "dev_embedded.py")
        try:
            program.wait_for("worker started")
            assert "embedded Postgres in .rota/postgres" in program.output
            assert "PGPASSWORD=$(cat .rota/postgres/password) psql" in program.output
            password = (place / ".rota/postgres/password").read_text().strip()
            assert password not in program.output
            assert "database=" in program.output
            assert "jobs=version" in program.output
            asked = program.ask("config", "get", "database_url")
            assert "dbname=rota host=" in asked
            assert password not in asked
            assert f":{password}@" in program.ask("config", "get", "database_url", "--reveal")
            assert program.ask("psql", "-X", "-Atc", "SELECT count(*) FROM rota.runs") == "0\n"
        finally:
            program.close()
        eventually_sync(lambda: not (place / ".rota/postgres/cluster/postmaster.pid").exists(), 30)


def test_wrong_use(bare_cli: Cli) -> None:
    for flags in ((), ("--no-reload",)):
        assert bare_cli("dev", "nothing_here.py", *flags).code == 2


def test_what_is_watched(tmp_path: Path) -> None:
    for name in ("a.py", "sub/b.py", ".hidden/c.py", "__pycache__/d.py", "venv/e.py", "f.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "venv/pyvenv.cfg").write_text("")
    assert {os.path.relpath(path, tmp_path) for path in snapshot([tmp_path])} == {
        "a.py",
        "sub/b.py",
    }


def test_without_an_application_it_serves_sql_jobs(
    cli: Cli, dev: Callable[..., Dev], conn: Connection
) -> None:
    conn.execute(
        "CREATE FUNCTION public.hello() RETURNS jsonb LANGUAGE sql AS"
        ' $$ SELECT \'{"success": true, "message": "hello"}\'::jsonb $$'
    )
    conn.execute(
        "INSERT INTO rota.jobs (name, kind, function_name) VALUES ('hello', 'sql', 'public.hello')"
    )
    program = dev()
    program.wait_for("worker started")
    assert "application  none: SQL jobs only" in program.output
    result = cli.done("runs", "enqueue", "hello", "--wait", "--timeout", "20s", "--json")
    assert '"succeeded"' in result.out
