"""Captures log lines of handlers in a child for its worker, if configured."""

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
    """Make default output safe if the application, which has been imported, has configured no
    logging: Python prints warnings and structlog prints all events unchanged."""
    if logging.lastResort is not None and logging.lastResort.formatter is None:
        logging.lastResort.setFormatter(_Safe())
    when_imported("structlog", _print_events_safely)


def _print_events_safely() -> None:
    from rota.telemetry.structlog_lines import configure_structlog

    configure_structlog(logging.DEBUG, sys.stdout)


class _Silent(logging.NullHandler):
    """Takes the place of handlers if none are configured: the worker prints these lines."""


def begin_capture(write_record: Write, write_event: Write, level: int) -> None:
    """Start capturing. The application was imported before, so that its configuration of logging
    applies; without one, lines are formatted like those of the worker, whose level `level` is."""
    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(_Silent())
        root.setLevel(level)
    # Imported on first use: a child that captures nothing starts faster.
    from rota.telemetry.capture import begin_anywhere

    begin_anywhere(write_record, write_event)


def end_capture() -> None:
    if "rota.telemetry.capture" in sys.modules:
        sys.modules["rota.telemetry.capture"].end_anywhere()


def is_printing() -> bool:
    """Return whether a handler in this process prints the records of loggers."""
    return any(not isinstance(handler, _Silent) for handler in logging.getLogger().handlers)
