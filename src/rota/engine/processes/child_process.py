"""A worker process of a supervisor: started, ended, and restarted after growing pauses."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from rota.engine.listener import new_channel
from rota.engine.processes.parent import VARIABLE
from rota.engine.processes.worker_page import Overdue, SharedPage

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 30.0
_LONG_LIFE = 60.0
_KILL_SECONDS = 5.0


class ChildProcess:
    """A place for a worker process: the current process, and when the next one may start."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], concurrency: int) -> None:
        self._command = list(command)
        self._env = env
        self._concurrency = concurrency
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._pause = 0.0
        self.start_at = 0.0
        # Belongs to the place: every worker process in it is called on this channel.
        self.channel = new_channel()
        self.page: SharedPage | None = None
        self.is_retired = False
        # Attempts past their timeout, if the process was killed because of them.
        self.overdue: tuple[Overdue, ...] = ()

    @property
    def is_running(self) -> bool:
        """Return whether the process has not been seen to end."""
        return self._process is not None and self._process.returncode is None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> tuple[SharedPage, socket.socket]:
        """Start the process. Return its page, and the supervisor's end of the socket pair."""
        self._started_at = time.monotonic()
        # One more than there are slots: a suspect runs beside them.
        page, fd = SharedPage.create(self._concurrency + 1)
        ours, theirs = socket.socketpair()
        try:
            # A process group of its own: Ctrl-C in a terminal goes to the supervisor, which decides
            # for its children, and processes that a handler started end with a child that is
            # killed.
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                env={
                    **self._env,
                    VARIABLE: f"{os.getpid()}:{fd}:{theirs.fileno()}:{self.channel}",
                },
                pass_fds=(fd, theirs.fileno()),
                process_group=0,
            )
        except OSError:
            ours.close()
            raise
        finally:
            os.close(fd)
            theirs.close()
        self.page, self.overdue = page, ()
        return page, ours

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        return self._process.poll() if self._process else None

    def pause(self) -> None:
        """The process has ended: the sooner and the more often, the later the next one starts."""
        now = time.monotonic()
        is_quick = now - self._started_at < _LONG_LIFE
        self._pause = min(max(_FIRST_PAUSE, self._pause * 2), _LONGEST_PAUSE) if is_quick else 0.0
        self.start_at = now + self._pause

    def terminate(self) -> None:
        if self._process is not None:
            self._process.terminate()

    def send(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the process with all processes that its handlers started, and wait for its end,
        which is nearly immediate: only an uninterruptible system call delays it."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_KILL_SECONDS)
