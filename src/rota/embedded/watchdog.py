"""Stops an embedded server when its last user is gone. Run as a script, never imported.

    watchdog.py HOME UID GID RUNNING_FD SYNC [POSTGRES ARGUMENT ...]

Every process that uses the server holds a shared lock on `users.lock`; the kernel drops it when the
process ends, however it ends. The watchdog waits for the exclusive one. It is the parent of the
server, so that a server that has ended is reaped and not taken for a live one. It uses the standard
library's smallest part only, because it may give up the rights to read the rest.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time

# A fast shutdown writes a checkpoint; what takes longer than this is stuck.
PATIENCE_SECONDS = 60.0


def main(home: str, uid: int, gid: int, running: int, sync: bool, command: list[str]) -> None:
    if os.fork():
        os._exit(0)  # whoever called us must not have to reap us
    become(uid, gid)
    server = launch(command, running) if command else 0
    if sync:
        os.sync()  # initdb left it out for a quick start
    # A second watchdog waits here and takes over if the first one is killed.
    acquire(home, "watchdog")
    ended, stopping = threading.Event(), threading.Event()
    arguments = (home, server, ended, stopping)
    stopper = threading.Thread(target=stop_after_last_user, args=arguments, daemon=True)
    stopper.start()
    acquire(home, "running")
    ended.set()
    if stopping.is_set():
        stopper.join()
    os._exit(0)


def become(uid: int, gid: int) -> None:
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)


def launch(command: list[str], running: int) -> int:
    pid = os.fork()
    if pid:
        os.close(running)  # from here on only the server holds it
        return pid
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execv(command[0], command)
    except OSError as error:
        sys.stderr.write(f"cannot run {command[0]}: {error.strerror}\n")
    os._exit(127)


def acquire(home: str, name: str, *, wait: bool = True) -> int | None:
    """The descriptor that holds the lock alone; None if it is taken and we do not wait."""
    path = os.path.join(home, f"{name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def stop_after_last_user(
    home: str, server: int, ended: threading.Event, stopping: threading.Event
) -> None:
    wait_for_last_user(home)
    stopping.set()
    socket_dir = postmaster_line(home, 4)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        ask_to_stop(home, server, signal.SIGINT if time.monotonic() < deadline else signal.SIGQUIT)
        if ended.wait(0.5):
            break
    if socket_dir:
        remove(socket_dir)


def wait_for_last_user(home: str) -> None:
    """Returns under the start lock, so that nobody can begin to use what we are about to stop."""
    while True:
        users = acquire(home, "users")
        # Let go before the start lock: whoever starts takes them in the other order.
        os.close(users or 0)
        start = acquire(home, "start")
        if acquire(home, "users", wait=False) is not None:
            return
        os.close(start or 0)


def ask_to_stop(home: str, server: int, number: signal.Signals) -> None:
    pid = server or int(postmaster_line(home, 0) or 0)
    if pid > 0:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def postmaster_line(home: str, number: int) -> str:
    try:
        with open(os.path.join(home, "cluster", "postmaster.pid")) as file:
            return file.read().split("\n")[number].strip()
    except (OSError, IndexError):
        return ""


def remove(directory: str) -> None:
    with contextlib.suppress(OSError):  # somebody else put a file there: not ours to delete
        os.rmdir(directory)


if __name__ == "__main__":
    main(
        sys.argv[1],
        int(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        sys.argv[5] == "1",
        sys.argv[6:],
    )
