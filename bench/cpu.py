"""How much CPU a process has used, its ended threads included, to the microsecond where the kernel
tells: the ticks of /proc are a tenth of a short measurement."""

from __future__ import annotations

import sys
import time

import psutil  # type: ignore[import-untyped]

_OF_PROCESS = 2  # the kernel's number for the clock of a whole process


def cpu_seconds(pid: int) -> float:
    """0 for one that has ended."""
    if sys.platform != "linux":
        return _by_ticks(pid)
    try:
        return time.clock_gettime((~pid << 3) | _OF_PROCESS)
    except OSError:
        return 0.0


def _by_ticks(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
