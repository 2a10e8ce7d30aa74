"""`rota worker`: runs jobs until it is stopped."""

from __future__ import annotations

import sys
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import closing, refuse_empty, session
from rota.cli.terminal import values
from rota.cli.terminal.output import remark

if TYPE_CHECKING:
    from rota.app import App
    from rota.config import Config

AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:ATTRIBUTE|FILE.PY", help="Application."),
]
Queues = Annotated[
    str | None, typer.Option(metavar="A,B", help="Queues to claim from. Default: all.")
]
Concurrency = Annotated[
    int | None, typer.Option(metavar="N", help="Concurrent attempts per process.")
]
Processes = Annotated[int | None, typer.Option(metavar="N", help="Number of worker processes.")]
Poll = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Maximum interval between polls when no notification arrives."
    ),
]
Lease = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION", help="Time without a heartbeat after which a worker is considered lost."
    ),
]
Shutdown = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="Time running attempts have to finish on shutdown."),
]


SleepAfter = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Idle time after which all connections are closed until something is due.",
    ),
]
SleepAtMost = Annotated[str | None, typer.Option(metavar="DURATION", help="Maximum sleep time.")]
NoScheduler = Annotated[
    bool, typer.Option("--no-scheduler", help="Run jobs, but leave schedules to other workers.")
]


def worker(
    ctx: typer.Context,
    app: AppOption = None,
    queues: Queues = None,
    concurrency: Concurrency = None,
    processes: Processes = None,
    poll: Poll = None,
    lease: Lease = None,
    shutdown: Shutdown = None,
    sleep_after: SleepAfter = None,
    sleep_at_most: SleepAtMost = None,
    no_scheduler: NoScheduler = False,
) -> int:
    """Run jobs. On SIGTERM or Ctrl-C, finishes running attempts and exits; a second signal
    interrupts them. SIGUSR1 makes it look for work at once, even if asleep. Without an application,
    it runs the SQL jobs of the database."""
    overrides = {
        "worker.queues": values.names(queues),
        "worker.concurrency": concurrency,
        "worker.processes": processes,
        "worker.poll_seconds": values.seconds(poll, "--poll"),
        "worker.lease_seconds": values.seconds(lease, "--lease"),
        "worker.shutdown_seconds": values.seconds(shutdown, "--shutdown"),
        "worker.sleep_after_seconds": values.seconds(sleep_after, "--sleep-after"),
        "worker.sleep_at_most_seconds": values.seconds(sleep_at_most, "--sleep-at-most"),
        "scheduler.enabled": False if no_scheduler else None,
    }
    found = session(ctx).load_or_bare(app)
    config = found.app.config.override(overrides)
    from rota.telemetry.logging import configure

    configure(config.log_level)
    if found.reference is None:
        refuse_empty(config)
        remark("no application is set: this worker runs SQL jobs only; --app adds Python jobs")
    elif not found.app.registry:
        remark(f"hint: {found.reference} declares no jobs: this worker runs SQL jobs only")
    with closing(found.app):
        if config.worker.processes > 1:
            return run_processes(found.app, config, app or session(ctx).app, overrides)
        return run_worker(found.app, config, found.reference)


def run_worker(
    app: App,
    config: Config,
    reference: str | None,
    beside: AbstractAsyncContextManager[object] | None = None,
) -> int:
    """Run a worker; `beside` is a context that is open as long as the worker runs. Return the exit
    code."""
    from rota.engine.processes.event_loop import run
    from rota.engine.processes.shutdown import run_until_signal

    async def body() -> int:
        try:
            async with beside or nullcontext():
                worker = app.worker(config=config, owns_process=True, app_ref=reference)
                return await run_until_signal(worker)
        finally:
            await app.close()

    return run(body())


def run_processes(app: App, config: Config, name: str | None, given: dict[str, Any]) -> int:
    from rota.engine.processes.supervisor import supervise

    return supervise(
        config=config,
        database=app.database,
        command=[sys.executable, "-P", "-m", "rota", *_arguments(name, given)],
        processes=config.worker.processes,
    )


def _arguments(name: str | None, given: dict[str, Any]) -> list[str]:
    """Return the command line of one worker like this one; an application that was not named is
    found again."""
    flags = {
        "--queues": "worker.queues",
        "--concurrency": "worker.concurrency",
        "--poll": "worker.poll_seconds",
        "--lease": "worker.lease_seconds",
        "--shutdown": "worker.shutdown_seconds",
        "--sleep-after": "worker.sleep_after_seconds",
        "--sleep-at-most": "worker.sleep_at_most_seconds",
    }
    arguments = ["worker", "--processes", "1", *(["--app", name] if name else [])]
    if given["scheduler.enabled"] is False:
        arguments.append("--no-scheduler")
    for flag, key in flags.items():
        value = given[key]
        if value is not None:
            arguments += [flag, ",".join(value) if isinstance(value, list) else str(value)]
    return arguments
