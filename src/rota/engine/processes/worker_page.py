"""Memory that a supervisor shares with one of its workers: a page that the worker stamps.

There are no locks that a blocked or killed worker could hold: each word has one writer and is read
whole.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from rota.engine.lease.health import HealthReport

_MAGIC = 0x524F54415F303031
_WORD = 8
# Words of the page. The supervisor writes _RENEWED, _LOST, _DUTY and _NIGHT, the worker the others.
_KIND, _WORKER, _STAMPED, _LEAVING, _RENEWED, _LOST, _RETIRED = range(7)
_CLAIMED, _FINISHED, _ERRORS = range(7, 10)
_UNWILLING, _DROWSY, _ASLEEP, _DUTY, _NIGHT = range(10, 15)
# The text of the worker's trouble, padded with zeros.
_TROUBLE, _TROUBLE_WORDS = 15, 30
_HEAD = _TROUBLE + _TROUBLE_WORDS
# Words of one attempt that has a timeout; the deadline of a free entry is 0.
_DEADLINE, _RUN, _ATTEMPT, _TIMEOUT = range(4)
_ENTRY = 4


@dataclass(frozen=True, slots=True)
class Overdue:
    """An attempt past its timeout."""

    run: int
    attempt: int
    timeout: float


class SharedPage:
    """Shared by a worker and its supervisor. Times are of the monotonic clock, which all processes
    of a machine share, in nanoseconds."""

    def __init__(self, fd: int) -> None:
        self._memory = mmap.mmap(fd, 0)
        self._words = memoryview(self._memory).cast("q")
        entries = range(_HEAD, len(self._words), _ENTRY)
        self._free = list(entries) if self._words[_KIND] == _MAGIC else []

    @classmethod
    def create(cls, attempts: int) -> tuple[SharedPage, int]:
        """Create a page with room for this many attempts. Return it with the descriptor by which a
        child opens it; close that once the child has it."""
        fd = _anonymous_file((_HEAD + attempts * _ENTRY) * _WORD)
        page = cls(fd)
        page._words[_KIND] = _MAGIC
        page._words[_STAMPED] = time.monotonic_ns()
        return page, fd

    @classmethod
    def open(cls, fd: int) -> SharedPage | None:
        """Return the page behind a descriptor; None if the descriptor is something else."""
        try:
            page = cls(fd)
        except (OSError, ValueError, TypeError):
            return None
        return page if page._words[_KIND] == _MAGIC else None

    # Written by the worker.

    @property
    def worker(self) -> int:
        """The current worker id; 0 before the first registration."""
        return self._words[_WORKER]

    @worker.setter
    def worker(self, number: int) -> None:
        self._words[_WORKER] = number

    @property
    def stamped_at(self) -> int:
        """Return when the worker's event loop last ran."""
        return self._words[_STAMPED]

    def stamp(self) -> None:
        self._words[_STAMPED] = time.monotonic_ns()

    @property
    def is_leaving(self) -> bool:
        """Return whether the worker signs off, and may be found gone at any time."""
        return bool(self._words[_LEAVING])

    def leave(self) -> None:
        self._words[_LEAVING] = 1

    @property
    def is_retired(self) -> bool:
        """Return whether an operator stopped the worker, so that it is not replaced."""
        return bool(self._words[_RETIRED])

    def retire(self) -> None:
        self._words[_RETIRED] = 1

    @property
    def is_willing(self) -> bool:
        """Return whether the worker may perform the upkeep: a draining worker may not."""
        return not self._words[_UNWILLING]

    @is_willing.setter
    def is_willing(self, is_so: bool) -> None:
        self._words[_UNWILLING] = not is_so

    @property
    def is_drowsy(self) -> bool:
        """Return whether the worker is ready to sleep, or sleeps."""
        return bool(self._words[_DROWSY])

    @is_drowsy.setter
    def is_drowsy(self, is_so: bool) -> None:
        self._words[_DROWSY] = is_so

    @property
    def is_asleep(self) -> bool:
        return bool(self._words[_ASLEEP])

    @is_asleep.setter
    def is_asleep(self, is_so: bool) -> None:
        self._words[_ASLEEP] = is_so

    @property
    def report(self) -> HealthReport:
        """The worker's health. A text read while it is written is wrong for one heartbeat."""
        words, first = self._words, _TROUBLE * _WORD
        text = (
            self._memory[first : first + _TROUBLE_WORDS * _WORD]
            .rstrip(b"\0")
            .decode(errors="ignore")
        )
        return HealthReport(
            words[_CLAIMED] / 1e9 if words[_CLAIMED] else None,
            words[_FINISHED] / 1e9 if words[_FINISHED] else None,
            words[_ERRORS],
            text or None,
        )

    @report.setter
    def report(self, report: HealthReport) -> None:
        words, first, size = self._words, _TROUBLE * _WORD, _TROUBLE_WORDS * _WORD
        words[_CLAIMED] = int((report.claimed_at or 0) * 1e9)
        words[_FINISHED] = int((report.finished_at or 0) * 1e9)
        words[_ERRORS] = report.errors
        text = (report.trouble or "").encode()[:size]
        self._memory[first : first + size] = text.ljust(size, b"\0")

    def add_attempt(self, run: int, attempt: int, started: float, timeout: float) -> int | None:
        """Add an attempt that has a timeout; return its place."""
        if not self._free:
            return None
        place = self._free.pop()
        words = self._words
        words[place + _RUN] = run
        words[place + _ATTEMPT] = attempt
        words[place + _TIMEOUT] = int(timeout * 1e9)
        # Last, because it makes the entry valid.
        words[place + _DEADLINE] = int((started + timeout) * 1e9)
        return place

    def remove_attempt(self, place: int) -> None:
        self._words[place + _DEADLINE] = 0
        self._free.append(place)

    # Written by the supervisor.

    @property
    def renewed_at(self) -> int:
        """Return when the lease was last renewed; 0 before the first time."""
        return self._words[_RENEWED]

    @renewed_at.setter
    def renewed_at(self, at: int) -> None:
        self._words[_RENEWED] = at

    @property
    def lost_worker(self) -> int:
        """The last worker id that was found lost; ids are never reused, so it needs no clearing."""
        return self._words[_LOST]

    @lost_worker.setter
    def lost_worker(self, number: int) -> None:
        self._words[_LOST] = number

    @property
    def has_duty(self) -> bool:
        """Return whether the worker performs the upkeep for all workers of this supervisor."""
        return bool(self._words[_DUTY])

    @has_duty.setter
    def has_duty(self, is_so: bool) -> None:
        self._words[_DUTY] = is_so

    @property
    def is_night(self) -> bool:
        """Return whether all workers are ready to sleep: they sleep together."""
        return bool(self._words[_NIGHT])

    @is_night.setter
    def is_night(self, is_so: bool) -> None:
        self._words[_NIGHT] = is_so

    # Read by the supervisor.

    def overdue(self, at: int) -> Iterator[Overdue]:
        """The attempts whose deadline was before this time."""
        words = self._words
        for place in range(_HEAD, len(words), _ENTRY):
            if 0 < words[place + _DEADLINE] < at:
                timeout = words[place + _TIMEOUT] / 1e9
                yield Overdue(words[place + _RUN], words[place + _ATTEMPT], timeout)


def _anonymous_file(size: int) -> int:
    """Return a descriptor of memory without a name, so that nothing is left behind if a process is
    killed."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("rota-stamps")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    # Written, not only sized: a full disk is an error here, not a dead process later.
    os.write(fd, bytes(size))
    return fd
