"""Commands about runs. Shared by Python, the CLI and the API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Unpack

from rota.errors import PayloadError
from rota.jobs.handle import Run, RunReader
from rota.jobs.options import NO_OPTIONS, OptionArguments, OptionKeywords
from rota.jobs.registry import Registry
from rota.jobs.tracing import carrying
from rota.jobs.values import checked_delay
from rota.model.asked import NewestFirst
from rota.model.attempt import AttemptInfo
from rota.model.child_run import ChildRun
from rota.model.details import RunDetails
from rota.model.documents import RunDocuments
from rota.model.durations import Duration
from rota.model.list_filters import TimeOrder
from rota.model.page import LISTED_BYTES, Page
from rota.model.run import Cancelled, RunId, RunInfo
from rota.model.run_counts import StateCount
from rota.model.run_filter import RunFilter, RunFilters, RunPage
from rota.operations.commands import AsyncCommands, Cursor, SyncCommands, command, joining
from rota.operations.registry import Noun, Reason, operation
from rota.operations.runs import sentences as said
from rota.operations.runs.batches import BatchCommands
from rota.operations.runs.reader import HandleReader
from rota.operations.runs.waits import Waits
from rota.operations.scope import Scope
from rota.postgres.hints import described
from rota.postgres.plans import Plan, call
from rota.postgres.runs import lists as run_lists
from rota.postgres.runs import runs
from rota.postgres.sessions.pool import Database

Found = list[RunInfo]
Counts = list[StateCount]
Children = list[ChildRun]


class RunCommands(BatchCommands):
    """Payloads of jobs that this process declares are validated against their types; others
    against what the database knows of the arguments."""

    noun = Noun("run", "runs", RunInfo, key="id")
    scope = Scope(
        takes=frozenset({"list", "page", "counts", "enqueue"}),
        of_run=frozenset(
            {
                "get",
                "details",
                "attempts",
                "attempt",
                "documents",
                "children",
                "cancel",
                "delete",
                "handle",
                "reopen",
            }
            | {"retry"}
        ),
        own=frozenset({"preview_many", "cancel_many", "retry_many", "delete_many"}),
    )

    def _reader(self) -> RunReader:
        raise NotImplementedError

    @command
    def list(
        self,
        *,
        order: NewestFirst = "newest",
        limit: int = 50,
        before_id: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Plan[Found]:
        """List runs, newest or oldest first.

        Filters: `states`, `job`, `queue`, `tenant`, `tag`, `key`, `schedule`, `worker`,
        `text`, `error`, `error_group`, `payload_fields`, time of creation (`since`, `until`) and of
        the end (`ended_since`, `ended_until`), `dead` and `handled`. Unlike that of `page`, the
        search has no time limit. `before_id`: only runs older than this one (newer, if the oldest
        come first)."""
        return self._list(RunFilter.of(filters), order, before_id, limit)

    @command
    def page(
        self,
        *,
        limit: int = 50,
        order: TimeOrder = "newest",
        cursor: int | None = None,
        seconds: float | None = 0.03,
        **filters: Unpack[RunFilters],
    ) -> Plan[RunPage]:
        """One page of that list, with the cursor of the next. A search that takes longer than
        `seconds` stops, and its page says how far it got. Payloads and results of more than 8 kB
        are left out: `{"$omitted": …}` stands in their place, and `get` returns them."""
        return run_lists.list_page(
            RunFilter.of(filters),
            order=order,
            cursor=cursor,
            limit=limit,
            seconds=seconds,
            value_bytes=LISTED_BYTES,
        )

    @command
    def counts(
        self, *, most: int = 10_000, seconds: float = 0.02, **filters: Unpack[RunFilters]
    ) -> Plan[Counts]:
        """Count matching runs by state, regardless of `states`. Counting stops at `most`, and
        without an index after a few times `seconds`: the result then says that there are more."""
        return run_lists.count_states(RunFilter.of(filters), most=most, seconds=seconds)

    @command
    def get(self, run_id: RunId) -> Plan[RunInfo]:
        """Return one run. Raises RunNotFound if there is none, or retention has removed it."""
        return runs.find_run(run_id)

    @command
    def details(self, run_id: int, *, log_lines: int = 100) -> Plan[RunDetails]:
        """The run with its attempts and its last log lines."""
        return runs.find_details(run_id, log_lines=log_lines)

    @command
    def attempts(
        self, run_id: int, *, limit: int = 50, cursor: Cursor = None
    ) -> Plan[Page[AttemptInfo]]:
        """One page of the attempts of a run, first one first, with the cursor of the next. Details
        of more than 8 kB are left out, and longer texts cut: `attempt` returns them."""
        return runs.page_attempts(run_id, cursor=cursor, limit=limit)

    @command
    def attempt(self, run_id: int, attempt: int) -> Plan[AttemptInfo]:
        """Return one attempt. Raises RunNotFound if there is no such run or attempt."""
        return runs.find_attempt(run_id, attempt)

    @command
    def documents(self, run: int | RunInfo, *, most: int = 50_000_000) -> Plan[RunDocuments]:
        """Payload and result as text with all digits, which JSON readers may round; at most `most`
        characters of each."""
        return runs.find_documents(run, most)

    @command
    def children(self, run: int | RunInfo, *, limit: int = 50) -> Plan[Children]:
        """The runs that this run has enqueued, first one first."""
        return runs.find_children(run, limit)

    @joining
    def enqueue(
        self,
        job: str,
        payload: Mapping[str, Any] | None = None,
        **options: Unpack[OptionKeywords],
    ) -> Plan[Run]:
        """Enqueue a run by the name of its job, as an operator: the audit records who did it.
        Without a payload, the job's default payload is used. With `connection`, it joins the
        caller's transaction."""
        return self._enqueue(job, payload, options)

    @operation(
        says=said.cancelled,
        asks=said.before_cancel,
        is_reason_optional=True,
        by_hand=("cli",),
        example="cancelled",
    )
    def cancel(self, run_id: RunId, reason: Reason = None) -> Plan[Cancelled]:
        """Cancel a run: at once if it is waiting; if it is running, its worker is asked to stop.

        Returns `cancelled`, or `requested` if its worker was asked to stop it."""
        answer: Cancelled = yield from call(
            "cancel_run", run_id=run_id, reason=reason, actor=self.actor
        )
        return answer

    @operation(
        says=said.deleted,
        asks=said.before_delete,
        is_reason_optional=True,
        is_dangerous=True,
        by_hand=("cli",),
    )
    def delete(self, run_id: RunId, reason: Reason = None) -> Plan[None]:
        """Delete a finished run with its attempts and log lines.

        The audit records the deletion, without the payload."""
        yield from call("delete_run", run_id=run_id, reason=reason, actor=self.actor)

    @operation(says=said.handled, asks=said.before_handle, is_reason_optional=True)
    def handle(self, run_id: RunId, reason: Reason = None) -> Plan[None]:
        """Mark a dead letter as handled, so it no longer needs attention."""
        yield from call("handle_run", run_id=run_id, reason=reason, actor=self.actor)

    @operation(says=said.reopened, asks=said.before_reopen, is_reason_optional=True)
    def reopen(self, run_id: RunId, reason: Reason = None) -> Plan[None]:
        """Mark a handled run as unhandled again."""
        yield from call("reopen_run", run_id=run_id, reason=reason, actor=self.actor)

    @command
    def retry(
        self,
        run_id: int,
        reason: str | None = None,
        *,
        payload: Mapping[str, Any] | None = None,
        delay: Duration | None = None,
    ) -> Plan[None]:
        """Retry a failed or cancelled run under its id, optionally with a new payload and after a
        delay; the audit keeps the old payload."""
        return self._retry(run_id, reason, payload, checked_delay(delay))

    def _list(
        self, wanted: RunFilter, order: TimeOrder, cursor: int | None, limit: int
    ) -> Plan[Found]:
        found = yield from run_lists.list_page(wanted, order=order, cursor=cursor, limit=limit)
        return found.runs

    def _enqueue(
        self, job: str, payload: Mapping[str, Any] | None, options: OptionArguments
    ) -> Plan[Run]:
        checked = carrying(NO_OPTIONS.merge(options))
        text, validated_by = self._encode(job, payload)
        if validated_by is None:
            # Check the stored form: a payload may contain dates, decimals and the like.
            yield from _check_stored(job, None if payload is None else json.loads(text))
        own = {"job": job, "payload": text, "validated_by": validated_by}
        run_id, is_duplicate = yield from runs.enqueue_manually(
            checked.parameters | own, actor=self.actor
        )
        return Run(run_id, job, is_duplicate, self._reader())

    def _retry(
        self,
        run_id: int,
        reason: str | None,
        payload: Mapping[str, Any] | None,
        delay: float | None,
    ) -> Plan[None]:
        text = None
        if payload is not None:
            run = yield from runs.find_run(run_id)
            text, _ = self._encode(run.job, payload)
        yield from runs.retry_run(
            run_id, payload=text, delay=delay, reason=reason, actor=self.actor
        )


