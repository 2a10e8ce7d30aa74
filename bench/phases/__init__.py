"""What is measured, one file each.

A phase is a list of cases; a case measures one system and answers figures by metric. All rows
take turns inside each case, all cases inside each round.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.phases import (
    api,
    bulk,
    dashboards,
    executors,
    footprint,
    held,
    history,
    idle,
    latency,
    limits,
    logs,
    memory,
    one,
    pages,
    queues,
    retention,
    scheduled,
    schedules,
    sustained,
    tenants,
    throughput,
    ticks,
)
from bench.phases.base import Phase

_MODULES = (
    one, bulk, throughput, sustained, executors, latency, idle, footprint, memory, history,
    scheduled, schedules, held, queues, ticks, limits, tenants, retention, logs, api, pages,
    dashboards,
)  # fmt: skip
PHASES: Mapping[str, Phase] = {module.PHASE.name: module.PHASE for module in _MODULES}
