"""Calls: which workers expect them, and passing them on."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import Composed

from rota.postgres.queries import Query, has_any, nothing, number, only
from rota.postgres.statements import Statements


def answer_calls(worker: int, *, waiting: bool, polling: bool, channel: str) -> Query[None]:
    """Store whether a worker expects calls, on this channel, or polls."""
    params = {"worker": worker, "waiting": waiting, "polling": polling, "channel": channel}
    return Query("workers/answer_calls", params, nothing)


def next_xid() -> Query[int]:
    """Return a transaction id above that of every transaction that could not see the last
    commit."""
    return Query("workers/next_xid", {}, number)


def oldest_xid() -> Query[int]:
    """Return the id of the oldest open transaction."""
    return Query("workers/oldest_xid", {}, number)


def late_enqueues(xid: int) -> Query[bool]:
    """Return whether an open transaction below this id has changed runs."""
    return Query("workers/late_enqueues", {"xid": xid % 2**32}, has_any)


def common_channel() -> Query[str]:
    """Return the common channel of all workers. Only roles that may read the settings can read
    it."""
    return Query("workers/channel", {}, only(lambda row: str(row[0])))


def listen(statements: Statements, channel: str) -> Composed:
    return statements.naming("session/listen", channel=channel)


def probe(channel: str, payload: str) -> Query[None]:
    """Send a call to this worker's own channel."""
    return Query("session/probe", {"channel": channel, "payload": payload}, nothing)


def pass_on(worker: int, queues: Sequence[str]) -> Query[None]:
    """Call other workers, because this one has more runs than slots, and stop calling it for
    now."""
    return Query("workers/pass_on", {"worker": worker, "queues": list(queues)}, nothing)


def pass_over(worker: int, queues: Sequence[str]) -> Query[None]:
    """Stop calling the waiting workers that would have been called before this one and did not
    claim what it has found. A worker that receives this message waits again when it is idle; a
    stopped one stays excluded."""
    return Query("workers/pass_over", {"worker": worker, "queues": list(queues)}, nothing)
