"""Reading and searching log lines. Shared by Python, the CLI and the API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Unpack

from rota.errors import SearchError
from rota.model.asked import Since, Until
from rota.model.durations import read_duration
from rota.model.log import LogKey, LogLine, LogPage
from rota.model.log_question import (
    LogFilters,
    LogQuestion,
    LogRun,
    OfAttempt,
    Patience,
    SearchTerms,
    TailLines,
)
from rota.model.log_volume import LogVolume
from rota.operations.commands import AsyncCommands, Commands, SyncCommands
from rota.operations.logs.tail import MOST_LINES, WINDOW_SECONDS, Tail
from rota.operations.reading import reading
from rota.operations.scope import Scope
from rota.postgres.logs import logs
from rota.postgres.logs import volume as log_volume
from rota.postgres.plans import Plan

Lines = list[LogLine]

POLL_SECONDS = 0.5
_MOST_OF_RUN = 10_000


class LogCommands(Commands):
    scope = Scope(takes=frozenset({"search", "volume", "recent"}), of_run=frozenset({"show"}))

    @reading(SearchError)
    def search(
        self,
        text: SearchTerms = "",
        *,
        since: Since = None,
        until: Until = None,
        limit: int = 100,
        cursor: str | None = None,
        patience_seconds: Patience = None,
        **filters: Unpack[LogFilters],
    ) -> Plan[LogPage]:
        """Search log lines, newest first. A long search stops at its time limit, reports how far
        back it has searched, and continues from its cursor.

        It also stops after about 4 MB."""
        question = LogQuestion.of(
            text, filters, since=since, until=until, limit=limit, cursor=cursor
        )
        budget = None if patience_seconds is None else read_duration(patience_seconds)
        return logs.search_logs(question, logs.BUDGET_SECONDS if budget is None else budget)

    @reading(SearchError)
    def show(
        self,
        run_id: LogRun,
        *,
        attempt: OfAttempt = None,
        limit: int = 1000,
        cursor: str | None = None,
    ) -> Plan[LogPage]:
        """Show all log lines of a run, oldest first.

        `cursor` continues after a page that is full, or large: one ends at about 4 MB. Raises
        RunNotFound if there is no such run."""
        if not 1 <= limit <= _MOST_OF_RUN:
            raise SearchError(f"limit must be from 1 to {_MOST_OF_RUN}, not {limit}")
        after = LogKey.parse(cursor) if cursor else None
        return logs.read_run_logs(run_id, attempt=attempt, limit=limit, after=after)

    @reading(SearchError)
    def volume(
        self,
        text: SearchTerms = "",
        *,
        since: Since = None,
        until: Until = None,
        **filters: Unpack[LogFilters],
    ) -> Plan[LogVolume]:
        """The number of matching lines by level, in sixty intervals of a range (by default the last
        day). For an interval with very many lines, the numbers are estimates from a sample."""
        question = LogQuestion.of(text, filters, since=since, until=until)
        return log_volume.read_volume(question)

    @reading(SearchError)
    def recent(
        self,
        text: SearchTerms = "",
        *,
        seconds: float = WINDOW_SECONDS,
        limit: int = MOST_LINES,
        **filters: Unpack[LogFilters],
    ) -> Plan[Lines]:
        """The lines of the last seconds, oldest first: one poll of a tail."""
        question = LogQuestion.of(text, filters)
        return logs.recent_logs(question, seconds=seconds, limit=limit)


class Logs(LogCommands, AsyncCommands):
    """`app.logs`"""

    @property
    def sync(self) -> SyncLogs:
        return SyncLogs(self.database, self.actor).of_tenant(self.tenant)

    async def tail(
        self,
        text: SearchTerms = "",
        *,
        lines: TailLines = 10,
        poll: float = POLL_SECONDS,
        **filters: Unpack[LogFilters],
    ) -> AsyncGenerator[LogLine]:
        """Yield the last few lines, then every new one as it is stored, until the caller stops."""
        tail = Tail()
        # First note the lines that exist, so that lines written meanwhile count as new.
        tail.news(await self.recent(text, **filters))
        first = await self.search(text, limit=max(lines, 1), **filters)
        tail.news(first.lines[:lines])
        for line in first.lines[:lines][::-1]:
            yield line
        async for news in self._looks(tail, text, poll, filters):
            for line in news:
                yield line

    async def follow(
        self,
        text: SearchTerms = "",
        *,
        seconds: float = WINDOW_SECONDS,
        poll: float = POLL_SECONDS,
        **filters: Unpack[LogFilters],
    ) -> AsyncGenerator[Lines]:
        """Yield the lines of the last seconds, then at each poll the new ones, even if there are
        none, so that a reader notices when it stops."""
        tail = Tail()
        yield tail.news(await self.recent(text, seconds=seconds, **filters))
        async for news in self._looks(tail, text, poll, filters):
            yield news

    async def _looks(
        self, tail: Tail, text: str, poll: float, filters: LogFilters
    ) -> AsyncGenerator[Lines]:
        while True:
            await asyncio.sleep(poll)
            yield tail.news(await self.recent(text, **filters))


class SyncLogs(LogCommands, SyncCommands):
    """`app.logs.sync`"""

    def tail(
        self,
        text: SearchTerms = "",
        *,
        lines: TailLines = 10,
        poll: float = POLL_SECONDS,
        **filters: Unpack[LogFilters],
    ) -> Iterator[LogLine]:
        """The same, for sync callers."""
        tail = Tail()
        tail.news(self.recent(text, **filters))
        first = self.search(text, limit=max(lines, 1), **filters)
        tail.news(first.lines[:lines])
        yield from first.lines[:lines][::-1]
        while True:
            time.sleep(poll)
            yield from tail.news(self.recent(text, **filters))
