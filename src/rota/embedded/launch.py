"""Starts `postgres`, as the child of a watchdog that outlives this process and reaps it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rota.embedded.accounts import server_environment
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


@dataclass(frozen=True)
class Launch:
    """A server that is starting: where its socket will be, where its log begins."""

    socket_dir: Path
    log_offset: int


def log_error(home: Home, what: str, offset: int = 0) -> EmbeddedError:
    """Return an error that quotes the last lines of the server's log."""
    written = home.log_file.read_bytes()[offset:] if home.log_file.exists() else b""
    lines = written.decode(errors="replace").splitlines()[-15:]
    ending = "\n".join(lines) or "(nothing)"
    return EmbeddedError(f"the embedded Postgres {what}; {home.log_file} ends with:\n{ending}")


def launch(
    home: Home,
    binaries: Binaries,
    running: FileLock,
    *,
    durable: bool,
    is_new: bool,
    settings: Mapping[str, str],
) -> Launch:
    """Start the server, which inherits the `running` lock and holds it while it runs."""
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
    """Start the watchdog; without a command it watches a server that runs already."""
    # Created here, so that root does not create it at the moment when the watchdog opens it.
    home.lock("watchdog").close()
    inherited = running.descriptor if running else -1
    account = home.account
    arguments = [home.path, socket_dir, account.uid, account.gid, inherited, int(sync)]
    log = os.open(home.log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        home.account.give(log)
        # The watchdog drops root itself, after its start: the account may not be able to reach this
        # Python.
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
    # postgres believes in any process with the recorded pid, even a zombie or an unrelated process
    # that got the number after a restart of the container. This process holds the `running` lock,
    # so it is not our server; only for a server that was started by hand the file stays, and
    # postgres itself refuses to start.
    try:
        pid = int(home.postmaster_file.read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return
    if not _is_server(pid, home.cluster):
        home.postmaster_file.unlink(missing_ok=True)


def _is_server(pid: int, cluster: Path) -> bool:
    if sys.platform == "linux":
        # The current directory of a server is its data directory; a zombie has none.
        try:
            return Path(os.readlink(f"/proc/{pid}/cwd")) == cluster
        except OSError:
            return False
    answer = subprocess.run(
        ["ps", "-o", "stat=,comm=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, command = answer.stdout.strip().partition(" ")
    return "postgres" in command and not state.startswith("Z")
