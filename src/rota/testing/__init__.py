"""For tests of applications that use Rota, and for Rota's own. docs/guides/testing.md has it all
together, with the fixtures of the pytest plugin.

* `on_database(app, url)`  the application on the database of a test; `reset(app)` empties it
* `Clock(app)`             moves business time
* `tick(app)`              decides what schedules have to start now
* `run_all(app)`           ticks, and runs everything that is due, in this process
* `drain(app)`             the same without the tick
* `TestWorker(app)`        a worker beside the test
* `context(…)`             for handlers that a test calls itself
* `assert_enqueued(…)`     finds the runs that a test expects, also before they are committed
* `eventually(check)`      waits until a check holds
"""

from __future__ import annotations

from rota.testing.asserts import assert_enqueued, assert_enqueued_async
from rota.testing.binding import on_database, reset
from rota.testing.clock import Clock
from rota.testing.contexts import LoggedLine, UnitContext, context
from rota.testing.draining import drain, drain_sync, run_all, run_all_sync, tick, tick_sync
from rota.testing.patience import eventually, eventually_sync
from rota.testing.workers import TestWorker

__all__ = [
    "Clock",
    "LoggedLine",
    "TestWorker",
    "UnitContext",
    "assert_enqueued",
    "assert_enqueued_async",
    "context",
    "drain",
    "drain_sync",
    "eventually",
    "eventually_sync",
    "on_database",
    "reset",
    "run_all",
    "run_all_sync",
    "tick",
    "tick_sync",
]
