"""What a worker's process costs: memory, and processor time, with the processes that it started.

Read where the kernel tells it (Linux, /proc), a few files a heartbeat; elsewhere only the time that
this process itself has used is known.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")
_MOST = 1000  # of the processes below one worker; more are not looked at


class Usage(NamedTuple):
    """None: not known here. Pages that processes share count in each of them."""

    memory_bytes: int | None = None
    cpu_seconds: float | None = None


def measure(pid: int) -> Usage:
    """Of a process and those below it. One that ends meanwhile is left out."""
    found = [one for each in _family(pid) if (one := _read(each)) is not None]
    if found:
        return Usage(sum(memory for memory, _ in found), sum(ticks for _, ticks in found))
    if pid == os.getpid():
        return Usage(None, sum(os.times()[:4]))
    return Usage()


def _family(pid: int) -> list[int]:
    found = [pid]
    for one in found:
        found += _children(one)
        if len(found) > _MOST:
            break
    return found


def _children(pid: int) -> list[int]:
    """By the thread that started them, which the kernel calls their parent."""
    names: list[str] = []
    try:
        for thread in (_PROC / str(pid) / "task").iterdir():
            names += (thread / "children").read_text().split()
    except OSError:
        pass  # it has ended, or this kernel does not tell
    return [int(name) for name in names]


def _read(pid: int) -> tuple[int, float] | None:
    """Resident bytes, and seconds with those of children that have ended."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
        # The second field, a name in parentheses, may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError, IndexError):
        return None
    ticks = sum(int(field) for field in fields[11:15])
    return pages * os.sysconf("SC_PAGE_SIZE"), ticks / os.sysconf("SC_CLK_TCK")
