"""Notices when awaited runs end, for all waiters in this process.

One thread with one connection, started by the first wait and ended after a minute without waiters.
A notification may get lost, so polling, at growing intervals, is what guarantees the result
(docs/decisions/0030-told-waits.md).
"""

from __future__ import annotations

import heapq
import math
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial

import psycopg

from rota.errors import RotaError
from rota.model.run import RunEnd
from rota.postgres.errors import as_rota_error
from rota.postgres.runs.waits import WaitStatements, read_call
from rota.postgres.sessions.connection import Conn
from rota.postgres.sessions.pool import Database

_REST_SECONDS = 60.0
_ANSWER_SECONDS = 10.0
_AGAIN_SECONDS = 0.1
# The first polls follow quickly, for runs that ended while the wait was being announced.
_GAPS = (0.01, 0.05, 0.25, 1.0)
_GAPS_UNTOLD = (0.003, 0.005, 0.008, 0.012, 0.02, 0.03, 0.05, 0.08, 0.12, 0.25)
# The server forgets a wait that is not announced again after two minutes.
_ANNOUNCE_SECONDS = 30.0

# The end of the run, or None: the run is no longer open, and the waiter reads it.
End = Future[RunEnd | None]


class _Awaited:
    """One awaited run, with all its waiters."""

    __slots__ = ("announced_at", "asks", "ends")

    def __init__(self) -> None:
        self.ends: list[End] = []
        self.asks = 0
        self.announced_at = 0.0


