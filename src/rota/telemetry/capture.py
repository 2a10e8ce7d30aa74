"""Captures lines that handlers write with the standard library's logging and with structlog, for
the log of their attempt.

A context variable identifies the attempt; tasks inherit it and `asyncio.to_thread` copies it. Both
libraries are hooked once per process, where every line passes, because a logging handler would miss
loggers that do not propagate; without an attempt the hook does nothing. Both libraries print their
lines as before.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from typing import Any

from rota.telemetry.importing import when_imported

Write = Callable[[str, str, Mapping[str, Any]], None]

_writer: ContextVar[Write | None] = ContextVar("rota_log_writer", default=None)
# A child of the process executor executes one attempt at a time: lines of all its threads belong to
# it.
_anywhere: Write | None = None
_events_anywhere: Write | None = None
_busy = threading.local()
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_METHODS = {"warn": "warning", "exception": "error", "fatal": "critical", "msg": "info"}
_LEVELS = ("debug", "info", "warning", "error", "critical")


def begin(write: Write) -> Token[Write | None]:
    """Send lines of this context to `write` too."""
    install()
    return _writer.set(write)


def end(token: Token[Write | None]) -> None:
    _writer.reset(token)


def begin_anywhere(write: Write, write_event: Write) -> None:
    """The same for all threads of this process. Events of structlog are separate, because structlog
    has printed them; whether records of logging are printed depends on its handlers."""
    global _anywhere, _events_anywhere
    install()
    _anywhere, _events_anywhere = write, write_event


def end_anywhere() -> None:
    global _anywhere, _events_anywhere
    _anywhere = _events_anywhere = None


def install() -> None:
    """Install the hooks, once per process."""
    handle = logging.Logger.callHandlers
    if getattr(handle, "is_of_rota", False):
        return

    def call_handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        _take(_writer.get() or _anywhere, _of_record, record)
        handle(self, record)

    call_handlers.is_of_rota = True  # type: ignore[attr-defined]
    logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]
    when_imported("structlog", _install_structlog)


def _install_structlog() -> None:
    from structlog import BoundLoggerBase

    process = BoundLoggerBase._process_event

    def process_event(self: Any, method: str, event: Any, words: dict[str, Any]) -> Any:
        answer = process(self, method, event, words)
        # Events that end in the standard library are captured there.
        if not isinstance(self._logger, logging.Logger):
            write = _writer.get() or _events_anywhere
            _take(write, _of_event, self, method, event, words)
        return answer

    BoundLoggerBase._process_event = process_event  # type: ignore[method-assign, assignment]


def _take(
    write: Write | None, read: Callable[..., tuple[str, str, dict[str, Any]] | None], *line: Any
) -> None:
    if write is None or getattr(_busy, "is_so", False):
        return
    _busy.is_so = True
    try:
        found = read(*line)
        if found is not None:
            write(*found)
    except Exception:
        pass  # a line must not fail its writer, and the error cannot be reported anywhere
    finally:
        _busy.is_so = False


def _of_record(record: logging.LogRecord) -> tuple[str, str, dict[str, Any]] | None:
    if record.name == "rota" or record.name.startswith("rota."):
        return None
    # structlog passes its events to a formatter as dicts.
    event: object = record.msg
    own = dict(event) if isinstance(event, dict) and "event" in event else {}
    message = str(own.pop("event")) if own else record.getMessage()
    extra = {name: it for name, it in vars(record).items() if name not in _STANDARD}
    fields = {name: it for name, it in (own | extra).items() if not name.startswith("_")}
    if record.exc_info and record.exc_info[0] is not None:
        fields["exception"] = "".join(traceback.format_exception(*record.exc_info))
    return _level(record.levelno), message, {"logger": record.name} | fields


def _of_event(
    logger: Any, method: str, event: Any, words: dict[str, Any]
) -> tuple[str, str, dict[str, Any]]:
    fields = {**logger._context, **words}
    args = fields.pop("positional_args", None)
    message = str(event) % args if args else str(event)
    if fields.pop("exc_info", None) or method == "exception":
        fields["exception"] = traceback.format_exc()
    level = _METHODS.get(method, method)
    shown = {name: it for name, it in fields.items() if not name.startswith("_")}
    return level if level in _LEVELS else "info", message, shown


def _level(number: int) -> str:
    return _LEVELS[min(max(number // 10 - 1, 0), 4)]
