"""Rota's own log lines: an event with fields, through the standard library's loggers `rota.*`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rota.model.printable import one_line


class EventLogger:
    """`log.warning("the database is away", seconds=3)`. The standard library formats exceptions:
    pass `exc_info=True`, or call `exception` inside of an except block."""

    __slots__ = ("_logger",)

    def __init__(self, part: str) -> None:
        self._logger = logging.getLogger(f"rota.{part}")

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def critical(self, event: str, **fields: Any) -> None:
        self._write(logging.CRITICAL, event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, {"exc_info": True, **fields})

    def _write(self, level: int, event: str, fields: dict[str, Any]) -> None:
        if self._logger.isEnabledFor(level):
            own = {name: fields.pop(name) for name in ("exc_info", "stack_info") if name in fields}
            # The record names the place that logged the event, not this one.
            self._logger.log(level, render(event, fields), stacklevel=3, **own)


def get_logger(part: str) -> EventLogger:
    """Return an event logger for the standard library's logger `rota.<part>`."""
    return EventLogger(part)


def render(event: object, fields: Mapping[str, Any]) -> str:
    text = one_line(text_of(event))
    shown = " ".join(f"{show(name)}={show(value)}" for name, value in fields.items())
    return f"{text}  {shown}" if shown else text


def show(value: Any) -> str:
    text = text_of(value)
    return text if " " not in text and text.isprintable() else repr(text)


def text_of(value: object) -> str:
    """Never raises: a log line must not fail its attempt. Some errors, such as TimeoutError, have
    no text but their name."""
    try:
        return str(value) or (type(value).__name__ if isinstance(value, BaseException) else "")
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
