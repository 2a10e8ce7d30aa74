"""Which workers want to be called when something is enqueued, and passing calls on."""

from __future__ import annotations

from collections.abc import Sequence

from psycopg.sql import Composed

from rota.store.queries import Query, has_any, nothing, number, only
from rota.store.statements import Statements


def answer_calls(worker: int, *, waiting: bool, polling: bool, channel: str) -> Query[None]:
    """Whether it wants to be called, on this channel, or looks by itself."""
    params = {"worker": worker, "waiting": waiting, "polling": polling, "channel": channel}
    return Query("workers/answer_calls", params, nothing)


def next_xid() -> Query[int]:
    """Every transaction that could not see what was just committed has an id below this."""
    return Query("workers/next_xid", {}, number)


def oldest_xid() -> Query[int]:
    """The oldest transaction that is still under way."""
    return Query("workers/oldest_xid", {}, number)


def late_enqueues(xid: int) -> Query[bool]:
    """Whether a transaction below this id has changed runs and is still open."""
    return Query("workers/late_enqueues", {"xid": xid % 2**32}, has_any)


def common_channel() -> Query[str]:
    """Where all workers are called. Only those who may read the settings know it."""
    return Query("workers/channel", {}, only(lambda row: str(row[0])))


def listen(statements: Statements, channel: str) -> Composed:
    return statements.naming("session/listen", channel=channel)


def probe(channel: str, payload: str) -> Query[None]:
    """A call to oneself."""
    return Query("session/probe", {"channel": channel, "payload": payload}, nothing)


def pass_on(worker: int, queues: Sequence[str]) -> Query[None]:
    """It has more than it can do: others are called, and this one no more for now."""
    return Query("workers/pass_on", {"worker": worker, "queues": list(queues)}, nothing)


def pass_over(worker: int, queues: Sequence[str]) -> Query[None]:
    """Whoever was called for these queues did not come."""
    return Query("workers/pass_over", {"worker": worker, "queues": list(queues)}, nothing)
