"""Memory and processor time of a worker's process, with the processes that it started.

Read from /proc on Linux, a few files per heartbeat; elsewhere only the processor time of this
process is known.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_MOST = 1000  # processes below one worker; more are not measured


class Usage(NamedTuple):
    """None: not known on this system. Pages that processes share count in each of them."""

    memory_bytes: int | None = None
    cpu_seconds: float | None = None


def measure(pid: int) -> Usage:
    """Measure a process and those below it. A process that ends meanwhile is left out."""
    found = [usage for each in _family(pid) if (usage := _read(each)) is not None]
    if found:
        return Usage(sum(memory for memory, _ in found), sum(ticks for _, ticks in found))
    if pid == os.getpid():
        return Usage(None, sum(os.times()[:4]))
    return Usage()


def _family(pid: int) -> list[int]:
    found = [pid]
    for process in found:
        found += _children(process)
        if len(found) > _MOST:
            break
    return found


def _children(pid: int) -> list[int]:
    """Return the child processes of all threads, which the kernel lists per thread."""
    names: list[str] = []
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            names += (thread / "children").read_text().split()
    except OSError:
        pass  # the process has ended, or this kernel does not list children
    return [int(name) for name in names]


def _read(pid: int) -> tuple[int, float] | None:
    """Return resident bytes and processor seconds, including children that have ended."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
        # The second field, a name in parentheses, may contain anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return None
    ticks = sum(int(field) for field in fields[11:15])
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
