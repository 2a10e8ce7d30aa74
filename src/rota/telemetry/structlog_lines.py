"""Configures structlog for handlers that use it without configuring it. Rota keeps structlog's way
of printing, so that captured lines keep their fields."""

from __future__ import annotations

import time
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from rota.model.printable import entry
from rota.telemetry.lines import INDENT, beginning, clock
from rota.telemetry.logger import render


def configure_structlog(level: int, stream: TextIO) -> None:
    """Does nothing if the application has configured structlog."""
    if structlog.is_configured():
        return
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.dev.set_exc_info,
            structlog.processors.format_exc_info,
            _render_whole,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream),
    )


def _render_whole(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> str:
    start = beginning(str(event.pop("level")).upper(), "structlog")
    below = event.pop("exception", None), event.pop("stack", None)
    parts = (f"{clock(time.time())}{start}{render(event.pop('event'), event)}", *below)
    return entry("\n".join(part for part in parts if part), INDENT)
