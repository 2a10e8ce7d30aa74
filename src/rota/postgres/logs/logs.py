"""Reads log lines: a search back in time, the lines of a run, the latest lines."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from rota.errors import SearchError
from rota.model.field_values import past_instant
from rota.model.log import LogKey, LogLine, LogPage
from rota.model.log_question import LogQuestion
from rota.model.page import fitting
from rota.postgres.plans import Execute, Plan, Rows
from rota.postgres.runs.runs import find_run, oldest_trace

BUDGET_SECONDS = 0.15
_TICK = timedelta(microseconds=1)
_MOST = 2**31 - 1
BAD = {"warning", "error", "critical"}
# Lines that one statement examines: at first, and at most.
_FIRST_CHUNK = 500
_LARGEST_CHUNK = 200_000
# A word that occurs in fewer than one of so many lines is looked up in the index, if there is one.
_RARE = 500


def search_logs(
    question: LogQuestion,
    budget_seconds: float = BUDGET_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> Plan[LogPage]:
    """Search lines, the newest matches first. Stop when the page is full or the time is used up,
    between two statements that each examine a bounded number of lines; at least one of them is
    sent."""
    deadline = clock() + budget_seconds
    params, now = yield from start_search(question)
    since, until = past_instant(question.since, now), past_instant(question.until, now)
    if question.run_id is not None:
        return (yield from _search_run(question, params, since, until))
    # There are no lines of future days yet.
    above = question.cursor.at + _TICK if question.cursor else until or now + timedelta(minutes=1)
    rows = yield Execute("logs/spans", {"since": since, "until": above})
    spans = [_Span(**row) for row in rows]
    if not spans:
        return LogPage([], since, None)
    top = question.cursor or LogKey(above, 0, 0, 0)
    walk = _Walk(question, params, top, since, deadline, clock)
    return (yield from walk.run(spans))


def start_search(question: LogQuestion) -> Plan[tuple[dict[str, Any], datetime]]:
    text = question.text
    words = {
        "wanted": list(text.wanted),
        "unwanted": list(text.unwanted),
        "values": question.parameters["values"],
        "job": question.job,
    }
    row = (yield Execute("logs/start", words))[0]
    if row["is_wordless"]:
        raise SearchError(
            "every part of a search needs a letter or a digit",
            hint='search for words, "phrases" or field:value',
        )
    found = {name: row[name] for name in ("hints", "strangers", "jobs")} | {
        "query": row["query"] or None
    }
    jobs = yield from _of_queue(question.queue)
    return question.parameters | found | jobs, row["now"]


def _of_queue(queue: str | None) -> Plan[dict[str, list[str]]]:
    if queue is None:
        return {}
    rows = yield Execute("logs/of_queue", {"queue": queue})
    return {
        "sole": [row["job"] for row in rows if row["is_sole"]],
        "mixed": [row["job"] for row in rows if not row["is_sole"]],
    }


@dataclass(frozen=True, slots=True)
class _Span:
    from_at: datetime
    to_at: datetime
    is_indexed: bool


@dataclass(slots=True)
class _Walk:
    """A walk from the newest span to the oldest, in bounded steps."""

    question: LogQuestion
    params: dict[str, Any]
    top: LogKey
    since: datetime | None
    deadline: float
    clock: Callable[[], float]
    lines: list[LogLine] = field(default_factory=list)
    chunk: int = _FIRST_CHUNK
    seen: int = 0

    def run(self, spans: list[_Span]) -> Plan[LogPage]:
        for span in spans:
            low = span.from_at if self.since is None else max(span.from_at, self.since)
            while self.top.at > low:
                yield from self._step(span, low)
                if len(shown := _fitting(self.lines)) < len(self.lines):
                    return LogPage(shown, shown[-1].at, str(shown[-1].key))
                if len(self.lines) == self.question.limit:
                    return LogPage(self.lines, self.lines[-1].at, str(self.lines[-1].key))
                is_last = span is spans[-1] and self.top.at <= low
                if not is_last and self.clock() > self.deadline:
                    return LogPage(self.lines, self.top.at, str(self.top))
        return LogPage(self.lines, self.since or spans[-1].from_at, None)

    def _step(self, span: _Span, low: datetime) -> Plan[None]:
        # An index does not help to exclude a word.
        if self.params["hints"] and span.is_indexed and self._is_rare:
            high = min(span.to_at, self.top.at + _TICK)
            rows = yield Execute("logs/by_words", self._parameters(low) | {"high": high})
            self._take(rows, low)
            # All lines of a span did not fill the page: the word stays rare.
            self.seen += (len(rows) + 1) * _RARE
            return
        started = self.clock()
        params = self._parameters(low) | {"chunk": self.chunk}
        edge = (yield Execute(f"logs/edge{self._road}", params))[0]["edge"]
        rows = yield Execute(f"logs/newest{self._road}", params | {"edge": edge})
        # A span that ended early does not show how rare a word is.
        self.seen += self.chunk if edge > low else 0
        self._take(rows, edge)
        self._adapt(self.clock() - started)

    @property
    def _is_rare(self) -> bool:
        return self.seen > len(self.lines) * _RARE

    @property
    def _road(self) -> str:
        """The suffix of the statements whose index excludes most lines."""
        # The index of a job has the lines of one name in order, and a renamed job has several
        # names.
        if self.params["jobs"] and len(self.params["jobs"]) == 1:
            return "_of_job"
        levels = self.question.levels
        return "_bad" if levels and BAD.issuperset(levels) else ""

    def _parameters(self, low: datetime) -> dict[str, Any]:
        at, run_id, attempt, seq = self.top
        if run_id == 0:
            # All lines before this instant: so none of a thousand lines at the next one is
            # repeated.
            at, run_id, attempt, seq = at - _TICK, 2**62, _MOST, _MOST
        limit = self.question.limit - len(self.lines)
        place = {"at": at, "run_id": run_id, "of_attempt": attempt, "seq": seq}
        return self.params | place | {"low": low, "limit": limit}

    def _take(self, rows: Rows, edge: datetime) -> None:
        self.lines += [LogLine(**row) for row in rows]
        self.top = LogKey(edge, 0, 0, 0)

    def _adapt(self, seconds: float) -> None:
        """Use larger steps if they are quick, but never larger than the remaining time allows."""
        left = max(self.deadline - self.clock(), 0)
        by_time = int(self.chunk * left / max(seconds, 0.001) * 0.7)
        self.chunk = max(min(self.chunk * 3, by_time, _LARGEST_CHUNK), _FIRST_CHUNK)


def _search_run(
    question: LogQuestion,
    params: dict[str, Any],
    since: datetime | None,
    until: datetime | None,
) -> Plan[LogPage]:
    """Search the few lines of a run, in the order of attempts: almost that of time, except lines
    that arrived out of order."""
    assert question.run_id is not None
    marks = yield Execute("runs/created_after", {"id": question.run_id})
    low = max((at for at in (since, marks[0]["since"]) if at is not None), default=None)
    cursor = question.cursor
    place = {
        "run": question.run_id,
        "low": low or "-infinity",
        "high": until or "infinity",
        "of_attempt": cursor.attempt if cursor else _MOST,
        "seq": cursor.seq if cursor else _MOST,
        "limit": question.limit,
    }
    rows = yield Execute("logs/newest_of_run", params | place)
    found = [LogLine(**row) for row in rows]
    lines = _fitting(found)
    if len(lines) == len(found) < question.limit:
        return LogPage(lines, low, None)
    return LogPage(lines, lines[-1].at, str(lines[-1].key))


def _fitting(lines: list[LogLine]) -> list[LogLine]:
    """Return the lines that fit; a page of very long lines ends early."""
    return lines[: fitting(lines)]


def read_run_logs(
    run_id: int, *, attempt: int | None, limit: int, after: LogKey | None
) -> Plan[LogPage]:
    """Return all lines of a run, the oldest first. Raise RunNotFound if there is no such run."""
    low = yield from oldest_trace((yield from find_run(run_id)))
    place = {
        "run": run_id,
        "attempt": attempt,
        "low": low,
        "of_attempt": after.attempt if after else 0,
        "seq": after.seq if after else 0,
        "limit": limit,
    }
    rows = yield Execute("logs/first_of_run", place)
    found = [LogLine(**row) for row in rows]
    lines = _fitting(found)
    is_all = len(lines) == len(found) < limit
    return LogPage(lines, low, None if is_all else str(lines[-1].key))


def recent_logs(question: LogQuestion, *, seconds: float, limit: int) -> Plan[list[LogLine]]:
    """Return the newest `limit` lines of the last seconds, the oldest first."""
    params, _ = yield from start_search(question)
    own = {"run": question.run_id, "seconds": seconds, "limit": limit}
    rows = yield Execute("logs/recent", params | own)
    return [LogLine(**row) for row in reversed(rows)]
