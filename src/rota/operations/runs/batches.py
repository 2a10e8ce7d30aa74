"""An action on a list of run ids: performed at once, with an outcome for each run.

Each run is decided on its own, in transactions of a few dozen runs, so a refused run does not
affect the others. The audit gets a row for each run, as for a single action, with its outcome and
its old payload. An action on all runs that match a filter is a bulk action (`app.bulk`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rota.errors import FilterError, InputError
from rota.jobs.registry import Registry
from rota.jobs.values import checked_delay
from rota.model.bulk import FITTING, Action, BulkItem, BulkResult, would_be
from rota.model.durations import Duration
from rota.model.run_counts import RunCount, RunCounts
from rota.operations.commands import Commands, command, stepwise
from rota.operations.payloads import encode
from rota.postgres.plans import Plan, Rows
from rota.postgres.runs import lists as run_lists
from rota.postgres.steps import OnProgress, Steps

MOST = 100_000
_BATCH = 50
_PORTION = 1000


@dataclass(frozen=True, slots=True)
class _Act:
    """The action, with its arguments."""

    action: Action
    dry_run: bool
    reason: str | None
    on_progress: OnProgress
    payload: Mapping[str, Any] | None = None
    delay: float | None = None


class BatchCommands(Commands):
    """Part of `app.runs`."""

    registry: Registry | None = None

    @command
    def preview_many(self, verb: Action, ids: Sequence[int]) -> Plan[RunCounts]:
        """Count how many of these runs the action would apply to, by job and state."""
        return self._preview(verb, ids)

    @stepwise
    def cancel_many(
        self,
        ids: Sequence[int],
        *,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Steps[BulkResult]:
        """Cancel these runs. A refusal does not affect the others. `on_progress` is called with the
        number of newly processed runs."""
        return self._act_on_ids(_Act("cancel", dry_run, reason, on_progress or _nobody), ids)

    @stepwise
    def retry_many(
        self,
        ids: Sequence[int],
        *,
        payload: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Steps[BulkResult]:
        """Retry these failed or cancelled runs. A `payload` replaces the payload of each."""
        act = _Act("retry", dry_run, reason, on_progress or _nobody, payload, checked_delay(delay))
        return self._act_on_ids(act, ids)

    @stepwise
    def delete_many(
        self,
        ids: Sequence[int],
        *,
        dry_run: bool = False,
        reason: str | None = None,
        on_progress: OnProgress | None = None,
    ) -> Steps[BulkResult]:
        """Delete these ended runs with their attempts and log lines."""
        return self._act_on_ids(_Act("delete", dry_run, reason, on_progress or _nobody), ids)

    def _preview(self, verb: Action, ids: Sequence[int]) -> Plan[RunCounts]:
        found: Counter[tuple[str, str]] = Counter()
        for part in _portions(list(dict.fromkeys(ids)), _PORTION):
            rows = yield from self._states(part)
            fitting = [row for row in rows if row["state"] in FITTING[verb]]
            found.update((row["job"], row["state"]) for row in fitting)
        groups = [RunCount(job, state, runs) for (job, state), runs in found.most_common()]
        return RunCounts(found.total(), True, groups)

    def _states(self, ids: Sequence[int]) -> Plan[Rows]:
        rows = yield from run_lists.find_states(ids)
        return [row for row in rows if self.tenant in (None, row["tenant"])]

    def _act_on_ids(self, act: _Act, ids: Sequence[int]) -> Plan[BulkResult]:
        if len(ids) > MOST:
            raise FilterError(
                f"{len(ids)} ids are too many; the maximum is {MOST}: use a filter instead"
            )
        items: dict[int, BulkItem] = {}
        for part in _portions(list(dict.fromkeys(ids)), _PORTION):
            rows = yield from self._states(part)
            known = {row["id"]: row for row in rows}
            gone = [would_be(act.action, run_id, None) for run_id in part if run_id not in known]
            act.on_progress(len(gone))
            acted = yield from self._act_on_rows(act, rows)
            items |= {item.id: item for item in [*gone, *acted]}
        answered = [items[run_id] for run_id in dict.fromkeys(ids)]
        done = sum(item.is_done for item in answered)
        return BulkResult(act.action, act.dry_run, done, len(answered) - done, answered)

    def _act_on_rows(self, act: _Act, rows: Rows) -> Plan[list[BulkItem]]:
        items: list[BulkItem] = []
        for job, group in _by_job(rows, act).items():
            try:
                text = None if act.payload is None else self._encode(job, act.payload)[0]
            except InputError as error:
                items += [BulkItem(row["id"], "refused", str(error)) for row in group]
                continue
            for part in _portions(group, _BATCH):
                items += yield from self._act_on_few(act, part, text)
                act.on_progress(len(part))
        return items

    def _act_on_few(self, act: _Act, rows: Rows, payload: str | None) -> Plan[list[BulkItem]]:
        if act.dry_run:
            return [would_be(act.action, row["id"], row["state"]) for row in rows]
        acted = yield from run_lists.act_on_many(
            act.action,
            [row["id"] for row in rows],
            payload=payload,
            delay=act.delay,
            reason=act.reason,
            actor=self.actor,
        )
        return [run_lists.as_item(row) for row in acted]

    def _encode(self, job: str, payload: Mapping[str, Any] | None) -> tuple[str, int | None]:
        return encode(self.registry, job, payload)


def _by_job(rows: Rows, act: _Act) -> dict[str, Rows]:
    """Group runs by job, because a payload is checked against the types of each job; without a
    payload they stay together."""
    if act.payload is None:
        return {"": rows} if rows else {}
    groups: dict[str, Rows] = defaultdict(list)
    for row in rows:
        groups[row["job"]].append(row)
    return groups


def _portions(items: list[Any], size: int) -> Iterable[list[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _nobody(count: int) -> None:
    pass
