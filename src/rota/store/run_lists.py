"""Lists of runs, and what is done to many at once.

A filter that no index answers is searched in portions of ids: each is read as a whole, so that the
work of one statement is bounded however rare its runs are, and a search can stop between two.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rota.errors import FilterError
from rota.model.bulk import Action, BulkItem
from rota.model.list_filters import TimeOrder
from rota.model.run import RunInfo
from rota.model.run_filter import RunFilter, RunPage
from rota.model.states import END_STATES
from rota.store.clock import read_clock
from rota.store.pages import check_order
from rota.store.plans import Ask, Plan, Rows

_PORTION = 4_000
_LEAST_PORTION = 2_000
# How long a portion should take, and by how much the next one may be larger.
_PORTION_SECONDS = 0.02
_GROWTH = 4.0


@dataclass(slots=True)
class _Search:
    """The ids that are left to look at: above low, up to high."""

    low: int
    high: int
    size: int
    is_oldest: bool

    def portion(self) -> tuple[int, int]:
        if self.is_oldest:
            return self.low, min(self.high, self.low + self.size)
        return max(self.low, self.high - self.size), self.high

    def passed(self, portion: tuple[int, int], took: float, left: float) -> None:
        """The next portion is one that fits into the seconds that are left."""
        if self.is_oldest:
            self.low = portion[1]
        else:
            self.high = portion[0]
        factor = min(_GROWTH, min(_PORTION_SECONDS, left) / max(took, 0.001))
        self.size = max(_LEAST_PORTION, int(self.size * factor))

    @property
    def cursor(self) -> int:
        return self.low if self.is_oldest else self.high + 1


def list_page(
    wanted: RunFilter,
    *,
    order: TimeOrder = "newest",
    cursor: int | None = None,
    limit: int = 50,
    seconds: float | None = None,
) -> Plan[RunPage]:
    """One page. `cursor` is the last page's; `seconds` is the time after which the search stops
    where it is."""
    check_order(order, TimeOrder)
    yield Ask("session/plan_by_values", {"is_local": True})
    statement = "runs/list_oldest" if order == "oldest" else "runs/list"
    rows, cursor, searched_to = yield from _find(statement, wanted, cursor, limit, seconds)
    return RunPage([RunInfo(**row) for row in rows], cursor, searched_to)


def list_ids(wanted: RunFilter, *, cursor: int | None, limit: int) -> Plan[tuple[Rows, int | None]]:
    """Newest first: id, job and state, and where to go on."""
    rows, cursor, _ = yield from _find("runs/list_ids", wanted, cursor, limit, None)
    return rows, cursor


def _find(
    statement: str, wanted: RunFilter, cursor: int | None, limit: int, seconds: float | None
) -> Plan[tuple[Rows, int | None, datetime | None]]:
    if limit < 1:
        raise FilterError(f"limit {limit} is less than 1")
    started = time.monotonic()
    wanted = yield from _absolute(wanted)
    search = yield from _begin(statement, wanted, cursor)
    found: Rows = []
    while search.low < search.high:
        before = time.monotonic()
        low, high = search.portion()
        (mark,) = yield Ask("runs/created_after", {"id": low + 1})
        params = _parameters(wanted) | {"low": low, "high": high, "ended_after": mark["since"]}
        # One more than wanted, to know whether there is another page.
        found += yield Ask(statement, params | {"limit": limit + 1 - len(found)})
        if len(found) > limit:
            return found[:limit], found[limit - 1]["id"], None
        now = time.monotonic()
        left = _PORTION_SECONDS if seconds is None else started + seconds - now
        search.passed((low, high), now - before, left)
        if left <= 0 and search.low < search.high:
            return found, search.cursor, mark["since"]
    return found, None, None


def _begin(statement: str, wanted: RunFilter, cursor: int | None) -> Plan[_Search]:
    (ids,) = yield Ask("runs/id_range", {"since": wanted.since, "until": wanted.until})
    size = ids["high"] if wanted.is_indexed else _PORTION
    search = _Search(ids["low"], ids["high"], max(size, 1), statement == "runs/list_oldest")
    if cursor is not None and search.is_oldest:
        search.low = max(search.low, cursor)
    elif cursor is not None:
        search.high = min(search.high, cursor - 1)
    return search


def _absolute(wanted: RunFilter) -> Plan[RunFilter]:
    if not isinstance(wanted.since, timedelta) and not isinstance(wanted.until, timedelta):
        return wanted
    now = yield from read_clock()
    try:
        since, until = (
            now - it if isinstance(it, timedelta) else it for it in (wanted.since, wanted.until)
        )
    except OverflowError:
        raise FilterError("since and until reach back at most to the year 1") from None
    return replace(wanted, since=since, until=until)


def _parameters(wanted: RunFilter) -> dict[str, Any]:
    states = wanted.wanted_states
    return {
        "states": states,
        "are_ended": states is not None and set(states) <= set(END_STATES),
        "with_expired": states is not None and "cancelled" in states,
        "is_dead": wanted.dead,
        "job": wanted.job,
        "system": wanted.shows_system,
        "queue": wanted.queue,
        "tenant": wanted.tenant,
        "tag": wanted.tag,
        "key": wanted.key,
        "schedule": wanted.schedule,
        "since": wanted.since,
        "until": wanted.until,
    }


def find_states(ids: Iterable[int]) -> Plan[Rows]:
    """Id, job and state of those that there are."""
    wanted = sorted(set(ids))
    (mark,) = yield Ask("runs/created_after", {"id": wanted[0]})
    return (yield Ask("runs/states", {"ids": wanted, "since": mark["since"]}))


def act_on_many(
    action: Action,
    ids: Iterable[int],
    *,
    payload: str | None,
    delay: float | None,
    reason: str | None,
    actor: str | None,
) -> Plan[list[BulkItem]]:
    """One statement: a few tens of runs, each done or refused for itself."""
    params = {
        "action": action,
        "ids": list(ids),
        "payload": payload,
        "delay": delay,
        "reason": reason,
        "actor": actor,
    }
    rows = yield Ask("runs/act_on_many", params)
    return [
        BulkItem(row["run_id"], "refused" if row["refusal"] else row["answer"], row["refusal"])
        for row in rows
    ]
