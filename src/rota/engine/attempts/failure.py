"""Describes an exception as text that fits into a row."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType

from rota.engine.executors.remote import traceback_of
from rota.engine.logs.log_lines import clean
from rota.model.outcome import Failure

_OWN_FILES = str(Path(__file__).parents[2])


def describe(error: BaseException, limit: int) -> Failure:
    kind = type(error)
    name = (
        kind.__qualname__
        if kind.__module__ in ("builtins", "rota.errors")
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    # Errors of a child process carry the name of their class; other exceptions may have such a
    # field too.
    given = getattr(error, "type_name", None)
    if isinstance(given, str) and given:
        name = _cut(clean(given), limit)
    return Failure(name, _cut(_message(error), limit), cut_head(_traceback(error), limit))


def _message(error: BaseException) -> str:
    try:
        text = str(error)
    except BaseException as broken:
        text = f"(its text could not be read: {type(broken).__name__})"
    return clean(text or type(error).__name__)


def _traceback(error: BaseException) -> str:
    remote = traceback_of(error)
    if remote is not None:
        return clean(remote)
    try:
        tail = _below_rota(error.__traceback__)
        lines = traceback.format_exception(type(error), error, tail)
    except BaseException:
        lines = traceback.format_tb(error.__traceback__)
    return clean("".join(lines))


def _cut(text: str, limit: int) -> str:
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return raw[:limit].decode("utf-8", "ignore") + f"… [cut, {len(raw)} bytes]"


def cut_head(text: str, limit: int) -> str:
    """Keep the end of a traceback."""
    raw = text.encode()
    if len(raw) <= limit:
        return text
    return f"[cut, {len(raw)} bytes] …" + raw[-limit:].decode("utf-8", "ignore")


def _below_rota(found: TracebackType | None) -> TracebackType | None:
    """Return the user's part of a traceback: the frames in which Rota called the handler explain
    nothing."""
    tail = found
    while tail is not None and tail.tb_frame.f_code.co_filename.startswith(_OWN_FILES):
        tail = tail.tb_next
    return tail or found
