"""What a handler in a child logs: kept for its worker, if asked."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from rota.model.printable import entry
from rota.telemetry.importing import when_imported

Write = Callable[[str, str, Mapping[str, Any]], None]


class _Safe(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return entry(super().format(record), "    ")


def print_safely() -> None:
    """Where the application, which has been imported, says nothing about it: Python prints warnings
    by itself, and structlog all it gets, as they come."""
    if logging.lastResort is not None and logging.lastResort.formatter is None:
        logging.lastResort.setFormatter(_Safe())
    when_imported("structlog", _print_events_safely)


def _print_events_safely() -> None:
    from rota.telemetry.structlog_lines import configure_structlog

    configure_structlog(logging.DEBUG, sys.stdout)


class _Silent(logging.NullHandler):
    """In the place of handlers that nobody has configured: the worker prints these lines."""


def begin_capture(write_record: Write, write_event: Write, level: int) -> None:
    """From here on. The application has been imported before, so that what it says about logging
    stands; if it says nothing, lines are made as the worker, whose level this is, makes them."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_Silent())
        root.setLevel(level)
    # Imported on first use: a child that captures nothing starts without it.
    from rota.telemetry.capture import begin_anywhere

    begin_anywhere(write_record, write_event)


def end_capture() -> None:
    if "rota.telemetry.capture" in sys.modules:
        sys.modules["rota.telemetry.capture"].end_anywhere()


def is_printing() -> bool:
    """Whether somebody in this process prints what loggers get."""
    return any(not isinstance(one, _Silent) for one in logging.getLogger().handlers)
