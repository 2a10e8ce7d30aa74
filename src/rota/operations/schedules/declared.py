"""`app.schedule`: schedules that code declares, stored when the application opens its database."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from rota.errors import JobError, PayloadError, ScheduleNotFound, UnknownJob
from rota.jobs.decorator import BoundJob
from rota.jobs.registry import Declaration
from rota.jobs.values import checked_tenant
from rota.operations.app_commands import CommandSets
from rota.operations.schedules.next_time import compute_next
from rota.postgres.jobs import present_names
from rota.postgres.plans import Plan

if TYPE_CHECKING:
    from rota.jobs.definition import JobDefinition
    from rota.jobs.registry import Registry

# Tenant and name.
Key = tuple[str, str]
# The actor in the audit, because no user made the change.
ACTOR = "code"
_PORTION = 1000


class EarlySchedule(NamedTuple):
    """A schedule that was declared before its job."""

    job: str
    name: str
    settings: Mapping[str, Any]
    keys: list[Key]


class DeclaredSchedules:
    """Stores schedules that are declared before the database is open when it opens, and later ones
    at once."""

    noun = "schedules"

    def __init__(self, app: CommandSets) -> None:
        self._app = app
        # Declared while the code is loaded, as opposed to at run time.
        self._declared: dict[Key, Mapping[str, Any]] = {}
        self._waiting: dict[Key, Mapping[str, Any]] = {}
        self._places: dict[Key, str] = {}
        # Schedules of jobs that are not declared yet.
        self._early: list[EarlySchedule] = []
        app.registry.guard(self._check_early)
        app.registry.kinds.append(self)

    def add(
        self,
        name: str,
        job: BoundJob | str,
        tenants: Iterable[str],
        settings: Mapping[str, Any],
    ) -> None:
        """Add one schedule for each tenant. It is checked here, so that an error shows the line of
        the declaration; if its job is not declared yet, it is checked again when it is. Until the
        database is open, a name may be declared twice only with the same settings."""
        job_name = job if isinstance(job, str) else job.name
        known = self._app.registry.find(job_name)
        columns = _columns(name, job_name, known, settings)
        wanted = {(_whose(tenant), name): columns for tenant in tenants}
        place, is_line_of_module = _caller()
        if not self._app.database.is_open:
            self._refuse_another(wanted, place)
            if known is None:
                self._early.append(EarlySchedule(job_name, name, settings, list(wanted)))
        self._app.registry.schedules.update(wanted)
        self._places |= dict.fromkeys(wanted, place)
        if is_line_of_module or not self._app.database.is_open:
            self._declared |= wanted
        if self._app.database.is_open:
            build = self._app.registry.build
            plan = self._put(wanted, build, at_start=is_line_of_module)
            self._app.database.run_sync(plan)
        else:
            self._waiting |= wanted

    def _check_early(self, job: JobDefinition) -> None:
        """When a job is declared, check the schedules that were declared before it, and refuse a
        schedule of the job whose name is already used."""
        for name in job.schedule_names:
            if ("", name) in self._waiting:
                raise _declared_by_both(name, job, self._places["", name])
        for early in self._early:
            keys = [key for key in early.keys if key in self._waiting]
            if early.job != job.name or not keys:
                continue
            try:
                columns = _columns(early.name, early.job, job, early.settings)
            except (JobError, PayloadError) as error:
                place = self._places[keys[0]]
                raise type(error)(f"{place}: {error}", hint=error.hint) from None
            self._waiting |= dict.fromkeys(keys, columns)
            self._declared |= dict.fromkeys(keys, columns)
            self._app.registry.schedules.update(dict.fromkeys(keys, columns))

    def _refuse_another(self, wanted: Mapping[Key, Mapping[str, Any]], place: str) -> None:
        """Refuse a second declaration with other settings: the order of imports would decide
        between them."""
        for (tenant, name), columns in wanted.items():
            job = None if tenant else self._app.registry.declares_schedule(name)
            if job is not None:
                raise _declared_by_both(name, job, place)
            known = self._waiting.get((tenant, name), columns)
            if known != columns:
                whose = f' of tenant "{tenant}"' if tenant else ""
                raise JobError(
                    f'schedule "{name}"{whose} is declared twice, with different settings: '
                    f"{self._places[tenant, name]} and {place}",
                    hint="rename or remove one of them",
                )

    def remove(self, name: str, tenant: str) -> None:
        """Raise ScheduleNotFound if the schedule was neither declared nor stored."""
        self._app.registry.schedules.pop((tenant, name), None)
        self._declared.pop((tenant, name), None)
        was_waiting = self._waiting.pop((tenant, name), None) is not None
        try:
            self._app.schedules.by(ACTOR).sync.delete(name, tenant=tenant)
        except ScheduleNotFound:
            if not was_waiting:
                raise

    def said(self) -> list[Declaration]:
        return [Declaration(key, columns) for key, columns in self._declared.items()]

    def put(self, build: str | None, forced: Sequence[str] = ()) -> Plan[int]:
        written = yield from self._put(self._declared, build, at_start=True, forced=forced)
        self._waiting.clear()
        self._early.clear()
        return written

    def forget_stored(self) -> None:
        """Store all declarations again, because the database is another one."""
        self._waiting = dict(self._app.registry.schedules)
        self._declared = dict(self._waiting)

    def _put(
        self,
        wanted: Mapping[Key, Mapping[str, Any]],
        build: str | None,
        *,
        at_start: bool,
        forced: Sequence[str] = (),
    ) -> Plan[int]:
        """Write in the order of tenant and name, so that two starting processes cannot deadlock; a
        thousand per statement."""
        written = 0
        yield from _check_requires(wanted, self._app.registry)
        if wanted:
            written = yield from self._write(wanted, build, at_start, forced)
        yield from compute_next()  # also of schedules that jobs declare
        return written

    def _write(
        self,
        wanted: Mapping[Key, Mapping[str, Any]],
        build: str | None,
        at_start: bool,
        forced: Sequence[str],
    ) -> Plan[int]:
        from rota.operations.schedules.edits import said
        from rota.postgres.schedules.schedules import put_schedules

        registry, written = self._app.registry, 0
        yield from self._check_jobs(wanted)
        yield from self._check_payloads(wanted, build, at_start)
        ordered = [(*key, said(wanted[key])) for key in sorted(wanted)]
        for first in range(0, len(ordered), _PORTION):
            written += yield from put_schedules(
                ordered[first : first + _PORTION],
                actor=ACTOR,
                build=build,
                application=registry.application,
                at_start=at_start,
                forced=forced,
            )
        return written

    def _check_payloads(
        self, wanted: Mapping[Key, Mapping[str, Any]], build: str | None, at_start: bool
    ) -> Plan[None]:
        """Check the payloads of jobs that this process does not declare. What was declared before
        is stored already: another application may have changed its job since, and this one must
        still start."""
        from rota.operations.schedules.payloads import check_stored
        from rota.postgres.schedules.payloads import find_new_payloads

        registry = self._app.registry
        others = {
            key: (it["job"], it["payload"])
            for key, it in wanted.items()
            if it["job"] not in registry
        }
        keys = list(others)
        if at_start and others:
            keys = yield from find_new_payloads(
                others, application=registry.application, build=build
            )
        yield from check_stored(registry, [(key[1], *others[key]) for key in keys])

    def _check_jobs(self, wanted: Mapping[Key, Mapping[str, Any]]) -> Plan[None]:
        """Name the line of the declaration in the error: the database may be opened by code of
        another author."""
        others = {it["job"] for it in wanted.values() if it["job"] not in self._app.registry}
        if not others:
            return
        known = yield from present_names()
        for key in sorted(wanted):
            if (job := wanted[key]["job"]) in others and job not in known:
                near = get_close_matches(job, [*known, *self._app.registry.names()], 1)
                raise UnknownJob(
                    f'schedule "{key[1]}" at {self._places[key]}: no job is named "{job}"',
                    hint=f"did you mean {near[0]}?" if near else "declare the job with @app.job",
                )


def _columns(
    name: str, job: str, known: JobDefinition | None, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    from rota.operations.schedules import payloads
    from rota.operations.schedules.edits import whole

    whole(name, job, {**settings, "payload": None})
    if known is not None and known.key is not None:
        raise JobError(
            f'schedule "{name}": job "{job}" has the key "{known.key}", so it cannot have a '
            "schedule: every time of a schedule has its run",
            hint="overlap decides what happens while the previous run of a schedule has not ended",
        )
    return whole(name, job, payloads.declared(known, name, settings))


def _declared_by_both(name: str, job: JobDefinition, place: str) -> JobError:
    return JobError(
        f'schedule "{name}" is declared twice: by the decorator of {job.source} and by '
        f"app.schedule at {place}",
        hint="give one of them another name, or remove it",
    )


def _check_requires(wanted: Mapping[Key, Mapping[str, Any]], registry: Registry) -> Plan[None]:
    """Check also schedules that decorators declare: jobs are stored before schedules, so all names
    are known."""
    by_jobs = [
        ("", one["name"], {**one, "job": job.name}) for job in registry for one in job.schedules
    ]
    if any(it["requires"] for it in (*wanted.values(), *(it for _, _, it in by_jobs))):
        from rota.operations.schedules.requirements import check_requires

        entries = [(tenant, name, columns) for (tenant, name), columns in wanted.items()]
        yield from check_requires([*by_jobs, *entries])


def _caller() -> tuple[str, bool]:
    """Return the line of the declaration, which is the innermost one outside of Rota, and whether
    it is executed by the import of a module, however late. A declaration inside a function is an
    action at run time."""
    frame: FrameType | None = sys._getframe()
    while frame is not None and f"{frame.f_globals.get('__name__')}.".startswith("rota."):
        frame = frame.f_back
    if frame is None:
        return "unknown", False
    is_line_of_module = frame.f_code.co_name == "<module>"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}", is_line_of_module


def _whose(tenant: str) -> str:
    return checked_tenant(tenant) if tenant else ""
