"""Hides all but the base installation, then declares, enqueues, runs and waits: a program of its
own, started with the URL of a database."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import distribution, packages_distributions, requires
from types import ModuleType

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def base_distributions() -> set[str]:
    """What `pip install rota` brings."""
    found: set[str] = set()
    waiting = [Requirement(one) for one in requires("rota") or ()]
    while waiting:
        wanted = waiting.pop()
        name = canonicalize_name(wanted.name)
        extras = wanted.extras or {""}
        marker = wanted.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            continue
        if name in found and not wanted.extras:
            continue
        found.add(name)
        for one in distribution(name).requires or ():
            inner = Requirement(one)
            if inner.marker is None or any(
                inner.marker.evaluate({"extra": extra}) for extra in extras
            ):
                inner.marker = None
                waiting.append(inner)
    return found


class Hidden(MetaPathFinder):
    """Refuses every module that another package than those of the base has."""

    def __init__(self) -> None:
        base = base_distributions() | {"rota"}
        self.base = base
        owners = packages_distributions()
        self._hidden = {
            module
            for module, packages in owners.items()
            if not {canonicalize_name(one) for one in packages} & base
        }

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.partition(".")[0] in self._hidden:
            raise ModuleNotFoundError(f"{name} is hidden", name=name)
        return None


def hide() -> set[str]:
    finder = Hidden()
    for name in [*sys.modules]:
        if name.partition(".")[0] in finder._hidden:
            del sys.modules[name]
    sys.meta_path.insert(0, finder)
    return finder.base


async def work(url: str) -> None:
    import rota

    app = rota.App(url, worker={"poll_seconds": 0.2})

    @app.job(
        schedules=[rota.cron("0 3 * * *", payload={"a": 1, "b": 2})], limits=[rota.concurrency(2)]
    )
    async def add(a: int, b: int = 0) -> int:
        return a + b

    app.schedule("often", "add", every=3600, payload={"a": 1})
    async with app, app.worker():
        print("async", await (await add.enqueue(1, b=2)).wait(timeout=60))
        acme = await app.tenant("acme").enqueue(add, 3)
        print("tenant", await acme.wait(timeout=60))
        sync = await asyncio.to_thread(add.enqueue_sync, 5)
        print("sync", await asyncio.to_thread(sync.wait_sync, timeout=60))


if __name__ == "__main__":
    print("base", *sorted(hide()))
    asyncio.run(work(sys.argv[1]))
    for absent in ("typer", "fastapi", "structlog", "opentelemetry", "uvloop"):
        assert absent not in sys.modules, absent
