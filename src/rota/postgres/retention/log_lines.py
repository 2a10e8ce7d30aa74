"""Retention of log lines: days for all, and the policies of single jobs."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from rota.model.retention import Retention, RetentionItem
from rota.postgres.plans import Execute
from rota.postgres.retention.parts import BATCH, Partition, PartitionDrops, note_parts, rows_of
from rota.postgres.steps import Steps

if TYPE_CHECKING:
    from rota.postgres.retention.retention import Pass

_PAGES = 200


class LogPruning:
    def __init__(self, work: Pass) -> None:
        self._work = work
        self._days = work.settings.log_days
        self._longest = {
            job: max(policy.log_days or self._days, policy.failed_log_days or 0)
            for job, policy in work.policies.items()
            if policy.log_days or policy.failed_log_days
        }

    def run(self) -> Steps[None]:
        """Prune log lines. A partition stays while the policy of any job requires its lines; the
        lines of other jobs are deleted individually."""
        parts = [part for part in (yield from note_parts()) if part.parent == "logs"]
        end = self._work.before(max([self._days, *self._longest.values()]))
        drops = PartitionDrops(self._work)
        for part in parts:
            if part.state != "attached" or part.to_at <= end:
                yield from drops.drop(part)
            elif part.to_at <= self._work.before(self._days):
                yield from self._thin(part)
        for job, policy in self._work.policies.items():
            yield from self._prune_job(job, policy)

    def _thin(self, part: Partition) -> Steps[None]:
        kept = [job for job, days in self._longest.items() if days > self._days]
        if self._work.dry_run:
            item = RetentionItem(
                "delete",
                "logs",
                (yield from rows_of(part)),
                part.partition,
                until=part.to_at,
                note="would delete some of its lines: an estimate, as some jobs keep theirs longer",
            )
            self._work.items.append(item)
            return
        page: int | None = 0
        total = 0
        while page is not None:
            params = {"partition": part.partition, "kept_jobs": kept, "from_page": page}
            asked = Execute("retention/prune_log_pages", params | {"pages": _PAGES})
            (row,) = yield from self._work.portion(asked)
            page = row["next_page"]
            total += row["removed"]
            self._work.on_progress(row["removed"])
        if total:
            item = RetentionItem("delete", "logs", total, part.partition, until=part.to_at)
            self._work.items.append(item)

    def _prune_job(self, job: str, policy: Retention) -> Steps[None]:
        days = policy.log_days or self._days
        failed = max(policy.failed_log_days or days, days)
        if policy.log_days or policy.failed_log_days:
            yield from self._prune(job, self._work.before(failed), spare_failed=False)
        if failed > days:
            yield from self._prune(job, self._work.before(days), spare_failed=True)
        if policy.log_count:
            first = yield Execute("retention/nth_line", {"job": job, "count": policy.log_count})
            if first:
                yield from self._prune(job, first[0]["at"], spare_failed=False)

    def _prune(self, job: str, before: datetime, *, spare_failed: bool) -> Steps[None]:
        params = {"job": job, "before_at": before, "spare_failed": spare_failed}
        total = 0
        if self._work.dry_run:
            counted = params | {"dropped": self._work.dropped}
            (found,) = yield Execute("retention/count_lines", counted)
            total = found["rows"]
        else:
            last: datetime | None = None
            while True:
                asked = params | {"after_at": last, "limit": BATCH}
                (row,) = yield from self._work.portion(Execute("retention/prune_lines", asked))
                total += row["removed"]
                self._work.on_progress(row["removed"])
                if row["last_at"] is None:
                    break
                last = row["last_at"]
        if total:
            outcome = "not failed" if spare_failed else None
            item = RetentionItem("delete", "logs", total, job=job, outcome=outcome, until=before)
            self._work.items.append(item)
