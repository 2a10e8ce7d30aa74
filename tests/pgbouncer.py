"""The distribution's PgBouncer before a server of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from rota.embedded.accounts import server_account
from rota.testing import eventually_sync
from tests.ports import free_port

Mode = Literal["transaction", "session"]
_INI = """\
[databases]
* = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = {users}
pool_mode = {mode}
default_pool_size = 12
max_client_conn = 500
ignore_startup_parameters = {ignored}
"""


class PgBouncer:
    def __init__(self, port: int) -> None:
        self._port = port

    def url(self, database_url: str) -> str:
        """The way to the same database through it."""
        return make_conninfo(
            database_url, host="127.0.0.1", port=self._port, sslmode="disable", gssencmode="disable"
        )


@contextmanager
def pgbouncer(database_url: str, mode: Mode, ignored: str = "") -> Iterator[PgBouncer]:
    """For all databases of that server, as the user of that URL."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        pytest.skip("no PgBouncer (apt install pgbouncer): poolers were not tested")
    known = conninfo_to_dict(database_url)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="rota-pgbouncer-") as name:
        place = Path(name)
        users, ini = place / "users", place / "ini"
        users.write_text(f'"{known["user"]}" "{known["password"]}"\n')
        ini.write_text(
            _INI.format(
                server_port=known["port"], port=port, users=users, mode=mode, ignored=ignored
            )
        )
        account = server_account(place / "none")
        for path in (place, users, ini):
            os.chown(path, account.uid, account.gid)
        who = {"user": account.uid, "group": account.gid, "extra_groups": []}
        process = subprocess.Popen(
            [program, "--quiet", str(ini)], cwd="/", stderr=subprocess.DEVNULL,
            **(who if account.is_other else {}),  # type: ignore[call-overload]
        )  # fmt: skip
        try:
            found = PgBouncer(port)
            eventually_sync(lambda: _answers(found.url(database_url)), timeout=30)
            yield found
        finally:
            process.terminate()
            process.wait(30)


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
