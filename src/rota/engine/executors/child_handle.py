"""A child process, as seen by its worker: started, given work, interrupted, ended.

A plain subprocess and a socket pair: nothing is forked while threads run, there is no helper
process and no signal handler. A thread waits for its end, which works with every event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from rota.engine.executors import wire
from rota.errors import RotaError

# -P, and the root as an argument: the child must find this release of rota wherever it was started,
# and nothing in its current directory.
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[2]); "
    "from rota.engine.executors.child import main; main(int(sys.argv[1]))"
)
_ROOT = str(Path(__file__).resolve().parents[2])
# The last messages of a dead child may still arrive; a child whose channel is closed may still
# exit.
_LAST_WORDS = 0.2
_LAST_STEPS = 1.0

ChildAnswer = wire.Return | wire.Raise
OnLog = Callable[[str, str, dict[str, Any]], None]
OnProgress = Callable[[float, str | None], None]


class ChildHandle(asyncio.Protocol):
    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._popen = popen
        self._transport: asyncio.WriteTransport | None = None
        self._frames = wire.Frames()
        self._call = 0
        self._answer: asyncio.Future[ChildAnswer | None] | None = None
        self._on_log: OnLog | None = None
        self._on_progress: OnProgress | None = None
        self._on_printed: OnLog | None = None
        self._exit_code: int | None = None
        self._is_cut = False
        self.gone: asyncio.Future[int] = self._loop.create_future()
        threading.Thread(target=self._watch, name="rota-child", daemon=True).start()

    @classmethod
    async def start(cls, app_ref: str | None) -> ChildHandle:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = cls(_spawn(theirs.fileno()))
            except BaseException:
                ours.close()
                raise
        try:
            await child._loop.create_unix_connection(lambda: child, sock=ours)
        except BaseException:
            ours.close()
            child.signal(signal.SIGKILL)
            raise
        child.send(wire.Hello([str(entry) or os.getcwd() for entry in sys.path], sys.argv, app_ref))
        return child

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def calls(self) -> int:
        """The number of attempts given to the child."""
        return self._call

    @property
    def memory_bytes(self) -> int | None:
        """The resident memory of the child; None if the kernel does not report it."""
        try:
            pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        except (OSError, IndexError):
            return None
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    @property
    def is_idle(self) -> bool:
        """Return whether the child is alive and has no attempt: it may get the next one."""
        return self._answer is None and not self._is_cut and self._exit_code is None

    def send(self, message: wire.ToChild) -> None:
        if self._transport is not None and not self._is_cut:
            self._transport.write(wire.frame(message))

    async def run(
        self,
        work: wire.Work,
        on_log: OnLog,
        on_progress: OnProgress,
        on_printed: OnLog | None = None,
    ) -> ChildAnswer | None:
        """Return the child's answer, or None if it died without one.

        If cancelled, the attempt stays under way: call `interrupt` then.
        """
        self._call += 1
        self._on_log, self._on_progress = on_log, on_progress
        self._on_printed = on_printed or on_log
        message = wire.Begin(self._call, work)
        self._answer = self._loop.create_future()
        try:
            self.send(message)
        except BaseException:
            self._answer = None
            raise
        # Not awaited directly: a cancelled caller must not cancel the future that `interrupt`
        # needs.
        await asyncio.wait({self._answer})
        return self._take_answer()

    async def interrupt(self, cancel_seconds: float, term_seconds: float) -> None:
        """End the attempt: by cancellation, then by SIGTERM, then by SIGKILL."""
        # Log lines are still stored, because those of the clean-up may matter most.
        self._on_progress = None
        try:
            self.send(wire.Interrupt(self._call))
            assert self._answer is not None
            await asyncio.wait({self._answer}, timeout=cancel_seconds)
            if self._answer.done() and self._take_answer() is not None:
                return
            self.signal(signal.SIGTERM)
            await asyncio.wait({self.gone}, timeout=term_seconds)
        finally:
            if not self.is_idle:
                self.signal(signal.SIGKILL)
        await asyncio.wait({self.gone})

    async def leave(self, grace: float) -> None:
        """Let the child finish and exit; kill it if it has not exited in time."""
        self.send(wire.Quit())
        try:
            await asyncio.wait({self.gone}, timeout=grace)
        finally:
            self.signal(signal.SIGKILL)
        await asyncio.wait({self.gone})

    def signal(self, number: signal.Signals) -> None:
        """Signal the child's process group, so that processes started by its handler end too."""
        if self._popen.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._popen.pid, number)

    def _take_answer(self) -> ChildAnswer | None:
        answer = self._answer
        assert answer is not None
        self._answer = self._on_log = self._on_progress = self._on_printed = None
        return answer.result()

    # The protocol, called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.WriteTransport", transport)

    def data_received(self, data: bytes) -> None:
        for body in self._frames.feed(data):
            message = wire.decode_from_child(body)
            # A thread that a handler left behind may still send messages of an attempt that has
            # ended.
            if message.call == self._call:
                self._receive(message)

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_cut = True
        if self._exit_code is None:
            self._loop.call_later(_LAST_STEPS, self.signal, signal.SIGKILL)
        self._check_gone()

    def _receive(self, message: wire.FromChild) -> None:
        match message:
            case wire.ChildLine(_, level, text, fields, is_printed):
                callback = self._on_printed if is_printed else self._on_log
                if callback is not None:
                    self._guarded(callback, level, text, fields)
            case wire.Progress(_, fraction, note):
                if self._on_progress is not None:
                    self._guarded(self._on_progress, fraction, note)
            case _:
                self._settle(message)

    def _settle(self, answer: ChildAnswer | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(answer)

    def _guarded(self, callback: Callable[..., None], *arguments: object) -> None:
        try:
            callback(*arguments)
        except Exception as error:
            context = {"message": "a callback of the process executor failed", "exception": error}
            self._loop.call_exception_handler(context)

    def _watch(self) -> None:
        code = self._popen.wait()
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
            self._loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code: int) -> None:
        self._exit_code = code
        if not self._is_cut and self._transport is not None:
            self._loop.call_later(_LAST_WORDS, self._transport.abort)
        self._check_gone()

    def _check_gone(self) -> None:
        is_over = self._is_cut or self._transport is None
        if self._exit_code is not None and is_over and not self.gone.done():
            self.gone.set_result(self._exit_code)
            self._settle(None)


def _spawn(fd: int) -> subprocess.Popen[bytes]:
    if not sys.executable:
        raise RotaError(
            "jobs with executor='process' need the path of the Python interpreter",
            hint="this program embeds Python and sets no sys.executable: set it at its start",
        )
    # A process group of its own: Ctrl-C in a terminal goes to the worker, which decides for its
    # children.
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, str(fd), _ROOT],
        stdin=subprocess.DEVNULL,
        pass_fds=(fd,),
        process_group=0,
    )
