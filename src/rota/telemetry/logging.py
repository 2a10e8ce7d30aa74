"""Rota's own log lines go through the standard library, as a host application expects.

They are written with structlog, so that each line is an event with fields. A program of Rota
calls `configure`; inside somebody's own program its loggers `rota.*` follow what is set there.
"""

from __future__ import annotations

import codecs
import logging
import os
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from functools import cache
from typing import Any, TextIO

import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class _Formatter(logging.Formatter):
    """`12:00:07 INFO    rota.worker    …`."""

    def format(self, record: logging.LogRecord) -> str:
        shown = _shown(record.created)
        line = f"{shown}{_begin(record.levelname, record.name)}{record.getMessage()}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        parts = (line, record.exc_text, record.stack_info)
        return "\n".join(part for part in parts if part)


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


def configure(level: str, stream: TextIO | None = None) -> None:
    """For the programs of Rota: lines to the console, from this level up."""
    global _console
    _console = _Console(stream or sys.stderr)
    root = logging.getLogger()
    root.handlers[:] = [_console]
    root.setLevel(LEVELS[level])


def get_logger(part: str) -> structlog.stdlib.BoundLogger:
    """A logger of the standard library's `rota.<part>`, with fields."""
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(f"rota.{part}"),
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.processors.format_exc_info,
            _render,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
    )
    return logger


@cache
def _begin(level: str, name: str) -> str:
    return f" {level:<7} {name:<14} "


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
        message = printable(_text(message))
    text = f"{message}  run={run}"
    for name, value in fields.items():
        text += f" {name}={value}" if type(value) is int else f" {name}={_show(value)}"
    console = _console
    if console is not None and console.is_alone(logger):
        console.print(begin, text, now)
        return
    logger.handle(logging.LogRecord(logger.name, number, "", 0, text, None, None))


def _text(value: object) -> str:
    """Never raises: a line must not fail its attempt."""
    try:
        return str(value)
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"


def _render(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    text = printable(str(event.pop("event")))
    exception = event.pop("exception", None)
    fields = " ".join(f"{name}={_show(value)}" for name, value in event.items())
    line = f"{text}  {fields}" if fields else text
    return f"{line}\n{exception}" if exception else line


def _show(value: Any) -> str:
    text = printable(_text(value))
    return repr(text) if " " in text or "\n" in text else text


def printable(text: str) -> str:
    """Control characters become visible, because a line from a job must not steer a terminal; so
    do halves of characters, which no stream can encode."""
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)
