"""Rota's own log lines go through the standard library, as a host application expects.

They are written with structlog, so that each line is an event with fields. A program of Rota
calls `configure`; inside somebody's own program its loggers `rota.*` follow what is set there.
"""

from __future__ import annotations

import codecs
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any, TextIO

import structlog

from rota.model.printable import entry, lines, one_line

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_INDENT = "    "


class _Formatter(logging.Formatter):
    """`12:00:07 INFO    rota.worker    …`. Whatever it holds, whoever logs it: only the first line
    of an entry begins with a time, and nothing steers the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        shown = _shown(record.created)
        line = f"{shown}{_begin(record.levelname, record.name)}{record.getMessage()}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        parts = (line, record.exc_text, record.stack_info)
        return entry("\n".join(part for part in parts if part), _INDENT)


class _Console(logging.StreamHandler[TextIO]):
    """Also takes a line without the record that logging would make of it: a fraction of the time,
    for handlers that write a line in every run."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(_Formatter())
        self._only = [self]
        self._file = _descriptor(stream)
        self._shown = ""
        self._next = 0

    def print(self, begin: str, text: str, now: int) -> None:
        """At once, one write for each line, so that a process that is killed has said it. No lock
        is needed where the system takes a line as one; `now` is monotonic, in nanoseconds."""
        if now >= self._next:
            self._shown, self._next = _shown(time.time()), now + 10**9 - time.time_ns() % 10**9
        if "\n" in text:
            text = entry(text, _INDENT)
        line = f"{self._shown}{begin}{text}\n"
        try:
            if self._file is None or self.stream.closed:
                self._print_and_flush(line)
                return
            # Past the stream, which takes twice as long as the system does: every line of ours is
            # printable and whole.
            data = line.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(self._file, data) :]
        except (OSError, ValueError):
            pass  # as logging does: a console that is gone is no reason to fail

    def _print_and_flush(self, line: str) -> None:
        self.acquire()
        try:
            self.stream.write(line)
            self.flush()
        finally:
            self.release()

    def is_alone(self, logger: logging.Logger) -> bool:
        """Nobody else wants to see the records of this logger. Looked up for every line, as
        logging tells nobody when a handler comes or goes."""
        current: logging.Logger | None = logger
        while current is not None and (parent := current.parent) is not None:
            if current.handlers or current.filters or not current.propagate:
                return False
            current = parent
        return current is not None and current.handlers == self._only


def _descriptor(stream: TextIO) -> int | None:
    """Of the file behind it, if it says at once what it is told, in UTF-8."""
    try:
        is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
        return stream.fileno() if is_utf8 and getattr(stream, "line_buffering", False) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _shown(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


_console: _Console | None = None
_is_showing_tracebacks = False


def configure(level: str, stream: TextIO | None = None, *, tracebacks: bool = False) -> None:
    """For the programs of Rota: lines to the console, from this level up; on request with the
    tracebacks of failed attempts."""
    global _console, _is_showing_tracebacks
    _is_showing_tracebacks = tracebacks
    _console = _Console(stream or sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = [_console]
    root.setLevel(LEVELS[level])
    if not structlog.is_configured():
        configure_structlog(level, _console.stream)
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_failed


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Of a thread that a handler has started: Python would print it as it comes."""
    if failed.exc_type is not SystemExit:
        name = failed.thread.name if failed.thread else "that is gone"
        logging.getLogger("threading").error(
            "exception in thread %s", name, exc_info=failed.exc_value
        )


def configure_structlog(level: str, stream: TextIO) -> None:
    """For handlers that use structlog without a word about how: by itself it prints what it is
    given. It keeps its own way of printing, so that what is captured of it keeps its fields."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.dev.set_exc_info,
            structlog.processors.format_exc_info,
            _render_whole,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )


def _render_whole(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    begin = _begin(str(event.pop("level")).upper(), "structlog")
    below = event.pop("exception", None), event.pop("stack", None)
    parts = (f"{_shown(time.time())}{begin}{_render(event)}", *below)
    return entry("\n".join(part for part in parts if part), _INDENT)


def get_logger(part: str) -> structlog.stdlib.BoundLogger:
    """A logger of the standard library's `rota.<part>`, with fields."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"rota.{part}"),
        processors=[structlog.stdlib.filter_by_level, _to_record],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


@cache
def _begin(level: str, name: str) -> str:
    return f" {one_line(level):<7} {one_line(name):<14} "


# What is known of the lines of a job and level: logger, number, how a line begins.
_ways: dict[str, dict[str, tuple[logging.Logger, int, str]]] = {level: {} for level in LEVELS}


def _way(job: str, level: str) -> tuple[logging.Logger, int, str]:
    name = f"rota.job.{job}"
    way = logging.getLogger(name), LEVELS[level], _begin(level.upper(), name)
    _ways[level][job] = way
    return way


def print_line(
    job: str, level: str, message: object, run: int, fields: Mapping[str, Any], now: int
) -> None:
    """A line of a handler on the console, without the way through structlog's processors: it is
    on the path of every run."""
    logger, number, begin = _ways[level].get(job) or _way(job, level)
    if not logger.isEnabledFor(number):
        return
    if not (type(message) is str and message.isprintable()):
        message = lines(_text(message))
    text = f"{message}  run={run}"
    for name, value in fields.items():
        shown = name if name.isidentifier() else _show(name)
        text += f" {shown}={value}" if type(value) is int else f" {shown}={_show(value)}"
    console = _console
    if console is not None and console.is_alone(logger):
        console.print(begin, text, now)
        return
    logger.handle(logging.LogRecord(logger.name, number, "", 0, text, None, None))


def print_traceback(job: str, text: str, run: int) -> None:
    """Of a failed attempt, where somebody develops."""
    if _is_showing_tracebacks and text:
        print_line(job, "error", text.rstrip(), run, {}, time.monotonic_ns())


def _text(value: object) -> str:
    """Never raises: a line must not fail its attempt."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _to_record(
    _logger: Any, _method: str, event: MutableMapping[str, Any]
) -> tuple[tuple[str], dict[str, Any]]:
    """What the standard library's logger is called with: exceptions are its to show."""
    own = {name: event.pop(name) for name in ("exc_info", "stack_info") if name in event}
    return (_render(event),), own


def _render(event: MutableMapping[str, Any]) -> str:
    text = one_line(_text(event.pop("event")))
    fields = " ".join(f"{_show(name)}={_show(value)}" for name, value in event.items())
    return f"{text}  {fields}" if fields else text


def _show(value: Any) -> str:
    text = _text(value)
    return text if " " not in text and text.isprintable() else repr(text)
