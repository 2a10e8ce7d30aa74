"""Lists runs, and acts on many at once.

A filter without an index is searched in portions of ids. Each portion is read completely, so that
the work of one statement is bounded however rare the matches are, and a search can stop between two
portions.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from rota.errors import FilterError
from rota.model.bulk import Action, BulkItem, BulkOutcome
from rota.model.list_filters import TimeOrder
from rota.model.page import PAGE_BYTES, fitting
from rota.model.queue import SYSTEM_QUEUE
from rota.model.run import RunInfo
from rota.model.run_counts import RunCount, RunCounts, StateCount
from rota.model.run_filter import RunFilter, RunPage
from rota.model.states import END_STATES, OPEN_STATES, RETRIABLE_STATES
from rota.postgres.clock import read_clock
from rota.postgres.pages import check_order, excluded, like, wanted_metadata
from rota.postgres.plans import Execute, Plan, Rows, call

_PORTION = 4_000
_LEAST_PORTION = 2_000
# For searches that read payloads, each of up to a megabyte.
_HEAVY_PORTION = 500
_LEAST_HEAVY_PORTION = 100
# How long a portion should take, and by how much the next one may grow.
_PORTION_SECONDS = 0.02
_HEAVY_PORTION_SECONDS = 0.1
_GROWTH = 4.0


@dataclass(slots=True)
class _Search:
    """The range of ids that is left to search: above low, up to high."""

    low: int
    high: int
    size: int
    is_oldest: bool
    least: int = _LEAST_PORTION
    seconds: float = _PORTION_SECONDS
    # Error groups of the wanted error type.
    error_groups: list[str] | None = None

    def portion(self) -> tuple[int, int]:
        if self.is_oldest:
            return self.low, min(self.high, self.low + self.size)
        return max(self.low, self.high - self.size), self.high

    def passed(self, portion: tuple[int, int], took: float, left: float) -> None:
        """Advance past a portion; the next one is sized to fit into the remaining seconds."""
        if self.is_oldest:
            self.low = portion[1]
        else:
            self.high = portion[0]
        factor = min(_GROWTH, min(self.seconds, left) / max(took, 0.001))
        self.size = max(self.least, int(self.size * factor))

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
    value_bytes: int | None = None,
) -> Plan[RunPage]:
    """Return a page. `cursor` is that of the last page; the search stops after `seconds`; payloads
    and results larger than `value_bytes` are omitted, and the page ends at PAGE_BYTES."""
    check_order(order, TimeOrder)
    yield Execute("session/plan_by_values", {"is_local": True})
    statement = "runs/list_oldest" if order == "oldest" else "runs/list"
    rows, cursor, searched_to = yield from _find(
        statement, wanted, cursor, limit, seconds, value_bytes=value_bytes
    )
    return RunPage([RunInfo(**row) for row in rows], cursor, searched_to)


def list_ids(
    wanted: RunFilter, *, cursor: int, limit: int, seconds: float, begun_at: datetime
) -> Plan[tuple[list[int], int | None]]:
    """Return ids below the cursor, newest first, and where to go on; without runs that ended after
    `begun_at`."""
    rows, after, _ = yield from _find("runs/list_ids", wanted, cursor, limit, seconds, begun_at)
    return [row["id"] for row in rows], after


def count_runs(
    wanted: RunFilter,
    *,
    most: int,
    seconds: float,
    cursor: int | None = None,
    begun_at: datetime | None = None,
) -> Plan[RunCounts]:
    """Count runs, newest first, up to `most` and for at most `seconds`."""
    wanted = yield from absolute(wanted)
    search = yield from _begin("runs/count", wanted, cursor)
    return (yield from _count(wanted, search, most=most, seconds=seconds, begun_at=begun_at))


def _count(
    wanted: RunFilter, search: _Search, *, most: int, seconds: float, begun_at: datetime | None
) -> Plan[RunCounts]:
    started = time.monotonic()
    found: Counter[tuple[str, str]] = Counter()
    while search.low < search.high:
        before = time.monotonic()
        low, high = search.portion()
        params = yield from _portion_of(wanted, search, begun_at)
        rows = yield Execute("runs/count", params | {"limit": most - found.total()})
        found.update({(row["job"], row["state"]): row["runs"] for row in rows})
        if found.total() >= most:
            return _counts(found, min(row["lowest"] for row in rows))
        now = time.monotonic()
        search.passed((low, high), now - before, started + seconds - now)
        if now - started >= seconds and search.low < search.high:
            return _counts(found, search.cursor)
    return _counts(found, None)


def _counts(found: Counter[tuple[str, str]], cursor: int | None) -> RunCounts:
    groups = [RunCount(job, state, runs) for (job, state), runs in found.most_common()]
    return RunCounts(found.total(), cursor is None, groups, cursor)


def _find(
    statement: str,
    wanted: RunFilter,
    cursor: int | None,
    limit: int,
    seconds: float | None,
    begun_at: datetime | None = None,
    value_bytes: int | None = None,
) -> Plan[tuple[Rows, int | None, datetime | None]]:
    if limit < 1:
        raise FilterError(f"limit must be at least 1, not {limit}")
    most_bytes = None if value_bytes is None else PAGE_BYTES
    started = time.monotonic()
    wanted = yield from absolute(wanted)
    search = yield from _begin(statement, wanted, cursor)
    found: Rows = []
    while search.low < search.high:
        before = time.monotonic()
        low, high = search.portion()
        params = yield from _portion_of(wanted, search, begun_at)
        # One more than wanted, to find out whether there is another page.
        asked = {"limit": limit + 1 - len(found), "value_bytes": value_bytes}
        found += yield Execute(statement, params | asked)
        if len(found) > limit:
            shown = fitting(found[:limit], most_bytes)
            return found[:shown], found[shown - 1]["id"], None
        if (shown := fitting(found, most_bytes)) < len(found):
            return found[:shown], found[shown - 1]["id"], None
        now = time.monotonic()
        left = _PORTION_SECONDS if seconds is None else started + seconds - now
        search.passed((low, high), now - before, left)
        if left <= 0 and search.low < search.high:
            return found, search.cursor, params["ended_after"]
    return found, None, None


def count_states(wanted: RunFilter, *, most: int, seconds: float) -> Plan[list[StateCount]]:
    """Count runs by state, ignoring the states of the filter. Open runs, failures and successes are
    counted separately, as there may be very many of one kind. For all runs, a job or a queue, the
    maintained counts of open runs are used."""
    wanted = yield from absolute(replace(wanted, states=None, dead=False))
    found: list[StateCount] = []
    if _is_of_depths(wanted):
        rows = yield Execute("stats/depths", {"job": wanted.job, "queue": wanted.queue})
        shown = [row for row in rows if wanted.shows_system or row["queue"] != SYSTEM_QUEUE]
        found += [StateCount(it, sum(row[it] for row in shown), True) for it in OPEN_STATES]
    groups = [("succeeded",), RETRIABLE_STATES, *([] if found else [OPEN_STATES])]
    # The range of ids is the same for all.
    begin = yield from _begin("runs/count", wanted, None)
    for states in groups:
        own = replace(wanted, states=states)
        search = replace(begin, size=_first_portion(own, begin.high))
        part = yield from _count(own, search, most=most, seconds=seconds, begun_at=None)
        counts: Counter[str] = Counter()
        for group in part.groups:
            counts[group.state] += group.runs
        found += [StateCount(it, counts[it], part.is_exact) for it in states]
    return found


def _is_of_depths(wanted: RunFilter) -> bool:
    return replace(wanted, job=None, queue=None, system=False).is_empty


def _portion_of(
    wanted: RunFilter, search: _Search, begun_at: datetime | None
) -> Plan[dict[str, Any]]:
    low, high = search.portion()
    (mark,) = yield Execute("runs/created_after", {"id": low + 1})
    own = {"low": low, "high": high, "ended_after": mark["since"], "begun_at": begun_at}
    return _parameters(wanted) | own | {"error_groups": search.error_groups}


def _begin(statement: str, wanted: RunFilter, cursor: int | None) -> Plan[_Search]:
    # Runs that ended before a time were created before it.
    ends = [it for it in (wanted.until, wanted.ended_until) if it is not None]
    until = min(ends) if ends else None
    (ids,) = yield Execute("runs/id_range", {"since": wanted.since, "until": until})
    size = _first_portion(wanted, ids["high"])
    search = _Search(ids["low"], ids["high"], size, statement == "runs/list_oldest")
    if wanted.reads_payloads:
        search.least, search.seconds = _LEAST_HEAVY_PORTION, _HEAVY_PORTION_SECONDS
    if cursor is not None and search.is_oldest:
        search.low = max(search.low, cursor)
    elif cursor is not None:
        search.high = min(search.high, cursor - 1)
    if wanted.reads_errors:
        yield from call("fold_errors")
        search.error_groups = yield from _groups_of(wanted.error)
    return search


def _groups_of(words: str | None) -> Plan[list[str] | None]:
    if words is None:
        return None
    rows = yield Execute("errors/of_type", {"pattern": like(words)})
    return [row["id"] for row in rows]


def _first_portion(wanted: RunFilter, highest: int) -> int:
    """Return the size of the first portion: everything if an index finds the runs."""
    if wanted.is_indexed:
        return max(highest, 1)
    return _HEAVY_PORTION if wanted.reads_payloads else _PORTION


def _in_json(text: str) -> str:
    """Return a pattern of the text as escaped in a JSON payload."""
    return like(json.dumps(text, ensure_ascii=False)[1:-1])


_TIMES = ("since", "until", "ended_since", "ended_until")


def absolute(wanted: RunFilter) -> Plan[RunFilter]:
    """Replace ages, which count back from now, by instants."""
    ages = {it: age for it in _TIMES if isinstance(age := getattr(wanted, it), timedelta)}
    if not ages:
        return wanted
    now = yield from read_clock()
    try:
        times: Any = {it: now - age for it, age in ages.items()}
    except OverflowError:
        raise FilterError(f"{', '.join(ages)} reach back at most to the year 1") from None
    return replace(wanted, **times)


def _parameters(wanted: RunFilter) -> dict[str, Any]:
    states = wanted.wanted_states
    return {
        "states": states,
        "are_ended": states is not None and set(states) <= set(END_STATES),
        "with_expired": states is not None and "cancelled" in states,
        "job": wanted.job,
        "system": wanted.shows_system,
        "queue": wanted.queue,
        "tenant": wanted.tenant,
        "tag": wanted.tag,
        "key": wanted.key,
        "schedule": wanted.schedule,
        "worker": wanted.worker,
        "texts": None if wanted.text is None else [like(text) for text in wanted.text],
        "texts_in_json": None if wanted.text is None else [_in_json(text) for text in wanted.text],
        "error": None if wanted.error is None else like(wanted.error),
        "error_group": wanted.error_group,
        "payload_fields": wanted_metadata(wanted.payload_fields),
        "since": wanted.since,
        "until": wanted.until,
        "ended_since": wanted.ended_since,
        "ended_until": wanted.ended_until,
        "is_handled": wanted.handled,
        **excluded(wanted.exclude),
        "not_in_json": [_in_json(value) for _, value in wanted.exclude],
    }


def find_states(ids: Iterable[int]) -> Plan[Rows]:
    """Return id, job, state and tenant of the runs that exist."""
    wanted = sorted(set(ids))
    (mark,) = yield Execute("runs/created_after", {"id": wanted[0]})
    return (yield Execute("runs/states", {"ids": wanted, "since": mark["since"]}))


def act_on_many(
    action: Action,
    ids: Iterable[int],
    *,
    payload: str | None,
    delay: float | None,
    reason: str | None,
    actor: str | None,
) -> Plan[Rows]:
    """Act on a few tens of runs in one statement; each is done or refused separately, with a
    code."""
    params = {
        "action": action,
        "ids": list(ids),
        "payload": payload,
        "delay": delay,
        "reason": reason,
        "actor": actor,
    }
    return (yield Execute("runs/act_on_many", params))


def as_item(row: dict[str, Any]) -> BulkItem:
    outcome: BulkOutcome = "refused" if row["refusal"] else row["answer"]
    return BulkItem(row["run_id"], outcome, row["refusal"])
