"""For tests of applications that use Rota, and for Rota's own.

* `Clock(app)`           moves business time
* `drain(app)`           runs everything that is due, in this process
* `assert_enqueued(…)`   finds the runs that a test expects
* `eventually(check)`    waits until a check holds
"""

from __future__ import annotations

from rota.testing.asserts import assert_enqueued
from rota.testing.clock import Clock
from rota.testing.draining import drain, drain_sync
from rota.testing.patience import eventually, eventually_sync

__all__ = [
    "Clock",
    "assert_enqueued",
    "drain",
    "drain_sync",
    "eventually",
    "eventually_sync",
]
