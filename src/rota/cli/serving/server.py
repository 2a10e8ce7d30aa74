"""`rota server`: the API and the dashboard."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rota.cli.session import administer, closing, session
from rota.cli.terminal.failure import Failure
from rota.cli.terminal.output import remark, say
from rota.cli.workers.worker import AppOption

if TYPE_CHECKING:
    from rota.app import App

TOKEN_HINT = (
    "create one with `rota server --new-token`; set it as ROTA_SERVER_TOKEN, or write it to a file "
    "and pass --token-file"
)

NO_APPLICATION = ", without an application: payloads of Python jobs are checked when they run"


def server(
    ctx: typer.Context,
    app: AppOption = None,
    host: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Address to listen on. Default: loopback.")
    ] = None,
    port: Annotated[
        int | None, typer.Option(metavar="N", help="Port to listen on. 0: any free port.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File that contains the admin token.")
    ] = None,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Print a random token and exit.")
    ] = False,
) -> int:
    """Serve the API and dashboard. The server never claims or runs jobs or ticks schedules. With an
    application, payloads are validated against the types of its jobs. On SIGTERM or Ctrl-C,
    finishes open requests and exits."""
    if new_token:
        from secrets import token_urlsafe

        say(token_urlsafe(32))
        return 0
    given = {"server.host": host, "server.port": port, "server.token": _token(token_file)}
    found = session(ctx).find(app)
    with closing(found.app) if found else administer(ctx) as used:
        used.config = used.config.override(
            {key: value for key, value in given.items() if value is not None}
        )
        _serve(used, "" if found else NO_APPLICATION)
    return 0


def _token(file: Path | None) -> str | None:
    if file is None:
        return None
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"cannot read the token from {file}: {error}", code=2) from None


def _serve(app: App, note: str) -> None:
    if app.config.server.token is None:
        raise Failure(
            "no admin token is set; the API requires one",
            hint=TOKEN_HINT,
            code=2,
        )
    from rota.api.serve import ApiServer, address, listen
    from rota.engine.processes.event_loop import run
    from rota.telemetry.logging import configure
    from rota.web import create_site

    configure(app.config.log_level)
    bound = listen(app.config.server.host, app.config.server.port)
    remark(f"rota server on {address(bound)}{note}")
    run(_until_signal(app, ApiServer(create_site(app), bound)))


async def _until_signal(app: App, api: Any) -> None:
    import asyncio
    import signal

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, api.stop)
    try:
        await api.serve()
    finally:
        await app.close()
