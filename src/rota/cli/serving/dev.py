"""`rota dev`: all that an application needs, on one machine, restarted when the code changes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rota.cli.database.psql import conninfo
from rota.cli.loading import Loaded, source_roots
from rota.cli.serving import dev_token, reload
from rota.cli.session import chosen, closing, session
from rota.cli.terminal.output import remark
from rota.cli.workers.worker import AppOption, run_worker
from rota.model.formatting import plural

if TYPE_CHECKING:
    from rota.api.serve import ApiServer
    from rota.app import App
    from rota.postgres.migrate import Migration

NO_APPLICATION = "none: SQL jobs only; `rota dev FILE.py` adds Python jobs"


def dev(
    ctx: typer.Context,
    target: Annotated[
        str | None, typer.Argument(metavar="FILE|MODULE", help="Application.")
    ] = None,
    app: AppOption = None,
    is_reloading: Annotated[
        bool, typer.Option("--reload/--no-reload", help="Restart when a .py file changes.")
    ] = True,
    port: Annotated[
        int | None,
        typer.Option(metavar="N", help="Port to listen on, or the next free one."),
    ] = None,
) -> int:
    """Run an application for development. Starts a migrated database (embedded, if none is
    configured), a worker and the API, and restarts them when the code changes. Without an
    application, it runs the SQL jobs of the database."""
    given = target or app or session(ctx).app
    place = session(ctx).named(given)
    roots = source_roots(place) if place else []
    if is_reloading and place:
        command = [sys.executable, "-P", "-m", "rota", "dev", "--no-reload"]
        command += [] if port is None else ["--port", str(port)]
        return reload.Reloader([*command, *([given] if given else [])], roots).run()
    found = session(ctx).load_or_bare(given)
    if port is not None:
        found.app.config = found.app.config.override({"server.port": port})
    _run(found, roots)
    return 0


def _run(found: Loaded, roots: list[Path]) -> None:
    from rota.telemetry.logging import configure

    app = found.app
    app.config = chosen(app.config)  # the banner says so
    configure(app.config.log_level, tracebacks=True)
    supervisor = reload.ReloadParent.inherited()
    with closing(app):
        applied = app.migrate()
        if supervisor is not None:
            supervisor.report(app.embedded_home)
        api, shown = _api(app)
        _print_banner(found, applied, supervisor, roots, shown)
        run_worker(app, app.config, found.reference, api)


def _api(app: App) -> tuple[ApiServer | None, dict[str, str]]:
    """Return the server and its lines of the banner. Without a configured token, a token is made
    for this start, on loopback only: other users and programs of this machine do not know it."""
    from rota.api.serve import ApiServer, address, is_loopback, listen_near
    from rota.web.app import Site

    server = app.config.server
    if server.token is not None:
        bound = listen_near(server.host, server.port)
        place = f"{address(bound)}, sign in with [server] token"
        return ApiServer(Site(app), bound), {"dashboard": place}
    if not is_loopback(server.host):
        why = f"off: {server.host} is not loopback, and [server] token is not set"
        return None, {"dashboard": why}
    token = dev_token.take()
    app.config = app.config.override({"server.token": token})
    bound = listen_near(server.host, server.port)
    header = f'-H "Authorization: Bearer $(cat {_short(dev_token.write(token))})"'
    return ApiServer(Site(app, has_link=True), bound), {
        "dashboard": f"{address(bound)}/?token={token}",
        "api": f"curl {header} {address(bound)}/api/v1/runs",
    }


def _print_banner(
    found: Loaded,
    applied: list[Migration],
    supervisor: reload.ReloadParent | None,
    roots: list[Path],
    api: dict[str, str],
) -> None:
    app = found.app
    jobs = plural(len(app.registry), "job")
    if supervisor is not None and not supervisor.is_first:
        remark(f"reloaded {found.reference}, {jobs}")
        return
    worker = app.config.worker
    queues = ", ".join(worker.queues) or "all"
    watched = ", ".join(map(str, roots)) if supervisor else ""
    named = f"{found.reference}, {jobs}" if found.reference else NO_APPLICATION
    lines = {
        **api,
        "application": named,
        "database": _database(app, applied),
        "psql": _psql(app),
        "worker": f"{plural(worker.concurrency, 'slot')}, queues: {queues}",
        "reload": f"when a .py file changes in {watched}" if watched else "off",
        "stop": "Ctrl-C; press twice to stop without waiting for running attempts",
    }
    remark("rota dev")
    for name, text in lines.items():
        remark(f"  {name:<12} {text}")


def _database(app: App, applied: list[Migration]) -> str:
    home = app.embedded_home
    place = f"embedded Postgres in {_short(home)}" if home else "as configured"
    schema = f'schema "{app.config.schema}"'
    done = f", {plural(len(applied), 'migration')} applied" if applied else ""
    return f"{place}, {schema}{done}"


def _psql(app: App) -> str:
    """Return a command line to copy. The password stays in its file, or where it was configured."""
    password = (
        f"PGPASSWORD=$(cat {_short(app.embedded_home)}/password) " if app.embedded_home else ""
    )
    return f'{password}psql "{conninfo(app)}"'


def _short(path: Path | None) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path and path.is_relative_to(here) else path)
