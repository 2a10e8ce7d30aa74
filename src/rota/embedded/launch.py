"""Starts `postgres`, as the child of a watchdog that outlives us and reaps it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.embedded.binaries import Binaries
from rota.embedded.locks import FileLock
from rota.embedded.paths import PORT, Home, make_socket_dir
from rota.errors import EmbeddedError

_WATCHDOG = Path(__file__).resolve().with_name("watchdog.py")
_SETTINGS = {
    "listen_addresses": "",  # no TCP: nothing to collide with, nothing to reach from outside
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
    "logging_collector": "off",
}
_NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
_LOG_BYTES = 10_000_000
# How programs and libraries are found, and where temporary files go.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_", "TMPDIR", "SYSTEMROOT")


@dataclass(frozen=True)
class Launch:
    """A server that was asked to start: where its socket will be, where its log begins."""

    socket_dir: Path
    log_offset: int


def log_error(home: Home, what: str, offset: int = 0) -> EmbeddedError:
    """An error that quotes what the server has written last."""
    written = home.log_file.read_bytes()[offset:] if home.log_file.exists() else b""
    lines = written.decode(errors="replace").splitlines()[-15:]
    said = "\n".join(lines) or "(nothing)"
    return EmbeddedError(f"the embedded Postgres {what}; {home.log_file} ends with:\n{said}")


def server_environment() -> dict[str, str]:
    """What the server's programs need to start, and nothing else: secrets of the application do not
    belong in it, and PGDATA, PGPORT, the host's language and zone would change the server."""
    kept = {name: value for name, value in os.environ.items() if name.startswith(_KEPT)}
    return kept | {"LC_ALL": "C"}


def launch(
    home: Home,
    binaries: Binaries,
    running: FileLock,
    *,
    durable: bool,
    is_new: bool,
    settings: Mapping[str, str],
) -> Launch:
    """Start the server, which inherits the `running` lock and so holds it while it lives."""
    _clear_stale_pid(home)
    socket_dir = make_socket_dir(home)
    chosen = _SETTINGS | ({} if durable else _NOT_DURABLE) | dict(settings)
    chosen["unix_socket_directories"] = str(socket_dir)
    command = [str(binaries.postgres), "-D", str(home.cluster)]
    for name, value in chosen.items():
        command += ["-c", f"{name}={value}"]
    if home.log_file.exists() and home.log_file.stat().st_size > _LOG_BYTES:
        home.log_file.replace(home.log_file.with_suffix(".log.old"))
    offset = home.log_file.stat().st_size if home.log_file.exists() else 0
    start_watchdog(home, socket_dir, running, command, sync=durable and is_new)
    return Launch(socket_dir, offset)


def start_watchdog(
    home: Home,
    socket_dir: Path,
    running: FileLock | None = None,
    command: list[str] | None = None,
    *,
    sync: bool = False,
) -> None:
    """Without a command the watchdog takes care of a server that runs already."""
    # Made here, so that it cannot happen that root makes it just as the watchdog wants to open it.
    home.lock("watchdog").close()
    inherited = running.descriptor if running else -1
    account = home.account
    arguments = [home.path, socket_dir, account.uid, account.gid, inherited, int(sync)]
    log = os.open(home.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        home.account.give(log)
        # It drops root itself, after its start: the account may not be able to reach this Python.
        process = subprocess.run(
            [sys.executable, "-I", "-S", _WATCHDOG, *map(str, arguments), *(command or [])],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            pass_fds=[inherited] if running else [],
            env=server_environment(),
            cwd="/",
            start_new_session=True,
            check=False,
        )
    finally:
        os.close(log)
    if process.returncode != 0:
        raise log_error(home, f"could not start its watchdog (status {process.returncode})")


def _clear_stale_pid(home: Home) -> None:
    # postgres believes in any process with the recorded pid, also a zombie or a stranger that got
    # the number after a restart of the container. We hold the `running` lock, so it is not our
    # server; only one that somebody started by hand is left there, for postgres itself to refuse.
    try:
        pid = int(home.postmaster_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    if not _is_server(pid, home.cluster):
        home.postmaster_file.unlink(missing_ok=True)


def _is_server(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        # A server works inside its data directory, and a zombie works nowhere.
        try:
            return Path(os.readlink(f"/proc/{pid}/cwd")) == cluster
        except OSError:
            return False
    answer = subprocess.run(
        ["ps", "-o", "stat=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, command = answer.stdout.strip().partition(" ")
    return "postgres" in command and not state.startswith("Z")