class EndWatch:
    """`watch` may be called from any thread. All else belongs to the watch's own thread, except for
    what the lock guards."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._say = WaitStatements(database.statements)
        self._lock = threading.Lock()
        self._awaited: dict[int, _Awaited] = {}
        self._fresh: set[int] = set()
        self._left: set[int] = set()
        self._thread: threading.Thread | None = None
        self._bell: socket.socket | None = None
        self._is_stopping = False
        self._told: deque[str] = deque()
        self._due: list[tuple[float, int]] = []
        self._hears = False
        self._announce_from = 0.0

    def watch(self, run_id: int) -> End:
        """Return a future that is done when the run is no longer open. Cancel it to stop
        waiting."""
        end: End = Future()
        with self._lock:
            self._awaited.setdefault(run_id, _Awaited()).ends.append(end)
            self._fresh.add(run_id)
            if self._thread is None or not self._thread.is_alive():
                self._start()
            else:
                self._ring()
        end.add_done_callback(partial(self._leave, run_id))
        return end

    def close(self) -> None:
        with self._lock:
            thread, self._is_stopping = self._thread, True
            self._ring()
        if thread is not None:
            thread.join(_ANSWER_SECONDS)
        with self._lock:
            left = self._take_all()
        _fail(left, RotaError("the application was closed while waiting for a run"))

    def _start(self) -> None:
        heard, self._bell = socket.socketpair()
        heard.setblocking(False)
        self._bell.setblocking(False)
        self._is_stopping = False
        self._thread = threading.Thread(
            target=self._run, args=(heard,), name="rota waits", daemon=True
        )
        self._thread.start()

    def _ring(self) -> None:
        if self._bell is not None:
            with suppress(OSError):  # full: the thread wakes up anyway
                self._bell.send(b"\0")

    def _leave(self, run_id: int, end: End) -> None:
        if not end.cancelled():
            return
        with self._lock:
            awaited = self._awaited.get(run_id)
            if awaited is not None and end in awaited.ends:
                awaited.ends.remove(end)
                if not awaited.ends:
                    del self._awaited[run_id]
                    self._left.add(run_id)

    # In the thread.

    def _run(self, heard: socket.socket) -> None:
        with heard:
            while True:
                has_worked = False
                try:
                    with self._connect() as conn:
                        self._begin(conn)
                        has_worked = True
                        if self._serve(conn, heard):
                            return
                except Exception as error:
                    if not has_worked or not isinstance(error, psycopg.Error):
                        self._give_up(error)
                        return
                if self._is_idle():
                    return
                time.sleep(_AGAIN_SECONDS)

    def _is_idle(self) -> bool:
        """End the thread if there are no waiters, instead of opening another connection or
        restarting a server."""
        with self._lock:
            if not self._awaited or self._is_stopping:
                self._end_thread()
                return True
            return False

    def _give_up(self, error: Exception) -> None:
        """Fail all waits, because the database is unavailable or refuses; waiters get the error as
        from any other statement."""
        with self._lock:
            self._end_thread()
            left = self._take_all()
        _fail(left, as_rota_error(error) if isinstance(error, psycopg.Error) else error)

    def _take_all(self) -> list[_Awaited]:
        awaited, self._awaited = self._awaited, {}
        self._fresh.clear()
        return list(awaited.values())

    def _end_thread(self) -> None:
        self._thread = None
        if self._bell is not None:
            self._bell.close()
            self._bell = None

    def _connect(self) -> Conn:
        return self._database.connect_sync("rota waits", _ANSWER_SECONDS, session=True)

    def _begin(self, conn: Conn) -> None:
        self._told.clear()
        self._hears = False
        self._announce_from = math.inf
        try:
            if self._database.has_sessions:
                self._say.listen(conn, self._told.append)
                self._announce_from = 0.0
        except psycopg.Error:  # for example, a standby does not allow LISTEN
            if conn.closed:
                raise
        with self._lock:
            self._fresh.update(self._awaited)

    def _serve(self, conn: Conn, heard: socket.socket) -> bool:
        """Serve until there was no waiter for a while, or the application closes. Return True
        then."""
        idle_since = time.monotonic()
        while True:
            with self._lock:
                fresh, self._fresh = self._fresh & self._awaited.keys(), set()
                now = time.monotonic()
                if self._awaited:
                    idle_since = now
                if self._is_stopping or now - idle_since >= _REST_SECONDS:
                    self._end_thread()
                    return True
            self._look(conn, fresh | self._ask_now(now), fresh)
            while self._told:
                self._hear(self._told.popleft())
            self._forget(conn)
            self._told.extend(_calls(conn))
            if not self._told:
                self._wait(conn, heard, idle_since + _REST_SECONDS)

    def _forget(self, conn: Conn) -> None:
        with self._lock:
            left, self._left = self._left - self._awaited.keys(), set()
        if left and self._may_announce():
            self._say.leave(conn, list(left))

    def _may_announce(self) -> bool:
        return time.monotonic() >= self._announce_from

    def _ask_now(self, now: float) -> set[int]:
        """Return the runs that are due to be polled, or to be announced again."""
        found: set[int] = set()
        while self._due and self._due[0][0] <= now:
            found.add(heapq.heappop(self._due)[1])
        return found & self._awaited.keys()

    def _look(self, conn: Conn, ids: set[int], fresh: set[int]) -> None:
        if not ids:
            return
        now = time.monotonic()
        stale = {run_id for run_id in ids if self._is_stale(run_id, now)}
        gone: set[int] = set()
        rest = ids
        if (fresh or stale) and self._may_announce():
            gone |= self._announce(conn, fresh | stale, now)
            rest = ids if not self._may_announce() else ids - fresh - stale
        if rest:
            gone |= self._say.gone(conn, list(rest))
        self._end(dict.fromkeys(gone))
        with self._lock:
            self._left |= gone
        gaps = _GAPS if self._hears else _GAPS_UNTOLD
        for run_id in ids - gone:
            if (awaited := self._awaited.get(run_id)) is not None:
                gap = gaps[min(awaited.asks, len(gaps) - 1)]
                awaited.asks += 1
                heapq.heappush(self._due, (now + gap, run_id))

    def _is_stale(self, run_id: int, now: float) -> bool:
        awaited = self._awaited.get(run_id)
        return awaited is not None and now - awaited.announced_at > _ANNOUNCE_SECONDS

    def _announce(self, conn: Conn, ids: set[int], now: float) -> set[int]:
        try:
            gone = self._say.announce(conn, list(ids))
        except psycopg.Error:  # read-only, no privilege to write, or locked: poll instead
            if conn.closed:
                raise
            self._announce_from, self._hears = now + _ANNOUNCE_SECONDS, False
            return set()
        for run_id in ids:
            if (awaited := self._awaited.get(run_id)) is not None:
                awaited.announced_at = now
        return gone

    def _hear(self, words: str) -> None:
        self._hears = True
        call = read_call(words)
        if isinstance(call, RunEnd):
            self._end({call.id: call})
            self._left.add(call.id)
        elif call is not None:
            heapq.heappush(self._due, (0.0, call))  # poll it next

    def _end(self, ends: dict[int, RunEnd | None]) -> None:
        with self._lock:
            ended = [(self._awaited.pop(run_id, None), run) for run_id, run in ends.items()]
        for awaited, run in ended:
            for end in awaited.ends if awaited is not None else ():
                with suppress(InvalidStateError):  # cancelled meanwhile
                    end.set_result(run)

    def _wait(self, conn: Conn, heard: socket.socket, rest_at: float) -> None:
        until = min(self._due[0][0], rest_at) if self._due else rest_at
        look = select.poll()
        look.register(conn.fileno(), select.POLLIN)
        look.register(heard, select.POLLIN)
        for number, _ in look.poll(max(0.0, until - time.monotonic()) * 1000):
            if number == heard.fileno():
                heard.recv(4096)
            else:
                conn.pgconn.consume_input()
                self._told.extend(_calls(conn))


def _fail(left: Iterable[_Awaited], error: Exception) -> None:
    for awaited in left:
        for end in awaited.ends:
            with suppress(InvalidStateError):
                end.set_exception(error)


def _calls(conn: Conn) -> Iterable[str]:
    while (call := conn.pgconn.notifies()) is not None:
        yield call.extra.decode()
