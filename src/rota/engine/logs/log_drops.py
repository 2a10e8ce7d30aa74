"""Lines dropped because the buffer was full: counted by attempt, and reported in the attempt's
log."""

from __future__ import annotations

import json

from rota.engine.logs.log_lines import BufferedLine

# At most this many attempts get such a line; others are only logged to the console.
_MOST = 1000


class DroppedLines:
    """The reporting line takes the place of the first dropped line."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int, int], BufferedLine] = {}
        self._counts: dict[tuple[int, int, int], int] = {}
        self._untold = 0

    def __bool__(self) -> bool:
        return bool(self._first)

    def count(self, line: BufferedLine) -> None:
        key = (line.run_id, line.attempt, line.worker)
        if key in self._counts:
            self._counts[key] += 1
        elif len(self._first) < _MOST:
            self._first[key] = line
            self._counts[key] = 1
        else:
            self._untold += 1

    def take(self) -> tuple[list[BufferedLine], int]:
        """A line for each attempt, and how many lines of other attempts were dropped."""
        lines = [_told(line, self._counts[key]) for key, line in self._first.items()]
        untold, self._untold = self._untold, 0
        self._first, self._counts = {}, {}
        return lines, untold

    def put_back(self, lines: list[BufferedLine], untold: int) -> None:
        """Keep the lines that could not be written."""
        for line in lines:
            key = (line.run_id, line.attempt, line.worker)
            self._first[key] = line
            self._counts[key] = self._counts.get(key, 0) + _dropped(line)
        self._untold += untold

    def total(self, lines: list[BufferedLine]) -> int:
        return sum(map(_dropped, lines))


def _told(line: BufferedLine, count: int) -> BufferedLine:
    message = "log lines were dropped: the buffer was full"
    fields = json.dumps({"dropped": count}).encode()
    return line._replace(level="warning", message=message, fields=fields)


def _dropped(line: BufferedLine) -> int:
    return int(json.loads(line.fields or b"{}").get("dropped", 0))
