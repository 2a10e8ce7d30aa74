"""A PostgreSQL server for one project, for when no database is configured.

`EmbeddedPostgres(data_dir).start()` starts the server of that directory, or joins it if another
process has started it already. The server runs as long as any process uses it and stops when the
last one ends, however that one ends.

* accounts.py   the account that the server runs as: never root
* binaries.py   where `initdb` and `postgres` are
* paths.py      where data and socket are
* locks.py      the file locks that show which processes use the server
* cluster.py    the data directory: created, checked, its password
* launch.py     the start of `postgres` and its watchdog
* watchdog.py   stops the server after its last user; a script of its own
* server.py     EmbeddedPostgres, which combines these
"""

from __future__ import annotations

from rota.embedded.paths import default_data_dir
from rota.embedded.server import EmbeddedPostgres

__all__ = ["EmbeddedPostgres", "default_data_dir"]
