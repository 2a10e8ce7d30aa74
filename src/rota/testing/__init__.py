"""Helpers for tests of applications that use Rota. docs/guides/testing.md shows them together, with
the fixtures of the pytest plugin.

* `on_database(app, url)`  uses the application on a test's database; `reset(app)` empties it
* `Clock(app)`             moves Rota's clock
* `tick(app)`              processes due schedules
* `run_all(app)`           processes due schedules and executes all due runs in this process
* `run_due(app)`           the same without the schedules
* `TestWorker(app)`        a worker that runs alongside a test
* `context(…)`             a context for calling a handler directly
* `assert_enqueued(…)`     finds the runs that a test expects, also before they are committed
* `eventually(check)`      waits until a check passes
"""

from __future__ import annotations

from rota.testing.asserts import assert_enqueued, assert_enqueued_async
from rota.testing.binding import on_database, reset
from rota.testing.clock import Clock
from rota.testing.contexts import LoggedLine, UnitContext, context
from rota.testing.patience import eventually, eventually_sync
from rota.testing.running import run_all, run_all_sync, run_due, run_due_sync, tick, tick_sync
from rota.testing.workers import TestWorker

__all__ = [
    "Clock",
    "LoggedLine",
    "TestWorker",
    "UnitContext",
    "assert_enqueued",
    "assert_enqueued_async",
    "context",
    "eventually",
    "eventually_sync",
    "on_database",
    "reset",
    "run_all",
    "run_all_sync",
    "run_due",
    "run_due_sync",
    "tick",
    "tick_sync",
]
