"""Rota's own log lines: an event with fields, through the standard library's loggers `rota.*`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rota.model.printable import one_line


class EventLogger:
    """`log.warning("the database is away", seconds=3)`. Exceptions are the standard library's to
    show: `exc_info=True`, or `exception` inside of an except block."""

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
            # The line is found where the event was logged, not here.
            self._logger.log(level, render(event, fields), stacklevel=3, **own)


def get_logger(part: str) -> EventLogger:
    """A logger of the standard library's `rota.<part>`, with fields."""
    return EventLogger(part)


def render(event: object, fields: Mapping[str, Any]) -> str:
    text = one_line(text_of(event))
    shown = " ".join(f"{show(name)}={show(value)}" for name, value in fields.items())
    return f"{text}  {shown}" if shown else text


def show(value: Any) -> str:
    text = text_of(value)
    return text if " " not in text and text.isprintable() else repr(text)


def text_of(value: object) -> str:
    """Never raises: a line must not fail its attempt. Some errors, such as TimeoutError, have no
    text but their name."""
    try:
        return str(value) or (type(value).__name__ if isinstance(value, BaseException) else "")
    except Exception as error:
        return f"<{type(value).__name__} that cannot be shown: {type(error).__name__}>"
