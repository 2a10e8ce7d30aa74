"""Fixtures of all tests: a database of one's own, applications on it, real worker processes."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest
import uvloop
from _pytest.nodeid import NodeId

import rota
from rota.telemetry import logging as console
from rota.testing import Clock, patience
from tests.database import (
    PLACE,
    Databases,
    Server,
    make_place,
    open_shared,
    remove_place,
    rolled_back,
)
from tests.distribution import Distribution, distribution, find_distribution
from tests.proxy import Proxy
from tests.workers import Loop, WorkerProcess

_place: Path | None = None

# Leases as in production would make every test of a lost worker wait for half a minute.
SHORT = {"worker.lease_seconds": 1.5, "worker.poll_seconds": 0.1, "logs.flush_seconds": 0.1}
# A worker inside a test is not to be lost because the machine was busy for a moment.
PATIENT = SHORT | {"worker.lease_seconds": 4.5}

# What is tested in these runs in `rota worker` and `rota server`.
_OUR_PROGRAMS = {"engine", "api", "telemetry", "chaos", "concurrency"}

# Where one connection is enough, nothing is committed.
_ROLLED_BACK = {"conformance", "docs"}

MakeApp = Callable[..., rota.App]
_LONG = ("deep", "slow", "browser", "distribution")


class _Guard(patience._Wait):
    """Longer than a test says: it only ends tests that have failed, and the machine may be busy
    with as many others."""

    def __init__(self, timeout: float) -> None:
        super().__init__(max(timeout, min(4 * timeout, 120)) if timeout >= 10 else timeout)


patience._Wait = _Guard  # type: ignore[misc]


def pytest_configure(config: pytest.Config) -> None:
    global _place
    if PLACE not in os.environ:
        _place = make_place()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _place is not None:
        remove_place(_place)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two for each core: tests of workers wait as much as they compute."""
    return 2 * (len(psutil.Process().cpu_affinity()) if psutil.LINUX else psutil.cpu_count() or 1)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """The loop of our own programs where workers and the API are tested, else that of `asyncio`,
    which most users' programs have. Tests marked `both_loops` run on each."""
    loops = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}
    if item.get_closest_marker("both_loops") is not None:
        return loops
    part = item.path.relative_to(Path(__file__).parent).parts[0]
    chosen = "uvloop" if part in _OUR_PROGRAMS else "asyncio"
    return {chosen: loops[chosen]}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked `both_servers` run on ours and on the distribution's."""
    if metafunc.definition.get_closest_marker("both_servers") is not None:
        metafunc.fixturenames.append("_server")
        theirs = pytest.param("distribution", marks=pytest.mark.distribution)
        metafunc.parametrize("_server", ["embedded", theirs])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones first, and those that share something large: at the end no runner waits for
    another's last test."""
    for item in items:
        if item.get_closest_marker("distribution") is not None:
            item.add_marker(pytest.mark.xdist_group("distribution"))  # one runner starts it
    items.sort(key=lambda item: not any(map(item.get_closest_marker, _LONG)))
    if "PYTEST_XDIST_WORKER" in os.environ:
        for item in items:
            _say_group(item)


def _say_group(item: pytest.Item) -> None:
    """xdist keeps together what has `@group` in its name, and gives pytest that name in a way that
    pytest has not read since its ids are objects: what a group shares was made by every runner."""
    groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
    suffix = f"@{'_'.join(groups)}"
    if groups and not item.nodeid.endswith(suffix):
        item._id = NodeId.parse(item.nodeid + suffix)
        assert item.nodeid.endswith(suffix), "pytest has another way to name its items now"


