"""`app.tenant("acme")`: the functions of the application, restricted to one tenant."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Unpack

from rota.errors import InputError
from rota.jobs.batch import Call
from rota.jobs.decorator import BoundJob
from rota.jobs.emit import Emitter, Started
from rota.jobs.enqueue import Enqueuer
from rota.jobs.handle import R, Run
from rota.jobs.options import KeyKeep
from rota.model.durations import Duration
from rota.model.tenant import TenantInfo, TenantSettings, TenantStats
from rota.operations.app_commands import CommandSets
from rota.operations.tenants.commands import TenantCommandSets

if TYPE_CHECKING:
    from rota.model.schedule_fields import ScheduleKeywords

P = ParamSpec("P")


class Application(Protocol):
    """The parts of the application that a handle needs, besides the command sets."""

    @property
    def _enqueuer(self) -> Enqueuer: ...
    @property
    def _emitter(self) -> Emitter: ...

    def schedule(
        self,
        name: str,
        job: BoundJob | str,
        *,
        tenant: str = "",
        **settings: Unpack[ScheduleKeywords],
    ) -> None: ...

    def unschedule(self, name: str, *, tenant: str = "") -> None: ...


class Tenant(TenantCommandSets):
    """Enqueue, emit and schedule for one tenant. `runs`, `bulk`, `schedules`, `logs`, `events`,
    `limits`, `audit` and `why` are restricted to the tenant; a run of another tenant is not
    found by its id. `templates` can be read. `jobs`, `queues`, `workers`, `calendars` and `clock`
    are the application's."""

    def __init__(self, name: str, app: Application, faces: CommandSets) -> None:
        super().__init__(name, faces)
        self._enqueuer, self._emitter = app._enqueuer, app._emitter
        self._schedule, self._unschedule = app.schedule, app.unschedule

    def __repr__(self) -> str:
        return f"<Tenant {self.name}>"

    # Enqueueing.

    async def enqueue(self, job: BoundJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        """Enqueue one run for this tenant: `await acme.enqueue(send, user_id=7)`; with options,
        `await acme.enqueue(send.options(delay=60), user_id=7)`."""
        return await self._enqueuer.send(self._own(job.call(*args, **kwargs)))

    def enqueue_sync(self, job: BoundJob[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Run[R]:
        return self._enqueuer.send_sync(self._own(job.call(*args, **kwargs)))

    async def enqueue_many(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Run[R]]:
        """Like `app.enqueue_many`, for this tenant."""
        return await self._enqueuer.send_many([*map(self._own, calls)], connection)

    def enqueue_many_sync(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Run[R]]:
        return self._enqueuer.send_many_sync([*map(self._own, calls)], connection)

    async def emit(
        self,
        event: str,
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        key_keep: KeyKeep = None,
        key_period: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        hook: str | None = None,
        connection: Any = None,
    ) -> Started:
        """Like `app.emit`, for this tenant."""
        return await self._emitter.send(
            event,
            payload,
            connection,
            tenant=self.name,
            key=key,
            key_keep=key_keep,
            key_period=key_period,
            metadata=metadata,
            hook=hook,
        )

    def emit_sync(
        self,
        event: str,
        payload: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        key_keep: KeyKeep = None,
        key_period: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        hook: str | None = None,
        connection: Any = None,
    ) -> Started:
        return self._emitter.send_sync(
            event,
            payload,
            connection,
            tenant=self.name,
            key=key,
            key_keep=key_keep,
            key_period=key_period,
            metadata=metadata,
            hook=hook,
        )

    # Schedules.

    def schedule(
        self, name: str, job: BoundJob | str, **settings: Unpack[ScheduleKeywords]
    ) -> None:
        """Like `app.schedule`, for this tenant: other tenants may have a schedule with the same
        name."""
        self._schedule(name, job, tenant=self.name, **settings)

    def unschedule(self, name: str) -> None:
        """Delete a schedule of this tenant. Raises ScheduleNotFound if there is none."""
        self._unschedule(name, tenant=self.name)

    # The tenant itself.

    async def get(self) -> TenantInfo:
        """Its settings and counts. Raises TenantNotFound if nothing names it."""
        return await self._faces.tenants.get(self.name)

    def get_sync(self) -> TenantInfo:
        return self._faces.tenants.sync.get(self.name)

    async def stats(self) -> TenantStats:
        """Its activity by day, and the results of its last runs."""
        return await self._faces.tenants.stats(self.name)

    def stats_sync(self) -> TenantStats:
        return self._faces.tenants.sync.stats(self.name)

    async def set(
        self, reason: str | None = None, **settings: Unpack[TenantSettings]
    ) -> TenantInfo:
        """Change the given settings, at once; None sets the default."""
        return await self._faces.tenants.set(self.name, reason, **settings)

    def set_sync(self, reason: str | None = None, **settings: Unpack[TenantSettings]) -> TenantInfo:
        return self._faces.tenants.sync.set(self.name, reason, **settings)

    async def pause(
        self, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> int | None:
        """Start none of its runs. Returns how many runs were held at once; None if it was already
        paused like this."""
        return await self._faces.tenants.pause(self.name, reason, until)

    def pause_sync(
        self, reason: str | None = None, until: datetime | timedelta | None = None
    ) -> int | None:
        return self._faces.tenants.sync.pause(self.name, reason, until)

    async def resume(self, reason: str | None = None) -> int | None:
        """Resume a paused tenant. Returns how many runs were released at once; None if it was not
        paused."""
        return await self._faces.tenants.resume(self.name, reason)

    def resume_sync(self, reason: str | None = None) -> int | None:
        return self._faces.tenants.sync.resume(self.name, reason)

    def _own(self, call: Call) -> Call:
        whose = call.options.tenant
        if whose not in (None, "", self.name):
            raise InputError(
                f'job "{call.job}": this is the handle of tenant {self.name!r}, not {whose!r}'
            )
        return call._replace(options=call.options.merge({"tenant": self.name}))
