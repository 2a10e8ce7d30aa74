"""One process and its server: start, stop, what is kept, how it is set up."""

from __future__ import annotations

import os
import signal
import stat
import sys
import threading
from pathlib import Path

import asyncpg
import psycopg
import pytest

from rota.embedded import EmbeddedPostgres
from rota.embedded.accounts import server_account
from rota.errors import EmbeddedError
from tests.embedded.places import eventually, is_alive, server_pid, socket_dir
from tests.ports import free_port


def ask(url: str, query: str) -> object:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return row[0]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("setting", ["fsync", "synchronous_commit", "full_page_writes"])
def test_is_durable_by_default(running: EmbeddedPostgres, setting: str) -> None:
    assert ask(running.url, f"SHOW {setting}") == "on"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("listen_addresses", ""),
        ("timezone", "UTC"),
        ("server_encoding", "UTF8"),
        ("max_connections", "100"),
        ("shared_buffers", "128MB"),
        ("password_encryption", "scram-sha-256"),
    ],
)
def test_settings(running: EmbeddedPostgres, setting: str, value: str) -> None:
    assert ask(running.url, f"SHOW {setting}") == value


def test_the_role_has_another_name_than_the_schema(running: EmbeddedPostgres) -> None:
    query = "SELECT current_database() || ' ' || current_user"
    assert ask(running.url, query) == "rota rota_app"
    assert ask(running.superuser_url, query) == "rota postgres"


def test_the_application_is_no_superuser(running: EmbeddedPostgres) -> None:
    """Whoever can make it run SQL cannot write files, run programs or become another role."""
    with psycopg.connect(running.url, autocommit=True) as conn:
        for attempt in (
            "SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/rota-embedded-test')",
            "COPY (SELECT 1) TO PROGRAM 'true'",
            "COPY (SELECT 1) TO '/tmp/rota-embedded-test'",
            "SELECT pg_read_file('/etc/passwd')",
            "SET ROLE postgres",
            "CREATE ROLE another SUPERUSER",
            "ALTER SYSTEM SET archive_command = 'true'",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                conn.execute(attempt)


async def test_url_serves_asyncpg_too(running: EmbeddedPostgres) -> None:
    connection = await asyncpg.connect(running.url)
    try:
        assert await connection.fetchval("SELECT 1") == 1
    finally:
        await connection.close()


def test_a_password_is_needed(running: EmbeddedPostgres) -> None:
    password = (running.home / "password").read_text().strip()
    assert password in running.url
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(running.url.replace(password, "wrong"))
    methods = "SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules"
    assert ask(running.superuser_url, methods) == "scram-sha-256"


def test_files_are_closed_to_others(running: EmbeddedPostgres) -> None:
    assert mode(running.home / "password") == 0o600
    assert mode(running.home / "superuser-password") == 0o600
    assert mode(running.home) == 0o700
    assert mode(socket_dir(running.home)) == 0o700


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_environment_of_the_application_stays_with_it(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SECRET_AWS", "ROTA_SERVER_TOKEN", "PGPASSWORD", "PATH_TO_A_SECRET"):
        monkeypatch.setenv(name, "hunter2hunter2hunter2")
    with EmbeddedPostgres(data, durable=False) as server:
        environment = Path(f"/proc/{server_pid(server.home)}/environ").read_bytes()
    assert b"hunter2" not in environment
    assert b"PATH=" in environment
    program = server_account(data).run("env")  # what runs before the server starts
    assert "hunter2" not in program.stdout
    assert "PATH=" in program.stdout


def test_data_survives_a_restart(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.start()
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    first = server_pid(server.home)
    server.stop(wait_seconds=20)
    eventually(lambda: not is_alive(first), "the server stops")
    with EmbeddedPostgres(data, durable=False) as again:
        assert ask(again.url, "SELECT n FROM kept") == 42
        assert server_pid(again.home) != first


def test_settings_can_be_given_and_fsync_turned_off(data: Path) -> None:
    settings = {"max_connections": "17", "port": str(free_port())}
    with EmbeddedPostgres(data, durable=False, settings=settings) as server:
        assert ask(server.url, "SHOW port") == settings["port"]
        assert ask(server.url, "SHOW fsync") == "off"
        assert ask(server.url, "SHOW max_connections") == "17"


def test_start_and_stop_may_be_repeated(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.stop()
    server.start()
    server.start()
    pid, sockets = server_pid(server.home), socket_dir(server.home)
    server.stop()
    server.stop()
    eventually(lambda: not is_alive(pid), "the server stops")
    eventually(lambda: not sockets.exists(), "its socket directory is removed")
    server.start()
    assert ask(server.url, "SELECT 1") == 1
    server.stop()


def test_start_right_after_stop_does_not_meet_the_dying_server(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    for _ in range(5):
        server.start()
        assert ask(server.url, "SELECT 1") == 1
        server.stop()


def test_two_objects_of_one_process_have_a_share_each(place: Path) -> None:
    first, second = (EmbeddedPostgres(place / "data", durable=False) for _ in range(2))
    starts = [threading.Thread(target=server.start) for server in (first, second)]
    for start in starts:
        start.start()
    for start in starts:
        start.join()
    assert first.url == second.url
    first.stop()
    assert ask(second.url, "SELECT 1") == 1
    second.stop()


def test_no_url_before_the_start(place: Path) -> None:
    with pytest.raises(EmbeddedError, match=r"start\(\)"):
        _ = EmbeddedPostgres(place / "data").url


def test_a_server_that_crashed_is_started_again(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.start()
    pid = server_pid(server.home)
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not is_alive(pid), "the server is dead")
    with server:
        assert server_pid(server.home) != pid
        assert ask(server.url, "SELECT 1") == 1


def test_a_recorded_pid_of_somebody_else_is_not_the_server(data: Path) -> None:
    """As after the restart of a container, where small numbers come again."""
    server = EmbeddedPostgres(data, durable=False)
    server.start()
    record = (server.home / "cluster" / "postmaster.pid").read_text()
    server.stop(wait_seconds=20)
    stale = record.replace(record.split("\n")[0], str(os.getpid()), 1)
    (server.home / "cluster" / "postmaster.pid").write_text(stale)
    with server:
        assert ask(server.url, "SELECT 1") == 1


def test_an_interrupted_initdb_is_no_obstacle(place: Path) -> None:
    half_made = place / "data" / "cluster.new"
    half_made.mkdir(parents=True)
    (half_made / "PG_VERSION").write_text("18\n")
    (place / "data" / "start.lock").touch()
    with EmbeddedPostgres(place / "data", durable=False) as server:
        assert ask(server.url, "SELECT 1") == 1
        assert not half_made.exists()
