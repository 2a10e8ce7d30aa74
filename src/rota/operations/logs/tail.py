"""Follows the log: picks the lines of each poll that were not shown before.

Lines are stored some seconds after they were written, and in no order across workers. So each poll
reads a period again, and the lines that it has seen are remembered for that period.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from rota.model.log import LogLine

WINDOW_SECONDS = 30.0
MOST_LINES = 5000


class Tail:
    """`news` returns the lines of a poll that no earlier poll has returned, the oldest first."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, int, int], datetime] = {}

    def news(self, lines: list[LogLine]) -> list[LogLine]:
        """Return the lines that no earlier poll has found."""
        fresh = [line for line in lines if _key(line) not in self._seen]
        self._seen |= {_key(line): line.at for line in fresh}
        if lines:
            self._forget(lines[-1].at - timedelta(seconds=2 * WINDOW_SECONDS))
        return fresh

    def _forget(self, before: datetime) -> None:
        if len(self._seen) > MOST_LINES:
            self._seen = {key: at for key, at in self._seen.items() if at >= before}


def _key(line: LogLine) -> tuple[int, int, int]:
    return line.run_id, line.attempt, line.seq
