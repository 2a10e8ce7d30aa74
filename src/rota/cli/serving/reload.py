"""`rota dev` restarts its program when the code changes.

A supervisor watches the files and starts the program as its child. It also keeps a share of the
embedded server, so that the database and its connections survive a restart.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rota.cli.serving import dev_token
from rota.cli.terminal.output import remark

if TYPE_CHECKING:
    from rota.embedded import EmbeddedPostgres

VARIABLE = "ROTA_DEV"
_LOOK_SECONDS = 0.1
_WATCH_SECONDS = 0.4
# The time for running attempts before they are interrupted and handed back: the developer is
# waiting.
_PATIENCE_SECONDS = 3.0
_SKIPPED = {"__pycache__", "node_modules"}
_FILES = 10_000


class Reloader:
    """Starts the program, and restarts it when a file has changed."""

    def __init__(self, command: Sequence[str], roots: Sequence[Path]) -> None:
        self._command = list(command)
        self._roots = list(roots)
        self._seen = snapshot(self._roots)
        self._watch_at = 0.0
        self._child: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._server: EmbeddedPostgres | None = None
        self._starts = 0
        self._signals = 0
        self._token = dev_token.take()

    def run(self) -> int:
        stops = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self._on_signal) for number in stops}
        try:
            self._start()
            while not self._signals:
                self._look()
                time.sleep(_LOOK_SECONDS)
            return self._stop()
        finally:
            self._kill()
            if self._server is not None:
                self._server.stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _look(self) -> None:
        self._hear()
        if self._child is not None and self._child.poll() is not None:
            remark(f"the program exited ({self._child.returncode}); waiting for a code change")
            self._child = None
        changed = self._changed()
        if changed is not None:
            remark(f"{changed} changed")
            self._end_child()
            self._start()

    def _changed(self) -> str | None:
        """Return the name of a new, changed or deleted file, once all files have settled."""
        now = time.monotonic()
        if now < self._watch_at:
            return None
        seen = snapshot(self._roots)
        # A large tree is checked less often: at most a tenth of one core.
        self._watch_at = time.monotonic() + max(_WATCH_SECONDS, 10 * (time.monotonic() - now))
        if seen == self._seen:
            return None
        while (settled := snapshot(self._roots)) != seen and not self._signals:
            seen = settled
            time.sleep(_LOOK_SECONDS)
        differing = {path for path, _ in seen.items() ^ self._seen.items()}
        self._seen = seen
        return os.path.relpath(min(differing)) if differing else None

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        self._starts += 1
        with theirs:
            # In its own process group: Ctrl-C reaches the supervisor, which forwards it once.
            self._child = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                process_group=0,
                env={
                    **os.environ,
                    VARIABLE: f"{theirs.fileno()}:{self._starts}",
                    dev_token.VARIABLE: self._token,
                },
            )
        if self._line is not None:
            self._line.close()
        ours.setblocking(False)
        self._line = ours

    def _hear(self) -> None:
        """Read where the embedded server is, and share it."""
        if self._line is None or self._server is not None:
            return
        with contextlib.suppress(BlockingIOError, ValueError):
            words = json.loads(self._line.recv(4096) or b"{}")
            if words.get("data_dir"):
                self._server = _share(Path(words["data_dir"]))

    def _end_child(self) -> None:
        """Stop the child gracefully; attempts that still run after a while are interrupted and
        handed back."""
        child, self._child = self._child, None
        if child is None:
            return
        child.terminate()
        hurry_at = time.monotonic() + _PATIENCE_SECONDS
        while child.poll() is None:
            if time.monotonic() > hurry_at:
                child.terminate()
                hurry_at = float("inf")
            if self._signals > 1:
                child.kill()
            time.sleep(_LOOK_SECONDS)

    def _stop(self) -> int:
        """Forward each Ctrl-C: after the second, the program does not wait for its attempts."""
        child, passed_on = self._child, 0
        if child is None:
            return 0
        while child.poll() is None:
            if passed_on < self._signals:
                passed_on += 1
                child.terminate()
            time.sleep(_LOOK_SECONDS)
        return child.returncode

    def _kill(self) -> None:
        if self._child is not None and self._child.poll() is None:
            self._child.kill()
            self._child.wait()


def _share(data_dir: Path) -> EmbeddedPostgres | None:
    from rota.embedded import EmbeddedPostgres
    from rota.errors import EmbeddedError

    server = EmbeddedPostgres(data_dir)
    try:
        server.start()
    except EmbeddedError as error:
        remark(f"the embedded Postgres will restart with every reload: {error}")
        return None
    return server


class ReloadParent:
    """The connection of a program to the supervisor that started it."""

    def __init__(self, line: socket.socket, starts: int) -> None:
        self._line = line
        self.is_first = starts == 1
        threading.Thread(target=self._watch, name="rota dev", daemon=True).start()

    @classmethod
    def inherited(cls) -> ReloadParent | None:
        """Return the supervisor that started this process, if there is one."""
        words = os.environ.pop(VARIABLE, "")
        if not words:
            return None
        fd, starts = (int(word) for word in words.split(":"))
        os.set_inheritable(fd, False)
        return cls(socket.socket(fileno=fd), starts)

    def report(self, data_dir: Path | None) -> None:
        with contextlib.suppress(OSError):
            self._line.sendall(json.dumps({"data_dir": data_dir and str(data_dir)}).encode())

    def _watch(self) -> None:
        """Stop the program when the supervisor ends. The supervisor never writes, so the read
        returns only then."""
        with contextlib.suppress(OSError):
            self._line.recv(1)
        os.kill(os.getpid(), signal.SIGTERM)


def snapshot(roots: Sequence[Path]) -> dict[str, Any]:
    """Return every .py file with its modification time."""
    found: dict[str, Any] = {}
    for root in roots:
        for entry in _python_files(str(root)):
            with contextlib.suppress(OSError):
                found[entry.path] = entry.stat().st_mtime_ns
            if len(found) >= _FILES:
                return found
    return found


def _python_files(directory: str) -> Iterator[os.DirEntry[str]]:
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                if not _is_skipped(entry):
                    yield from _python_files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry


def _is_skipped(entry: os.DirEntry[str]) -> bool:
    if entry.name.startswith(".") or entry.name in _SKIPPED:
        return True
    return os.path.exists(os.path.join(entry.path, "pyvenv.cfg"))
