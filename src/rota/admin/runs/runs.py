"""What one can do with runs. The same functions serve Python, the CLI and the API."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Unpack

from rota.admin.commands import AsyncCommands, SyncCommands, command, joining
from rota.admin.runs.batches import BatchCommands
from rota.admin.runs.waits import Waits
from rota.admin.scope import Scope
from rota.jobs.handle import Run, RunReader
from rota.jobs.options import NO_OPTIONS, OptionArguments
from rota.jobs.registry import Registry
from rota.jobs.tracing import carrying
from rota.model.child_run import ChildRun
from rota.model.details import RunDetails
from rota.model.documents import RunDocuments
from rota.model.list_filters import TimeOrder
from rota.model.run import RunEnd, RunInfo
from rota.model.run_counts import StateCount
from rota.model.run_filter import RunFilter, RunFilters, RunPage
from rota.store import jobs
from rota.store.plans import Plan
from rota.store.runs import lists as run_lists
from rota.store.runs import runs
from rota.store.sessions.pool import Database

Found = list[RunInfo]
Counts = list[StateCount]
Children = list[ChildRun]


class RunCommands(BatchCommands):
    """Payloads of jobs that this process declares are checked against their types; of others
    only the database's checks are known."""

    scope = Scope(
        takes=frozenset({"list", "page", "counts", "enqueue"}),
        of_run=frozenset(
            {"get", "details", "documents", "children", "cancel", "delete", "handle", "reopen"}
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
        limit: int = 50,
        order: TimeOrder = "newest",
        before_id: int | None = None,
        **filters: Unpack[RunFilters],
    ) -> Plan[Found]:
        """Runs by `states`, `job`, `queue`, `tenant`, `tag`, `key`, `schedule`, `worker`, `text`,
        `error`, `error_group`, `payload_fields`, times of creation (`since`, `until`) and of the
        end, `dead` and `handled`, however long the search takes. `before_id`: only those older than
        this run, in the order of oldest first only those newer."""
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
        """A part of that list, and the cursor that leads to the next. A search that takes longer
        than `seconds` stops, and its page says how far it came."""
        return run_lists.list_page(
            RunFilter.of(filters), order=order, cursor=cursor, limit=limit, seconds=seconds
        )

    @command
    def counts(
        self, *, most: int = 10_000, seconds: float = 0.02, **filters: Unpack[RunFilters]
    ) -> Plan[Counts]:
        """How many runs fit, by state, whatever `states` says. Counting stops at `most`, and where
        no index helps after a few times `seconds`: then it says that there are more."""
        return run_lists.count_states(RunFilter.of(filters), most=most, seconds=seconds)

    @command
    def get(self, run_id: int) -> Plan[RunInfo]:
        """RunNotFound if there is none, or none any more."""
        return runs.find_run(run_id)

    @command
    def details(self, run_id: int, *, log_lines: int = 100) -> Plan[RunDetails]:
        """The run with its attempts and its last log lines."""
        return runs.find_details(run_id, log_lines=log_lines)

    @command
    def documents(self, run: int | RunInfo, *, most: int = 50_000_000) -> Plan[RunDocuments]:
        """Payload and result as text, with the digits that they have: a reader of JSON may round
        them. At most so many characters of each. A run that is known is not looked for again."""
        return runs.find_documents(run, most)

    @command
    def children(self, run: int | RunInfo, *, limit: int = 50) -> Plan[Children]:
        """The runs that this one has asked for, the first one first."""
        return runs.find_children(run, limit)

    @joining
    def enqueue(
        self,
        job: str,
        payload: Mapping[str, Any] | None = None,
        **options: Unpack[OptionArguments],
    ) -> Plan[Run]:
        """Ask for a run by the job's name, as a person does: the audit says who. Without a payload
        it has the job's default one. With `connection` in the caller's transaction."""
        return self._enqueue(job, payload, options)

    @command
    def cancel(self, run_id: int, reason: str | None = None) -> Plan[str]:
        """`cancelled` if the run was waiting, `requested` if a worker has to be told."""
        return runs.cancel_run(run_id, reason=reason, actor=self.actor)

    @command
    def delete(self, run_id: int, reason: str | None = None) -> Plan[None]:
        """Remove an ended run with its attempts and log lines. The audit says that it was there,
        and keeps no copy of its payload."""
        return runs.delete_run(run_id, reason=reason, actor=self.actor)

    @command
    def handle(self, run_id: int, reason: str | None = None) -> Plan[None]:
        """Somebody has seen to a run that failed for good: it needs no attention any more."""
        return runs.handle_run(run_id, reason=reason, actor=self.actor)

    @command
    def reopen(self, run_id: int, reason: str | None = None) -> Plan[None]:
        """It was handled, and is not any more."""
        return runs.reopen_run(run_id, reason=reason, actor=self.actor)

    @command
    def retry(
        self,
        run_id: int,
        reason: str | None = None,
        *,
        payload: Mapping[str, Any] | None = None,
        delay: float | timedelta | None = None,
    ) -> Plan[None]:
        """Put a failed or cancelled run back to work under its id, with another payload if given;
        the audit keeps the old one."""
        return self._retry(run_id, reason, payload, delay)

    def _list(
        self, wanted: RunFilter, order: TimeOrder, cursor: int | None, limit: int
    ) -> Plan[Found]:
        found = yield from run_lists.list_page(wanted, order=order, cursor=cursor, limit=limit)
        return found.runs

    def _enqueue(
        self, job: str, payload: Mapping[str, Any] | None, options: OptionArguments
    ) -> Plan[Run]:
        checked = carrying(NO_OPTIONS.merge(options))
        if payload is None and self.registry is not None and job in self.registry:
            payload = yield from jobs.default_payload(job)
        text, validated_by = self._encode(job, payload)
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
        delay: float | timedelta | None,
    ) -> Plan[None]:
        text = None
        if payload is not None:
            run = yield from runs.find_run(run_id)
            text, _ = self._encode(run.job, payload)
        seconds = delay.total_seconds() if isinstance(delay, timedelta) else delay
        yield from runs.retry_run(
            run_id, payload=text, delay=seconds, reason=reason, actor=self.actor
        )


