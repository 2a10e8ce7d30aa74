"""The run whose handler enqueues or emits, recorded as the parent of the runs that it starts.

A context variable, which tasks inherit and `asyncio.to_thread` copies.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, Token

_run: ContextVar[int | None] = ContextVar("rota_run", default=None)


# The methods themselves, because every attempt calls both.
begin: Callable[[int], Token[int | None]] = _run.set
"""Record this run as the parent from here on, in this context."""

end: Callable[[Token[int | None]], None] = _run.reset


def run_id() -> int | None:
    """Return the run whose handler is executing in this context; None outside of any."""
    return _run.get()


def triggered_by() -> str | None:
    """Return the JSON that the database stores for such a run; None outside of any run."""
    run = run_id()
    return None if run is None else f'{{"type": "code", "run": {run}}}'
