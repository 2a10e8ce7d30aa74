"""Failures in a child process, as seen by its worker."""

from __future__ import annotations

import io
import pickle
import signal
import sys
import traceback
from types import TracebackType
from typing import Any

from rota.engine.executors.location import MAIN
from rota.engine.executors.wire import Raise
from rota.errors import RotaError
from rota.hints import PYTHON, Words

# An exception that contains a large data set is sent as text instead.
_MAX_PICKLED = 1 << 20
_CHILD = "rota.engine.executors.child"


class RemoteError(RotaError):
    """A handler in a child raised an exception that cannot be raised here: see `type_name` and
    `traceback`.

    Either the exception cannot be pickled, or it would end more than the attempt: SystemExit,
    KeyboardInterrupt and CancelledError would stop the worker itself.
    """

    def __init__(self, type_name: str, message: str, traceback: str) -> None:
        super().__init__()
        self.args = (type_name, message, traceback)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback

    def sentence(self, words: Words = PYTHON) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


class ChildDied(RotaError):
    """The child that ran the attempt ended without an answer; only this attempt is lost."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(hint=_HINTS.get(exit_code))
        self.args = (exit_code,)
        self.exit_code = exit_code

    def sentence(self, words: Words = PYTHON) -> str:
        return f"the child process of the attempt died: {describe_exit(self.exit_code)}"


_HINTS = {
    -signal.SIGKILL: "often the kernel's out-of-memory killer: see its log, or lower concurrency",
    -signal.SIGSEGV: "a native library crashed; PYTHONFAULTHANDLER=1 shows where",
}


class RemoteTraceback(Exception):
    """The child's traceback, as the cause of an exception that crossed without its frames."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def describe_exit(code: int) -> str:
    if code >= 0:
        return f"it exited with status {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def traceback_of(error: BaseException) -> str | None:
    """The traceback from the child where `error` was raised; None if it was raised here."""
    if isinstance(error, RemoteError):
        return error.traceback
    cause = error.__cause__
    return cause.args[0] if isinstance(cause, RemoteTraceback) else None


def pack(call: int, error: BaseException) -> Raise:
    """Describe `error` for the worker; called in the child."""
    return Raise(
        call,
        _type_name(type(error)),
        _message(error),
        _printable("".join(traceback.format_exception(error.with_traceback(_trim(error))))),
        _pickle(error),
    )


def unpack(raised: Raise) -> Exception:
    """Return the exception itself if it can be rebuilt, otherwise a RemoteError; called in the
    worker."""
    error = None if raised.pickled is None else _unpickle(raised.pickled)
    if error is None:
        return RemoteError(raised.type_name, raised.message, raised.traceback)
    error.__cause__ = RemoteTraceback(raised.traceback)
    return error


def _trim(error: BaseException) -> TracebackType | None:
    """Remove the frames above the handler's: they do not explain the failure."""
    trace = below = error.__traceback__
    while trace and trace.tb_next:
        if trace.tb_frame.f_globals.get("__name__") == _CHILD:
            below = trace.tb_next
        trace = trace.tb_next
    return below


def _type_name(kind: type[BaseException]) -> str:
    module = "__main__" if kind.__module__ == MAIN else kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _message(error: BaseException) -> str:
    try:
        return _printable(str(error))
    except Exception as second:
        return f"<its message cannot be shown: {type(second).__name__}>"


def _printable(text: str) -> str:
    """Replace lone surrogates, which neither the channel nor the database accepts."""
    return text.encode("utf-8", "backslashreplace").decode()


def _pickle(error: BaseException) -> bytes | None:
    if not isinstance(error, Exception):
        return None
    try:
        data = pickle.dumps(error, pickle.HIGHEST_PROTOCOL)
    except Exception:
        return None
    return data if len(data) <= _MAX_PICKLED else None


def _unpickle(data: bytes) -> Exception | None:
    """Return None for exceptions that can be pickled but not restored: often because of an
    `__init__` with other arguments."""
    try:
        error = _Unpickler(io.BytesIO(data)).load()
    except Exception:
        return None
    return error if isinstance(error, Exception) else None


class _Unpickler(pickle.Unpickler):
    """Finds the program's own classes, which a child has under another module than `__main__`."""

    def find_class(self, module: str, name: str) -> Any:
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        is_main = module == MAIN or (spec is not None and module == spec.name)
        return super().find_class("__main__" if is_main else module, name)
