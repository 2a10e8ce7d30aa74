"""Rota's own log lines go through the standard library, as a host application expects.

They are written with structlog, so that each line is an event with fields. A program of Rota
calls `configure`; inside somebody's own program its loggers `rota.*` follow what is set there.
"""

from __future__ import annotations

import logging
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
    """`12:00:07 INFO    rota.worker    …`. Makes the time once a second: handlers may write a
    line for every run."""

    def __init__(self) -> None:
        super().__init__()
        self._second = 0
        self._shown = ""

    def line(self, created: float, level: str, name: str, text: str) -> str:
        second = int(created)
        if second != self._second:
            self._shown = time.strftime("%H:%M:%S", time.localtime(second))
            self._second = second
        return f"{self._shown} {level:<7} {name:<14} {text}"

    def format(self, record: logging.LogRecord) -> str:
        line = self.line(record.created, record.levelname, record.name, record.getMessage())
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        parts = (line, record.exc_text, record.stack_info)
        return "\n".join(part for part in parts if part)


class _Console(logging.StreamHandler[TextIO]):
    """Also takes a line without the record that logging would make of it: a third of the time."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines = _Formatter()
        self.setFormatter(self._lines)

    def print(self, number: int, name: str, text: str) -> None:
        line = self._lines.line(time.time(), logging.getLevelName(number), name, text)
        self.acquire()
        try:
            self.stream.write(f"{line}\n")
            self.flush()
        except (OSError, ValueError):
            pass  # as logging does: a console that is gone is no reason to fail
        finally:
            self.release()

    def is_alone(self, logger: logging.Logger) -> bool:
        """Nobody else wants to see the records of this logger."""
        current: logging.Logger | None = logger
        while current is not None and current.parent is not None:
            if current.handlers or current.filters or not current.propagate:
                return False
            current = current.parent
        return current is not None and current.handlers == [self]


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
def _job_logger(job: str) -> logging.Logger:
    return logging.getLogger(f"rota.job.{job}")


def print_line(job: str, number: int, message: object, run: int, fields: Mapping[str, Any]) -> None:
    """A line of a handler on the console, without the way through structlog's processors: it is
    on the path of every run."""
    logger = _job_logger(job)
    if not logger.isEnabledFor(number):
        return
    shown = " ".join([f"{name}={_show(value)}" for name, value in fields.items()])
    text = f"{printable(_text(message))}  run={run}" + (f" {shown}" if shown else "")
    if _console is not None and _console.is_alone(logger):
        _console.print(number, logger.name, text)
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
