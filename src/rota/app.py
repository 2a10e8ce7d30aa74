"""App: the one place where everything is put together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, overload

import psycopg

from rota import __version__
from rota.config import Config
from rota.config.load import find_file
from rota.errors import ConfigError, SchemaError, TimingError
from rota.hints import Hint
from rota.jobs.batch import Call
from rota.jobs.dead_letters import LetterFunction, LetterJob
from rota.jobs.dead_letters import declare as declare_letter_job
from rota.jobs.decorator import BoundJob, JobDecorator
from rota.jobs.elsewhere import OF_APP, refuse
from rota.jobs.emit import Started
from rota.jobs.handle import R, Run
from rota.jobs.hooked import HookedEnqueuer
from rota.jobs.hooks import HookDecorators, Hooks, LifespanFunction
from rota.jobs.job_arguments import JobKeywords
from rota.jobs.options import KeyKeep
from rota.jobs.registry import Registry
from rota.jobs.sync import put_others, store_new_sync, warn_of_holder
from rota.jobs.tracing import TracedEmitter
from rota.jobs.values import checked_tenant
from rota.model.durations import Duration
from rota.model.queue import WhenFull
from rota.model.schedule_fields import ScheduleKeywords
from rota.operations.app_commands import CommandSets
from rota.operations.queues.declared import DeclaredQueues
from rota.operations.runs.reader import HandleReader
from rota.operations.runs.runs import Runs
from rota.operations.schedules.declared import DeclaredSchedules
from rota.postgres import migrate
from rota.postgres.errors import translate
from rota.postgres.migrate import Installed, Migration
from rota.postgres.plans import call
from rota.postgres.sessions.opening import Session, lent, own
from rota.postgres.sessions.pool import Conn, Database

if TYPE_CHECKING:
    from rota.embedded import EmbeddedPostgres
    from rota.engine.worker import Worker
    from rota.operations.tenants.handle import Tenant


def _module_name(scope: dict[str, Any]) -> str:
    """The name under which others import it, also when it is run itself."""
    name = str(scope.get("__name__") or "app")
    if name != "__main__":
        return name
    spec = scope.get("__spec__")
    if spec is not None and spec.name:
        return str(spec.name).removesuffix(".__main__")
    return Path(scope.get("__file__") or "app").stem


class App(CommandSets, HookDecorators):
    """An application: its jobs, its database, its workers.

    The database is `App(database_url=…)`, ROTA_DATABASE_URL or rota.toml; if none is set, an
    embedded Postgres. Every setting can be passed as an argument: `App(schema="jobs",
    worker={"concurrency": 4})`. Nothing is opened or started before its first use, and modules that
    only workers or operators need are not imported either. The name, by default that of the module
    which creates the App, distinguishes the jobs of applications that share a database.
    `lifespan` is the same as `@app.lifespan`.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        name: str | None = None,
        config: Config | None = None,
        lifespan: LifespanFunction | None = None,
        **settings: Any,
    ) -> None:
        self.config = config or Config.load(database_url=database_url, **settings)
        self._module = _module_name(sys._getframe(1).f_globals)
        self.name = name or self._module
        self.hooks = Hooks(self)
        self.registry = Registry(self.name, self.hooks)
        self.database = Database(
            schema=self.config.schema,
            prepare=self._prepare,
            on_open=self._register,
            direct_url=self.config.database.direct_url,
            given_url=self.config.database_url,
            revive=self._revive,
        )
        self.runs = Runs(self.database, self.registry)
        reader = HandleReader(self.runs)
        self._declared = DeclaredSchedules(self)
        self._queues = DeclaredQueues(self.database, self.registry)
        self._enqueuer = HookedEnqueuer(self.database, self.config, self.registry, reader)
        self._emitter = TracedEmitter(self.database, self.config, self.registry, reader)
        self.job = JobDecorator(self.registry, self._enqueuer)
        self._server: EmbeddedPostgres | None = None
        if lifespan is not None:
            self.lifespan(lifespan)

    @overload
    def on_dead_letter(self, function: LetterFunction, /) -> LetterJob: ...
    @overload
    def on_dead_letter(
        self, *, jobs: Iterable[BoundJob | str] = (), **arguments: Unpack[JobKeywords]
    ) -> Callable[[LetterFunction], LetterJob]: ...
    def on_dead_letter(  # type: ignore[misc]
        self,
        function: LetterFunction | None = None,
        /,
        *,
        jobs: Iterable[BoundJob | str] = (),
        **arguments: Any,
    ) -> Any:
        """Declare what runs for every run that has failed permanently, or for those of `jobs`: a
        function of `(ctx: rota.Context, letter: rota.DeadLetter)`. It is a job of its own, enqueued
        together with the end of that run, so it also hears of runs whose worker was killed or whose
        job nobody knows, and it is retried. `arguments` are those of `@app.job`. Its own
        dead letters, and those of Rota's jobs, are not passed to it."""
        if function is not None:
            return declare_letter_job(self.job, function, jobs, {})
        return lambda function: declare_letter_job(self.job, function, jobs, arguments)

    # Enqueueing.

    async def enqueue_many(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Run[R]]:
        """Enqueue all calls or none, in the given order: `app.enqueue_many(job.call(n=i) for i in
        …)`."""
        return await self._enqueuer.send_many(calls, connection)

    def enqueue_many_sync(
        self, calls: Iterable[Call[R]], *, connection: Any = None
    ) -> list[Run[R]]:
        return self._enqueuer.send_many_sync(calls, connection)

    async def emit(
        self,
        event: str,
        payload: Mapping[str, Any] | None = None,
        *,
        tenant: str = "",
        key: str | None = None,
        key_keep: KeyKeep = None,
        key_period: Duration | None = None,
        metadata: Mapping[str, Any] | None = None,
        hook: str | None = None,
        connection: Any = None,
    ) -> Started:
        """Emit an event: one run of every job that is bound to it, by `@app.job(events=[…])` or in
        the database: `await app.emit("order.paid", {"order_id": 7})`. With a key, each job gets
        one run until that run has ended and for `key_keep` after that; with `key_period`, one in
        that time, whatever happens to its runs. Every run gets the `metadata`. `hook` names
        the ORM or framework hook that emits. The event is stored; `event_id` of the result is its
        id."""
        return await self._emitter.send(
            event,
            payload,
            connection,
            tenant=tenant,
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
        tenant: str = "",
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
            tenant=tenant,
            key=key,
            key_keep=key_keep,
            key_period=key_period,
            metadata=metadata,
            hook=hook,
        )

    # Schedules.

    def schedule(
        self,
        name: str,
        job: BoundJob | str,
        *,
        tenant: str = "",
        tenants: Iterable[str] | None = None,
        **settings: Unpack[ScheduleKeywords],
    ) -> None:
        """Declare when a job runs: `app.schedule("digest", send, cron="0 8 * * 1-5")`. Pass exactly
        one of `cron`, `every`, `at` and `init`. The schedule is stored when the database is
        opened, or at once if it is open; repeated calls update it. `tenants` creates one
        schedule for each tenant. The async form is `await app.schedules.put(…)`."""
        if tenant and tenants is not None:
            raise TimingError("tenant and tenants cannot be combined")
        if self.database.is_open and self.registry.has_new:
            with self.database.connection_sync() as conn:
                self._store_jobs(conn)
        self._declared.add(name, job, [tenant] if tenants is None else tenants, settings)

    def unschedule(self, name: str, *, tenant: str = "") -> None:
        """Delete a schedule. Raises ScheduleNotFound if there is none."""
        self._declared.remove(name, tenant)

    # Queues.

    def queue(
        self, name: str, *, max_waiting: int | None = None, when_full: WhenFull = "refuse"
    ) -> None:
        """Declare how many runs may wait in a queue: `app.queue("mail", max_waiting=10_000)`. Above
        that, enqueues are refused (QueueFull), or the waiting runs with the lowest priority are
        dropped (`drop_lowest`). Stored when the database is opened, or at once if it is open;
        changes by an operator are kept."""
        self._queues.add(name, max_waiting, when_full)

    # Tenants.

    def tenant(self, name: str) -> Tenant:
        """Return the functions of the application for one tenant: `await
        app.tenant("acme").enqueue(send, n=1)`. Tenants need no registration. Raises InputError
        if the name is invalid."""
        from rota.operations.tenants.handle import Tenant

        return Tenant(checked_tenant(name), self, self)

    # Running.

    def worker(
        self,
        *,
        config: Config | None = None,
        owns_process: bool = False,
        app_ref: str | None = None,
    ) -> Worker:
        """Create a worker inside this program: `async with app.worker(): …`."""
        from rota.engine.processes.parent import Parent
        from rota.engine.worker import Worker

        config = config or self.config
        return Worker(
            config=config,
            database=self.database,
            registry=self.registry,
            app_ref=app_ref,
            owns_process=owns_process,
            parent=Parent.inherited(config.worker.lease_seconds) if owns_process else None,
            version=__version__,
        )

    # The database.

    @property
    def embedded_home(self) -> Path | None:
        """The data directory of the embedded server; None if this application does not use it."""
        return None if self._server is None else self._server.home

    def migrate(self) -> list[Migration]:
        """Apply the missing migrations."""
        with translate():
            url = self.config.database.direct_url or self._server_url()
            return migrate.migrate(url, self.config.schema)

    def grant(self, role: str) -> None:
        """Grant a database role the privileges that workers, the API and commands need, also for
        objects of later migrations. Must be called as the role that migrates."""
        self.database.run_sync(call("grant_worker", role_name=role))

    def pending_migrations(self) -> list[Migration]:
        """The migrations that `migrate` would apply."""
        with translate(), Session.connect(self._server_url(), **own("rota")) as conn:
            return migrate.pending(conn, self.config.schema)

    def shadowing_role(self) -> str | None:
        """The role of this application's sessions if it has the name of the schema: in psql it
        would find Rota's tables before its own."""
        with translate(), psycopg.connect(self._server_url(), **lent("rota")) as conn:
            return migrate.shadowing_role(conn, self.config.schema)

    def superuser_owner(self) -> str | None:
        """The owner of the schema if it is a superuser. Not of the embedded server, where nobody
        else has a role."""
        url = self._server_url()
        if self._server is not None:
            return None
        with translate(), Session.connect(url, **own("rota")) as conn:
            return migrate.superuser(conn, self.config.schema)

    def check_schema(self) -> None:
        """Raise SchemaError if the schema does not fit this release."""
        with self.database.connection_sync() as conn, translate():
            self._check(migrate.installed(conn, self.config.schema))

    def _prepare(self) -> str:
        """The URL of a database whose schema serves this release."""
        url = self._server_url()
        if self._server is not None:
            # It is ours alone: nobody else decides when it is upgraded.
            migrate.migrate(url, self.config.schema)
        with Session.connect(url, **own("rota")) as conn:
            self._check(migrate.installed(conn, self.config.schema))
        return url

    def _check(self, found: Installed | None) -> None:
        try:
            migrate.check(found, self.config.schema)
        except SchemaError as error:
            advice = error.advice
            hint = advice.at(self._place()) if isinstance(advice, Hint) else advice
            raise SchemaError(str(error), hint=hint) from None

    def _place(self) -> tuple[str, ...]:
        """What a command needs to find the database that this application says in its code, or in
        a file that is not the nearest."""
        source, file = self.config.source("database_url"), self.config.file
        if source == "argument":
            return "--app", self._module
        if source == "file" and file is not None and file != find_file(Path.cwd()):
            return "--config", str(file)
        return ()

    def _server_url(self) -> str:
        if self.config.database_url:
            return self.config.database_url
        if not self.config.embedded:
            raise ConfigError(
                "no database is configured, and the embedded Postgres is disabled",
                hint="set database_url in rota.toml, ROTA_DATABASE_URL, or App(database_url=…)",
            )
        if self._server is None:
            from rota.embedded import EmbeddedPostgres, default_data_dir

            server = EmbeddedPostgres(self.config.data_dir or default_data_dir())
            server.start()
            self._server = server
            self._say_embedded(server)
        return self._server.url

    def _say_embedded(self, server: EmbeddedPostgres) -> None:
        """Once, unless somebody has chosen it: a process that lacks the variable of the others
        works on a database of its own."""
        if all(self.config.source(key) == "default" for key in ("embedded", "data_dir")):
            from rota.telemetry.logger import get_logger

            text = "no database URL is set: this process uses the embedded Postgres"
            get_logger("app").warning(text, directory=server.home)

    def _revive(self) -> str | None:
        """The embedded server may have been killed: whoever uses it starts it again."""
        if self._server is None:
            return None
        self._server.start()
        return self._server.url

    def _register(self, conn: Conn) -> None:
        """Store the declarations. If an open transaction prevents it, the process starts all the
        same, and workers try again."""
        if self._store_jobs(conn):
            try:
                self.database.run_on(conn, put_others(self.registry, self.registry.build))
            except psycopg.errors.LockNotAvailable as error:
                warn_of_holder(error)

    def _store_jobs(self, conn: Conn) -> bool:
        return store_new_sync(conn, self.database.statements, self.registry, self.config)

    async def close(self) -> None:
        """Close the pools, and the embedded server if no other program uses it."""
        await self.runs.close()
        await self.database.close()
        self._stop_server()

    def close_sync(self) -> None:
        self.runs.waits.close_sync()
        self.database.close_sync()
        self._stop_server()

    def _use(self, config: Config) -> None:
        """Everything that follows is on the database of this configuration. For tests: nobody may
        be using the one before."""
        self.runs.waits.close_sync()
        self._stop_server()
        self.config = config
        self.database.point_at(config.database_url, config.database.direct_url)
        self.registry.forget_stored()
        self._declared.forget_stored()

    def _stop_server(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    if not TYPE_CHECKING:  # they would take it that every name is there

        def __getattr__(self, name: str) -> Any:
            refuse(self, name, OF_APP, "an application")

    async def __aenter__(self) -> App:
        await self.database.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