def _check_stored(job: str, payload: Mapping[str, Any] | None) -> Plan[None]:
    """Check the payload of a job that this process does not declare against the arguments in the
    database. The enqueue refuses a job without a row."""
    from rota.postgres.schedules.payloads import find_payload_problems

    problems = yield from find_payload_problems([(job, payload)])
    for problem in problems.values():
        raise PayloadError(
            f'job "{job}": {problem}',
            hint=described(job),
            field="payload",
        )


class Runs(RunCommands, AsyncCommands):
    """`app.runs`"""

    def __init__(
        self, database: Database, registry: Registry | None = None, actor: str | None = None
    ) -> None:
        super().__init__(database, actor)
        self.registry = registry
        self.waits = Waits(database)

    def _reader(self) -> RunReader:
        return HandleReader(self)

    @property
    def sync(self) -> SyncRuns:
        return SyncRuns(self).of_tenant(self.tenant)

    async def wait(self, run_id: int, timeout: float | None = None) -> RunInfo:
        """Wait until the run has ended, and return it. Raises WaitTimeout if it does not end in
        time."""
        if self.tenant is not None:
            await self.get(run_id)
        return await self.waits.run(run_id, timeout)

    async def close(self) -> None:
        await self.waits.close()


class SyncRuns(RunCommands, SyncCommands):
    """`app.runs.sync`"""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.database, runs.actor)
        self.registry = runs.registry
        self._runs = runs

    def _reader(self) -> RunReader:
        return HandleReader(self._runs)

    def wait(self, run_id: int, timeout: float | None = None) -> RunInfo:
        if self.tenant is not None:
            self.get(run_id)
        return self._runs.waits.run_sync(run_id, timeout)
