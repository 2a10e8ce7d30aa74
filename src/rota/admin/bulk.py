"""One action on many runs: by their ids, or by a filter.

Every run is decided for itself, in transactions of a few tens: what is refused stops no other, and
nobody waits behind the whole of it. The audit gets a row for each run, as it would for a single
one: what is asked of it later is what became of that run, and its old payload.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Unpack

from rota.admin.face import Face, stepwise
from rota.errors import FilterError, PayloadError
from rota.jobs.registry import Registry
from rota.model.bulk import FITTING, Action, BulkItem, BulkResult, would_be
from rota.model.run_filter import RunFilter, RunFilters
from rota.store import run_lists
from rota.store.plans import Ask, Plan, Rows
from rota.store.steps import OnProgress, Steps

MOST = 100_000
_BATCH = 50
_PORTION = 1000


@dataclass(frozen=True, slots=True)
class _Bulk:
    """What shall be done."""

    action: Action
    limit: int
    dry_run: bool
    reason: str | None
    on_progress: OnProgress
    payload: Mapping[str, Any] | None = None
    delay: float | None = None


class BulkCommands(Face):
    """Part of `app.runs`."""

    registry: Registry | None = None

    @stepwise
    def cancel_many(
        self,
        ids: Sequence[int] | None = None,
        *,
        limit: int = 1000,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
        **filters: Unpack[RunFilters],
    ) -> Steps[BulkResult]:
        """Cancel these runs, or those that fit the filter, the newest first and at most `limit`.
        `on_progress` is told how many more have been dealt with."""
        bulk = _Bulk("cancel", _limit(limit), dry_run, reason, on_progress or _nobody)
        return self._act(bulk, ids, filters)

    @stepwise
    def retry_many(
        self,
        ids: Sequence[int] | None = None,
        *,
        payload: Mapping[str, Any] | None = None,
        delay: float | timedelta | None = None,
        limit: int = 1000,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
        **filters: Unpack[RunFilters],
    ) -> Steps[BulkResult]:
        """Put these runs back to work, or those that fit the filter: `dead=True` are those that
        used up their attempts. A payload, if given, replaces that of each."""
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        told = on_progress or _nobody
        bulk = _Bulk("retry", _limit(limit), dry_run, reason, told, payload, seconds)
        return self._act(bulk, ids, filters)

    @stepwise
    def delete_many(
        self,
        ids: Sequence[int] | None = None,
        *,
        limit: int = 1000,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
        **filters: Unpack[RunFilters],
    ) -> Steps[BulkResult]:
        """Remove these ended runs, or those that fit the filter, with attempts and log lines."""
        bulk = _Bulk("delete", _limit(limit), dry_run, reason, on_progress or _nobody)
        return self._act(bulk, ids, filters)

    def _act(
        self, bulk: _Bulk, ids: Sequence[int] | None, filters: RunFilters
    ) -> Steps[BulkResult]:
        wanted = RunFilter.of(filters)
        if (ids is None) == wanted.is_empty:
            raise FilterError("a bulk action takes either ids or a filter: say which runs")
        if ids is not None:
            if len(ids) > bulk.limit:
                raise FilterError(f"{len(ids)} ids are more than the limit of {bulk.limit}")
            items = yield from self._act_on_ids(bulk, ids)
            has_more = False
        else:
            items, has_more = yield from self._act_on_filter(bulk, wanted)
        done = sum(one.is_done for one in items)
        refused = len(items) - done
        return BulkResult(bulk.action, bulk.dry_run, done, refused, has_more, items)

    def _act_on_ids(self, bulk: _Bulk, ids: Sequence[int]) -> Plan[list[BulkItem]]:
        items: dict[int, BulkItem] = {}
        for part in _portions(list(dict.fromkeys(ids)), _PORTION):
            rows = yield from run_lists.find_states(part)
            known = {row["id"]: row for row in rows}
            gone = [would_be(bulk.action, it, None) for it in part if it not in known]
            bulk.on_progress(len(gone))
            acted = yield from self._act_on_rows(bulk, rows)
            items |= {one.id: one for one in [*gone, *acted]}
        return [items[it] for it in dict.fromkeys(ids)]

    def _act_on_filter(self, bulk: _Bulk, wanted: RunFilter) -> Plan[tuple[list[BulkItem], bool]]:
        """Page by page, from where the last one ended: what was refused does not come again."""
        yield Ask("session/plan_by_values", {"is_local": False})
        wanted = wanted.or_states(FITTING[bulk.action])
        items: list[BulkItem] = []
        cursor: int | None = None
        while True:
            size = min(_PORTION, bulk.limit - len(items))
            rows, cursor = yield from run_lists.list_ids(wanted, cursor=cursor, limit=size)
            items += yield from self._act_on_rows(bulk, rows)
            if cursor is None or len(items) >= bulk.limit:
                return items, cursor is not None

    def _act_on_rows(self, bulk: _Bulk, rows: Rows) -> Plan[list[BulkItem]]:
        items: list[BulkItem] = []
        for job, group in _by_job(rows, bulk).items():
            try:
                text = None if bulk.payload is None else self._encode(job, bulk.payload)[0]
            except PayloadError as error:
                items += [BulkItem(row["id"], "refused", str(error)) for row in group]
                continue
            for part in _portions(group, _BATCH):
                items += yield from self._act_on_few(bulk, part, text)
                bulk.on_progress(len(part))
        order = {row["id"]: place for place, row in enumerate(rows)}
        return sorted(items, key=lambda one: order[one.id])

    def _act_on_few(self, bulk: _Bulk, rows: Rows, payload: str | None) -> Plan[list[BulkItem]]:
        if bulk.dry_run:
            return [would_be(bulk.action, row["id"], row["state"]) for row in rows]
        return (
            yield from run_lists.act_on_many(
                bulk.action, [row["id"] for row in rows], payload=payload, delay=bulk.delay,
                reason=bulk.reason, actor=self.actor,
            )
        )  # fmt: skip

    def _encode(self, job: str, payload: Mapping[str, Any]) -> tuple[str, int | None]:
        if self.registry is None or job not in self.registry:
            return json.dumps(dict(payload), ensure_ascii=False), None
        schema = self.registry.get(job).schema
        return schema.encode(schema.bind((), payload)).decode(), schema.hash


def _limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise FilterError(f"limit {limit} is not between 1 and {MOST}")
    return limit


def _by_job(rows: Rows, bulk: _Bulk) -> dict[str, Rows]:
    """A payload is checked against the types of each job; without one they go together."""
    if bulk.payload is None:
        return {"": rows} if rows else {}
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[row["job"]].append(row)
    return groups


def _portions(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _nobody(count: int) -> None:
    pass
