"""Rota's own log lines go through the standard library, as a host application expects.

They are written with structlog, so that each line is an event with fields. A program of Rota
calls `configure`; inside somebody's own program its loggers `rota.*` follow what is set there.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_FORMAT = "%(asctime)s %(levelname)-7s %(name)-14s %(message)s"


def configure(level: str, stream: TextIO | None = None) -> None:
    """For the programs of Rota: lines to the console, from this level up."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT, datefmt="%H:%M:%S"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
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


def _render(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    text = printable(str(event.pop("event")))
    exception = event.pop("exception", None)
    fields = " ".join(f"{name}={_show(value)}" for name, value in event.items())
    line = f"{text}  {fields}" if fields else text
    return f"{line}\n{exception}" if exception else line


def _show(value: Any) -> str:
    text = printable(str(value))
    return repr(text) if " " in text or "\n" in text else text


def printable(text: str) -> str:
    """Control characters become visible: a line from a job must not steer a terminal."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)