class Runs(RunCommands, AsyncCommands):
    """`app.runs`, and what the handles of runs speak to: those use the names in _run."""

    def __init__(
        self, database: Database, registry: Registry | None = None, actor: str | None = None
    ) -> None:
        super().__init__(database, actor)
        self.registry = registry
        self.waits = Waits(database)

    def _reader(self) -> RunReader:
        return self

    @property
    def sync(self) -> SyncRuns:
        return SyncRuns(self).of_tenant(self.tenant)

    async def wait(self, run_id: int, timeout: float | None = None) -> RunInfo:
        """The run once it has ended; WaitTimeout if it does not in time."""
        if self.tenant is not None:
            await self.get(run_id)
        return await self.waits.run(run_id, timeout)

    async def close(self) -> None:
        await self.waits.close()

    async def get_run(self, run_id: int) -> RunInfo:
        return await self.get(run_id)

    def get_run_sync(self, run_id: int) -> RunInfo:
        return self.sync.get(run_id)

    async def wait_run(self, run_id: int, timeout: float | None) -> RunEnd:
        return await self.waits.end(run_id, timeout)

    def wait_run_sync(self, run_id: int, timeout: float | None) -> RunEnd:
        return self.waits.end_sync(run_id, timeout)

    async def cancel_run(self, run_id: int, reason: str | None = None) -> str:
        return await self.cancel(run_id, reason)

    def cancel_run_sync(self, run_id: int, reason: str | None = None) -> str:
        return self.sync.cancel(run_id, reason)

    async def retry_run(self, run_id: int, reason: str | None = None) -> None:
        await self.retry(run_id, reason)

    def retry_run_sync(self, run_id: int, reason: str | None = None) -> None:
        self.sync.retry(run_id, reason)


class SyncRuns(RunCommands, SyncCommands):
    """`app.runs.sync`"""

    def __init__(self, runs: Runs) -> None:
        super().__init__(runs.database, runs.actor)
        self.registry = runs.registry
        self._runs = runs

    def _reader(self) -> RunReader:
        return self._runs

    def wait(self, run_id: int, timeout: float | None = None) -> RunInfo:
        if self.tenant is not None:
            self.get(run_id)
        return self._runs.waits.run_sync(run_id, timeout)
