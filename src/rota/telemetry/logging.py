"""Rota's own log lines go through the standard library, as a host application expects.

Each line is an event with fields. Rota's programs call `configure`; inside another program the
loggers `rota.*` follow that program's settings.
"""

from __future__ import annotations

import codecs
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, TextIO

from rota.model.printable import entry, lines
from rota.telemetry.importing import when_imported
from rota.telemetry.lines import INDENT, LEVELS, beginning, clock
from rota.telemetry.logger import EventLogger, get_logger, show, text_of

__all__ = [
    "LEVELS",
    "EventLogger",
    "configure",
    "get_logger",
    "print_line",
    "print_traceback",
]


class _Formatter(logging.Formatter):
    """`12:00:07 INFO    rota.worker    …`. Whatever a message contains: only the first line of an
    entry begins with a time, and no control characters reach the terminal."""

    def format(self, record: logging.LogRecord) -> str:
        shown = clock(record.created)
        line = f"{shown}{beginning(record.levelname, record.name)}{record.getMessage()}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        parts = (line, record.exc_text, record.stack_info)
        return entry("\n".join(part for part in parts if part), INDENT)


class _Console(logging.StreamHandler[TextIO]):
    """Also prints a line without a log record, in a fraction of the time, for handlers that write a
    line in every run."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self.setFormatter(_Formatter())
        self._only = [self]
        self._file = _descriptor(stream)
        self._shown = ""
        self._next = 0

    def print(self, begin: str, text: str, now: int) -> None:
        """Print at once, with one write per line, so that the lines of a killed process are
        complete. No lock is needed if the system writes a line as a whole; `now` is monotonic, in
        nanoseconds."""
        if now >= self._next:
            self._shown, self._next = clock(time.time()), now + 10**9 - time.time_ns() % 10**9
        if "\n" in text:
            text = entry(text, INDENT)
        line = f"{self._shown}{begin}{text}\n"
        try:
            if self._file is None or self.stream.closed:
                self._print_and_flush(line)
                return
            # Bypasses the stream, which takes twice as long as the system: every line here is
            # printable and complete.
            data = line.encode("utf-8", "backslashreplace")
            while data:
                data = data[os.write(self._file, data) :]
        except (OSError, ValueError):
            pass  # as logging does: a closed console is no reason to fail

    def _print_and_flush(self, line: str) -> None:
        self.acquire()
        try:
            self.stream.write(line)
            self.flush()
        finally:
            self.release()

    def is_alone(self, logger: logging.Logger) -> bool:
        """Return whether no other handler receives the records of this logger. Checked for every
        line, because logging does not report when a handler is added or removed."""
        current: logging.Logger | None = logger
        while current is not None and (parent := current.parent) is not None:
            if current.handlers or current.filters or not current.propagate:
                return False
            current = parent
        return current is not None and current.handlers == self._only


def _descriptor(stream: TextIO) -> int | None:
    """Return the file descriptor of a stream that writes each line at once, in UTF-8."""
    try:
        is_utf8 = codecs.lookup(stream.encoding).name == "utf-8"
        return stream.fileno() if is_utf8 and getattr(stream, "line_buffering", False) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


_console: _Console | None = None
_is_showing_tracebacks = False


def configure(level: str, stream: TextIO | None = None, *, tracebacks: bool = False) -> None:
    """Configure Rota's programs: print lines from this level up to the console; on request with the
    tracebacks of failed attempts."""
    global _console, _is_showing_tracebacks
    _is_showing_tracebacks = tracebacks
    _console = _Console(stream or sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = [_console]
    root.setLevel(LEVELS[level])
    when_imported("structlog", _configure_structlog)
    if threading.excepthook is threading.__excepthook__:
        threading.excepthook = _thread_failed


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    """Log an exception in a thread that a handler has started; Python would print it
    unformatted."""
    if failed.exc_type is not SystemExit:
        name = failed.thread.name if failed.thread else "that is gone"
        logging.getLogger("threading").error(
            "exception in thread %s", name, exc_info=failed.exc_value
        )


def _configure_structlog() -> None:
    """Configure structlog for handlers that use it without configuring it."""
    from rota.telemetry.structlog_lines import configure_structlog

    if _console is not None:
        configure_structlog(logging.getLogger().level, _console.stream)


# Cached per level and job: logger, number, beginning of a line.
_ways: dict[str, dict[str, tuple[logging.Logger, int, str]]] = {level: {} for level in LEVELS}


def _way(job: str, level: str) -> tuple[logging.Logger, int, str]:
    name = f"rota.job.{job}"
    way = logging.getLogger(name), LEVELS[level], beginning(level.upper(), name)
    _ways[level][job] = way
    return way


def print_line(
    job: str, level: str, message: object, run: int, fields: Mapping[str, Any], now: int
) -> None:
    """Print a line of a handler to the console, without a log record, because this is on the path
    of every run."""
    logger, number, begin = _ways[level].get(job) or _way(job, level)
    if not logger.isEnabledFor(number):
        return
    if not (type(message) is str and message.isprintable()):
        message = lines(text_of(message))
    text = f"{message}  run={run}"
    for name, value in fields.items():
        shown = name if name.isidentifier() else show(name)
        text += f" {shown}={value}" if type(value) is int else f" {shown}={show(value)}"
    console = _console
    if console is not None and console.is_alone(logger):
        console.print(begin, text, now)
        return
    logger.handle(logging.LogRecord(logger.name, number, "", 0, text, None, None))


def print_traceback(job: str, text: str, run: int) -> None:
    """Print the traceback of a failed attempt, if configured for development."""
    if _is_showing_tracebacks and text:
        print_line(job, "error", text.rstrip(), run, {}, time.monotonic_ns())