@pytest.fixture(autouse=True)
def _consoles() -> Iterator[None]:
    """A program of Rota that ran inside a test wrote to a stream that ends with the test: whoever
    logs later must not find it."""
    root, level = logging.getLogger(), logging.getLogger().level
    yield
    if console._console is not None:
        root.handlers[:] = [one for one in root.handlers if one is not console._console]
        root.setLevel(level)
        console._console = None


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def distribution_server() -> Iterator[Distribution]:
    place = find_distribution()
    if place is None:
        pytest.skip("no PostgreSQL 15 or newer of this machine's packages (apt install postgresql)")
    with distribution(place) as server:
        yield server


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A migrated database that no other test sees, by TCP. It is on the distribution's server in
    tests marked `distribution`."""
    is_distribution = request.node.get_closest_marker("distribution") is not None
    server: Databases = request.getfixturevalue(
        "distribution_server" if is_distribution else "server"
    )
    with server.fresh_database() as url:
        yield url


@pytest.fixture
def proxy(database_url: str) -> Iterator[Proxy]:
    """A test that names it has its applications, workers, commands and API behind it; what looks
    at the database itself (`conn`, `engine`) is not."""
    proxy = Proxy(database_url)
    yield proxy
    proxy.close()


@pytest.fixture
def app_url(request: pytest.FixtureRequest, database_url: str) -> str:
    """Where programs find the test's database."""
    if "proxy" in request.fixturenames:
        proxy: Proxy = request.getfixturevalue("proxy")
        return proxy.url
    return database_url


@pytest.fixture
def connect(database_url: str) -> Iterator[Callable[..., psycopg.Connection[Any]]]:
    """More connections; they are closed at the end."""
    opened: list[psycopg.Connection[Any]] = []

    def connect(autocommit: bool = True, **options: Any) -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(database_url, autocommit=autocommit, **options))
        return opened[-1]

    yield connect
    for conn in opened:
        conn.close()


@pytest.fixture(scope="session")
def _shared(server: Server) -> Iterator[psycopg.Connection[Any]]:
    with server.fresh_database() as url, open_shared(url) as conn:
        yield conn


@pytest.fixture
def conn(request: pytest.FixtureRequest) -> Iterator[psycopg.Connection[Any]]:
    if not _is_rolled_back(request):
        connect: Callable[[], psycopg.Connection[Any]] = request.getfixturevalue("connect")
        yield connect()
        return
    shared: psycopg.Connection[Any] = request.getfixturevalue("_shared")
    with rolled_back(shared):
        yield shared


def _is_rolled_back(request: pytest.FixtureRequest) -> bool:
    """Tests of `rota.*` that have this connection alone, unless they are marked `commits`: a
    database for each of them would take most of their time."""
    part = request.path.relative_to(Path(__file__).parent).parts[0]
    kept = map(request.node.get_closest_marker, ("commits", "distribution"))
    return part in _ROLLED_BACK and "database_url" not in request.fixturenames and not any(kept)


@pytest.fixture
async def aconn(database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as conn:
        yield conn


def load_config(database_url: str, settings: dict[str, Any]) -> rota.Config:
    """Dotted keys go past the ranges, the rest is checked: `**{"worker.lease_seconds": 1}`."""
    unchecked = PATIENT | {key: it for key, it in settings.items() if "." in key}
    checked = {key: it for key, it in settings.items() if "." not in key}
    return rota.Config.load(env={}, unchecked=unchecked, database_url=database_url, **checked)


@pytest.fixture
async def make_app(app_url: str) -> AsyncIterator[MakeApp]:
    """Applications on the test's database, with short leases."""
    made: list[rota.App] = []

    def make(**settings: Any) -> rota.App:
        app = rota.App(config=load_config(app_url, settings))
        made.append(app)
        return app

    yield make
    for app in made:
        await app.close()


@pytest.fixture
def app(make_app: MakeApp) -> rota.App:
    return make_app()


@pytest.fixture
def clock(app: rota.App) -> Clock:
    """Business time of the test's database; it ends with it."""
    return Clock(app)


@pytest.fixture
def worker_process(database_url: str, app_url: str) -> Iterator[Callable[..., WorkerProcess]]:
    """Starts real workers: `worker_process("tests.apps.basic:app")`, with settings by key."""
    started: list[WorkerProcess] = []

    def start(
        app: str, *, wait: bool = True, loop: Loop = "uvloop", **settings: Any
    ) -> WorkerProcess:
        worker = WorkerProcess(app_url, app, SHORT | settings, loop=loop, looking_at=database_url)
        started.append(worker)
        if wait:
            worker.wait_ready()
        return worker

    yield start
    for worker in started:
        worker.close()
