"""Progress reports of running attempts; only the latest of each is written."""

from __future__ import annotations

import threading

import psycopg

from rota.engine.logs.log_lines import clean
from rota.engine.loop import Loop
from rota.postgres.runs.claimed import ProgressReport, report_progress
from rota.postgres.sessions.pool import Database

_PERIOD = 1.0

Latest = dict[tuple[int, int], tuple[float, str | None]]


class ProgressBoard(Loop):
    name = "progress"

    def __init__(self, database: Database) -> None:
        super().__init__()
        self._database = database
        self._lock = threading.Lock()
        self._latest: Latest = {}
        self._writing: Latest = {}
        # Reports of attempts whose own transaction would conflict with a write about their run.
        self._held: dict[tuple[int, int], tuple[float, str | None] | None] = {}
        self.worker = 0

    def report(self, run_id: int, attempt: int, fraction: float, message: str | None) -> None:
        """Called from any thread; costs the handler only this call."""
        with self._lock:
            words = None if message is None else clean(str(message))
            board = self._held if (run_id, attempt) in self._held else self._latest
            board[run_id, attempt] = (fraction, words)

    def hold(self, run_id: int, attempt: int) -> bool:
        """Stop writing about the attempt. Called from any thread. Return False while a write is
        under way: call again."""
        with self._lock:
            key = run_id, attempt
            self._held.setdefault(key, None)
            if (report := self._latest.pop(key, None)) is not None:
                self._held[key] = report
            return key not in self._writing

    def release(self, run_id: int, attempt: int) -> None:
        """Write the report made meanwhile; if the attempt has ended, that has no effect."""
        with self._lock:
            if (report := self._held.pop((run_id, attempt), None)) is not None:
                self._latest[run_id, attempt] = report

    async def run_once(self) -> float:
        with self._lock:
            latest, self._latest = self._latest, {}
            self._writing = latest
        try:
            await self._write(latest)
        except BaseException:
            self._say_again(latest)
            raise
        finally:
            with self._lock:
                self._writing = {}
        return _PERIOD

    async def _write(self, latest: Latest) -> None:
        """Write the reports. A message that the database cannot store must not prevent the
        others."""
        try:
            if latest:
                await self._send(latest)
        except psycopg.DataError:
            if len(latest) > 1:
                for key, report in latest.items():
                    await self._write({key: report})
                return
            ((key, (fraction, words)),) = latest.items()
            await self._send({key: (fraction, words and ascii(words)[1:-1])})

    async def _send(self, latest: Latest) -> None:
        reports = [ProgressReport(*key, *report) for key, report in latest.items()]
        query = report_progress(self.worker, reports)
        held = set(await self._database.fetch(query, is_hurried=False))
        if held:
            self._say_again({key: report for key, report in latest.items() if key[0] in held})

    def _say_again(self, unwritten: Latest) -> None:
        """Keep reports for the next write, unless the attempt has a newer one or its own
        transaction."""
        with self._lock:
            self._latest = {
                key: report
                for key, report in (unwritten | self._latest).items()
                if key not in self._held
            }
