"""Kinds of faults for random plans, and the short plans of the suite."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.chaos.faults.base import Fault
from tests.chaos.faults.database import (
    TABLES,
    KillBackends,
    LockedTable,
    OpenTransaction,
    RestartServer,
)
from tests.chaos.faults.network import (
    Cut,
    Delay,
    Freeze,
    HalfOpen,
    HalfOpenThenReset,
    Refuse,
    Reset,
)
from tests.chaos.faults.processes import (
    Deploy,
    FreezeWorker,
    KillWhileIsolating,
    KillWorker,
    Poison,
    StopWorker,
)

KINDS: dict[str, list[Callable[[], Fault]]] = {
    "sockets": [Reset, Cut, HalfOpen, HalfOpenThenReset],
    "network": [Freeze, Delay, Refuse],
    "backends": [KillBackends, partial(KillBackends, 3)],
    "tables": [LockedTable],
    "rows": [OpenTransaction, partial(OpenTransaction, *TABLES)],
    "restarts": [
        partial(RestartServer, "fast"),
        partial(RestartServer, "immediate"),
        partial(RestartServer, "killed"),
    ],
    "workers": [KillWorker, StopWorker, FreezeWorker],
    "releases": [Deploy],
    "poison": [Poison, KillWhileIsolating],
}

# For the suite: made anew each time, as a fault remembers what it did.
PLANS: dict[str, list[Callable[[], Fault]]] = {
    "network": [
        Reset,
        HalfOpenThenReset,
        partial(Cut, 700, "to_client"),
        partial(Cut, 100, "to_server"),
        Freeze,
        Delay,
        Refuse,
    ],
    "database": [
        KillBackends,
        partial(KillBackends, 3),
        partial(LockedTable, "open_runs"),
        partial(LockedTable, "workers"),
        partial(OpenTransaction, *TABLES),
    ],
    "fleet": [KillWorker, FreezeWorker, Deploy, Deploy, Poison, KillWhileIsolating],
}
RESTARTS: list[Callable[[], Fault]] = [
    partial(RestartServer, "fast"),
    partial(RestartServer, "immediate"),
]
