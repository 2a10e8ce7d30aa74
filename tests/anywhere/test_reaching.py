"""Servers that are reached by TLS with a certificate of one's own, by SCRAM, by several hosts, and
one that fails over: workers wait for the standby to be promoted, and lose nothing."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import rota
from rota.errors import DatabaseError
from rota.postgres.migrate import migrate
from rota.testing import eventually, eventually_sync
from tests.anywhere.day import a_day_of_work
from tests.clusters import PASSWORD, SUPERUSER, Cluster
from tests.conftest import load_config
from tests.database import fast_directory
from tests.distribution import find_distribution
from tests.servers import NotToBeHad, find_server
from tests.sql_engine import Engine

pytestmark = pytest.mark.xdist_group("reaching")
# No session without TLS, none without a password.
_WHO = "all 127.0.0.1/32 scram-sha-256"
_HBA = f"hostssl all {_WHO}\nhostssl replication {_WHO}\n"
_CERTIFICATE = "-x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
_FOLLOWED = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn >= %s"


class Pair:
    """A primary, and a standby that follows it."""

    def __init__(self, bin_dir: Path, place: Path) -> None:
        self.primary = Cluster(bin_dir, place / "primary")
        self.standby = Cluster(bin_dir, place / "standby")
        self.certificate = place / "server.crt"

    def make(self) -> None:
        self.primary.initialise()
        home = self.primary.home
        names = ["-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", str(home / "server.key"), "-out", str(self.certificate)]
        command = ["openssl", "req", *_CERTIFICATE.split(), *names, *files]
        subprocess.run(command, check=True, capture_output=True)
        (home / "server.crt").write_bytes(self.certificate.read_bytes())
        (home / "server.key").chmod(0o600)
        (self.primary.data / "pg_hba.conf").write_text(_HBA)
        with (self.primary.data / "postgresql.conf").open("a") as conf:
            for name in ("cert", "key"):
                conf.write(f"ssl_{name}_file = '../server.{name.replace('cert', 'crt')}'\n")
            conf.write("ssl = on\nfsync = off\nmax_connections = 100\n")
        self.primary.give()
        self.primary.start()
        with psycopg.connect(self.primary.url, autocommit=True) as conn:
            conn.execute(f"CREATE ROLE shop LOGIN PASSWORD '{PASSWORD}'")
            conn.execute("CREATE DATABASE shop OWNER shop")
        migrate(self.url(), "rota")
        self.primary.stop()
        self.standby.copy_from(self.primary)
        (self.standby.data / "standby.signal").touch()
        self.standby.give()
        self.primary.start()
        login = f"user={SUPERUSER} password={PASSWORD} sslmode=require"
        self.standby.start(
            primary_conninfo=f"host=127.0.0.1 port={self.primary.port} {login}",
            hot_standby="on",
        )

    def url(self, hosts: int = 1, **more: str) -> str:
        """Of the primary; with two hosts, of the standby and then the primary."""
        ports = [self.standby.port, self.primary.port][-hosts:]
        return make_conninfo(
            host=",".join(["127.0.0.1"] * hosts),
            port=",".join(map(str, ports)),
            user="shop",
            password=PASSWORD,
            dbname="shop",
            **({"sslmode": "verify-full", "sslrootcert": str(self.certificate)} | more),
        )


def _with_tls() -> Path | None:
    """The embedded server is built without it."""
    try:
        return find_distribution() or find_server("oldest")
    except NotToBeHad:
        return None


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    bin_dir = _with_tls()
    if bin_dir is None:
        pytest.skip(
            "no server that knows TLS (apt install postgresql): TLS and fail-over not tested"
        )
    with tempfile.TemporaryDirectory(prefix="rota-reaching-", dir=fast_directory()) as name:
        place = Path(name)
        place.chmod(0o711)
        for part in ("primary", "standby"):
            (place / part).mkdir(mode=0o711)
        found = Pair(bin_dir, place)
        try:
            found.make()
            yield found
        finally:
            found.standby.stop()
            found.primary.stop()


async def test_a_day_of_work_by_tls(pair: Pair) -> None:
    """As a role that owns its database, by a certificate that nobody else vouches for."""
    await a_day_of_work(pair.url())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"sslmode": "disable"}, "connection failed"),
        ({"sslrootcert": "system"}, "certificate"),
        ({"password": "wrong"}, "connection failed"),
    ],
)
async def test_what_does_not_let_us_in_is_said(
    pair: Pair, wrong: dict[str, str], words: str
) -> None:
    app = rota.App(config=load_config(make_conninfo(pair.url(), **wrong), {}))
    with pytest.raises(DatabaseError, match=words):
        await app.database.open()


async def test_the_server_that_can_be_written_is_found(pair: Pair) -> None:
    """The standby comes first in the list."""
    app = rota.App(config=load_config(pair.url(2, target_session_attrs="read-write"), {}))

    @app.job
    async def found() -> None: ...

    async with app, app.worker():
        await (await found.enqueue()).wait(20)


async def test_a_fail_over(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Last: it ends the primary. One application takes whichever server answers, and meets a
    standby that is not promoted yet; the other waits for one that can be written."""
    caplog.set_level("INFO")
    lease = {"worker.lease_seconds": 120.0}
    any_url = pair.url(2, target_session_attrs="any")
    # The primary first, as long as it is there.
    any_url = make_conninfo(any_url, port=f"{pair.primary.port},{pair.standby.port}")
    careful_url = pair.url(2, target_session_attrs="read-write")
    apps = [rota.App(config=load_config(url, lease)) for url in (any_url, careful_url)]
    is_over, running = asyncio.Event(), []

    for number, app in enumerate(apps):

        async def body(ctx: rota.Context) -> int:
            running.append(ctx.run_id)
            await is_over.wait()
            return ctx.run_id

        app.job(name=f"hold_{number}", max_attempts=1)(body)

    def said(words: str) -> int:
        return sum(words in line for line in caplog.messages)

    async with apps[0], apps[1], apps[0].worker() as first, apps[1].worker() as second:
        runs = [
            await app.runs.enqueue(f"hold_{number}", {})
            for number, app in enumerate(apps)
            for _ in range(3)
        ]
        await eventually(lambda: len(running) == len(runs), 30)
        identities = first.id, second.id
        with psycopg.connect(pair.primary.url, autocommit=True) as conn:
            engine = Engine(conn)
            place = engine.one("SELECT pg_current_wal_flush_lsn()")
            eventually_sync(lambda: engine.one(_FOLLOWED, place) == 1, timeout=30)
        await asyncio.to_thread(pair.primary.stop)
        await eventually(lambda: said("the database is read-only") > 0, 60)
        is_over.set()
        with pytest.raises(DatabaseError) as refused:
            await apps[0].runs.enqueue("hold_0", {})
        assert refused.value.sqlstate in ("25006", None)
        with psycopg.connect(pair.standby.url, autocommit=True) as conn:
            conn.execute("SELECT pg_promote()")
            engine = Engine(psycopg.connect(make_conninfo(pair.standby.url, dbname="shop")))
            with engine.conn:
                engine.conn.autocommit = True
                left = "SELECT count(*) FROM rota.open_runs WHERE job LIKE 'hold%%'"
                await eventually(lambda: engine.one(left) == 0, 90)
                states = engine.rows("SELECT state, attempt FROM rota.runs WHERE job LIKE 'hold%%'")
        assert states == [{"state": "succeeded", "attempt": 1}] * len(runs)
        await eventually(lambda: said("the database is writable again") > 0, 90)
        assert (first.id, second.id) == identities
    assert said("the database is read-only") == 1
