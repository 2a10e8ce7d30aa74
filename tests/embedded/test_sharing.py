"""Several processes on one directory, and how each of them may end."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import psutil
import psycopg

from rota.embedded import EmbeddedPostgres
from tests.embedded.places import (
    User,
    eventually,
    is_alive,
    processes_of,
    server_pid,
    socket_dir,
)


def answers(url: str) -> bool:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT 1").fetchone() == (1,)


def watchdog_of(home: Path) -> psutil.Process:
    return next(p for p in processes_of(home) if "watchdog.py" in " ".join(p.cmdline()))


def test_the_second_joins_and_lives_on_when_the_first_ends(data: Path) -> None:
    first = User(data)
    url = first.url
    pid = server_pid(data)
    second = User(data)
    assert second.url == url
    first.end()
    assert answers(second.url)
    assert server_pid(data) == pid
    second.end()
    eventually(lambda: not is_alive(pid), "the server stops after its last user")


def test_the_second_lives_on_when_the_first_is_killed(data: Path) -> None:
    first, second = User(data), User(data)
    assert first.url == second.url
    pid = server_pid(data)
    first.kill()
    assert answers(second.url)
    second.kill()
    eventually(lambda: not is_alive(pid), "the server stops")


def test_kill_of_the_last_user_stops_the_server(place: Path, data: Path) -> None:
    user = User(data)
    assert answers(user.url)
    pid, sockets = server_pid(data), socket_dir(data)
    user.kill()
    eventually(lambda: not is_alive(pid), "the server stops after SIGKILL of its last user")
    eventually(lambda: not processes_of(place), "its watchdog ends too")
    assert not sockets.exists()
    log = (data / "server.log").read_text()
    assert "database system is shut down" in log


def test_a_user_killed_while_it_starts_the_server_leaves_none(place: Path) -> None:
    user = User(place / "data")
    eventually((place / "data" / "password").exists, "initdb begins")
    user.kill()
    with EmbeddedPostgres(place / "data", durable=False) as server:
        assert answers(server.url)


def test_many_start_at_once(place: Path) -> None:
    users = [User(place / "data") for _ in range(3)]
    assert len({user.url for user in users}) == 1
    for user in users:
        user.kill()


def test_another_temporary_directory_finds_the_same_socket(place: Path, data: Path) -> None:
    other = place / "tmp"
    other.mkdir()
    with EmbeddedPostgres(data, durable=False) as server:
        user = User(data, env={"TMPDIR": str(other)})
        assert user.url == server.url
        user.end()


def test_who_joins_replaces_a_watchdog_that_was_killed(data: Path) -> None:
    first = User(data)
    assert answers(first.url)
    pid = server_pid(data)
    watchdog_of(data).kill()
    eventually(lambda: len(processes_of(data)) == 2, "the watchdog is gone")
    second = User(data)
    assert answers(second.url)
    first.end()
    second.kill()
    eventually(lambda: not is_alive(pid), "the new watchdog stops the server")


def test_a_forked_child_holds_no_share(data: Path) -> None:
    server = EmbeddedPostgres(data, durable=False)
    server.start()
    pid = server_pid(server.home)
    child = os.fork()
    if child == 0:
        signal.pause()
        os._exit(0)
    try:
        server.stop()
        eventually(lambda: not is_alive(pid), "the server stops though the child lives")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_a_deleted_directory_does_not_keep_its_server(data: Path) -> None:
    user = User(data)
    assert answers(user.url)
    pid, sockets = server_pid(data), socket_dir(data)
    shutil.rmtree(data)
    user.end()
    eventually(lambda: not is_alive(pid), "the server stops")
    eventually(lambda: not sockets.exists(), "its socket directory is removed")


def test_a_server_that_was_killed_leaves_no_socket_and_is_followed_by_another(data: Path) -> None:
    user = User(data)
    assert answers(user.url)
    killed, sockets = server_pid(data), socket_dir(data)
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: not sockets.exists(), "its socket directory is removed")
    other = User(data)
    assert answers(other.url)
    pid = server_pid(data)
    assert pid != killed
    user.end()
    other.end()
    eventually(lambda: not is_alive(pid), "the other one stops")
    eventually(lambda: not sockets.exists(), "so is its own")


def test_a_directory_that_was_made_again_keeps_the_sockets_of_its_new_server(data: Path) -> None:
    user = User(data)
    assert answers(user.url)
    pid, watchdog = server_pid(data), watchdog_of(data).pid
    data.rename(data.with_name("gone"))
    other = User(data)
    assert other.url.rpartition("@")[2] == user.url.rpartition("@")[2]
    os.kill(pid, signal.SIGKILL)
    user.end()
    eventually(lambda: not is_alive(watchdog), "the old watchdog ends")
    assert answers(other.url)
    other.end()
