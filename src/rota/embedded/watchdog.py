"""Stops an embedded server when its last user is gone. Run as a script, never imported.

    watchdog.py HOME SOCKET_DIR UID GID RUNNING_FD SYNC [POSTGRES ARGUMENT ...]

Every process that uses the server holds a shared lock on `users.lock`; the kernel drops it when the
process ends, however it ends. The watchdog waits for the exclusive one. It is the parent of the
server, so that a server that has ended is reaped and not taken for a live one. It imports all it
needs at once, because it then gives up the rights that it may need to read more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
import time
from typing import NoReturn

# A fast shutdown writes a checkpoint; what takes longer than this is stuck.
PATIENCE_SECONDS = 60.0


def main(home: str, socket_dir: str, uid: int, gid: int, running: int, rest: list[str]) -> NoReturn:
    if os.fork():
        os._exit(0)  # the caller must not have to reap this process
    become(uid, gid)
    must_sync, command = rest[0] == "1", rest[1:]
    server = launch(command, running) if command else 0
    if must_sync:  # initdb skipped it for a quick start
        threading.Thread(target=os.sync, daemon=True).start()
    watch(home, socket_dir, server)
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
        sys.stderr.flush()
    os._exit(127)


def watch(home: str, socket_dir: str, server: int) -> None:
    """Return when the server has ended, stopped by the watchdog or by itself."""
    # A second watchdog waits here, and takes over if the first one is killed.
    acquire(home, "watchdog")
    ended = threading.Event()
    threading.Thread(target=stop_after_last_user, args=(home, server, ended), daemon=True).start()
    running = acquire(home, "running")
    ended.set()
    # No process starts another server while this one holds the lock, unless the directory was
    # deleted and created again: then the sockets belong to its new server.
    if not is_replaced(home, "running", running):
        remove(socket_dir)


def stop_after_last_user(home: str, server: int, ended: threading.Event) -> None:
    with contextlib.suppress(OSError):  # the whole directory was deleted: stop all the same
        wait_for_last_user(home)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not ended.is_set():
        ask_to_stop(home, server, signal.SIGINT if time.monotonic() < deadline else signal.SIGQUIT)
        ended.wait(0.5)


def wait_for_last_user(home: str) -> None:
    """Return under the start lock, so that no process can begin to use the server before it
    stops."""
    while True:
        # Released before taking the start lock: a starting process takes the two in the other
        # order.
        os.close(acquire(home, "users"))
        start = acquire(home, "start")
        with contextlib.suppress(BlockingIOError):
            acquire(home, "users", fcntl.LOCK_NB)
            return
        os.close(start)


def acquire(home: str, name: str, flags: int = 0) -> int:
    """Return the descriptor that holds the lock exclusively; closing it releases the lock."""
    path = os.path.join(home, f"{name}.lock")
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | flags)
    except BlockingIOError:
        os.close(descriptor)
        raise
    return descriptor


def is_replaced(home: str, name: str, descriptor: int) -> bool:
    """Return whether the name now belongs to another file than the one whose lock is held."""
    try:
        there = os.stat(os.path.join(home, f"{name}.lock"))
    except OSError:
        return False
    return not os.path.samestat(there, os.fstat(descriptor))


def ask_to_stop(home: str, server: int, number: signal.Signals) -> None:
    # The pid may differ from the server started here: a user may have started another after that
    # one was killed. After the directory was deleted, only our own is known.
    try:
        pid = recorded_pid(home)
    except (OSError, ValueError):
        pid = server
    with contextlib.suppress(OSError):
        if pid:
            os.kill(pid, number)


def recorded_pid(home: str) -> int:
    with open(os.path.join(home, "cluster", "postmaster.pid")) as file:
        return int(file.readline())


def remove(socket_dir: str) -> None:
    # A server that was killed leaves its socket.
    with contextlib.suppress(OSError):
        for name in os.listdir(socket_dir):
            os.unlink(os.path.join(socket_dir, name))
        os.rmdir(socket_dir)


if __name__ == "__main__":
    _, home, socket_dir, uid, gid, running, *rest = sys.argv
    main(home, socket_dir, int(uid), int(gid), int(running), rest)
