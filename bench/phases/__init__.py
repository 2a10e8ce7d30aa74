"""What is measured, one file each.

A phase is a list of cases; a case measures one system and answers figures by metric. All rows
take turns inside each case, all cases inside each round.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.phases import (
    api,
    bulk,
    drain,
    executors,
    footprint,
    held,
    history,
    latency,
    logs,
    memory,
    one,
    queues,
    retention,
    scheduled,
    schedules,
    sustained,
    ticks,
)
from bench.phases.base import Phase

_MODULES = (
    one, bulk, drain, sustained, executors, latency, footprint, memory, history, scheduled,
    schedules, held, queues, ticks, retention, logs, api,
)  # fmt: skip
PHASES: Mapping[str, Phase] = {module.PHASE.name: module.PHASE for module in _MODULES}
