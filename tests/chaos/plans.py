"""Kinds of faults for random plans, and the short plans of the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random

from tests.chaos.faults.base import Fault
from tests.chaos.faults.database import (
    DumpAndRestore,
    HoldEachInTurn,
    KillBackends,
    LateCommits,
    LockedTable,
    OpenTransaction,
    Publish,
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
    DeployBesideHolder,
    FreezeWorker,
    KillWhileIsolating,
    KillWorker,
    Poison,
    RollBack,
    StopWorker,
)
from tests.chaos.faults.strangers import ROLES, Stranger

KINDS: dict[str, list[Callable[[], Fault]]] = {
    "sockets": [Reset, Cut, HalfOpen, HalfOpenThenReset],
    "network": [Freeze, Delay, Refuse],
    "backends": [KillBackends, partial(KillBackends, 3)],
    "tables": [LockedTable],
    "rows": [OpenTransaction, partial(OpenTransaction, is_of_all=True), HoldEachInTurn],
    "limits": [LateCommits],
    "copies": [Publish, DumpAndRestore],
    "strangers": [partial(Stranger, role) for role in ROLES],
    "restarts": [
        partial(RestartServer, "fast"),
        partial(RestartServer, "immediate"),
        partial(RestartServer, "killed"),
    ],
    "workers": [KillWorker, StopWorker, FreezeWorker],
    "releases": [Deploy, DeployBesideHolder, RollBack],
    "poison": [Poison, KillWhileIsolating],
}


def order(kinds: Sequence[str], chance: Random) -> Iterator[Callable[[], Fault]]:
    """Without an end: first one fault of every kind, then those of each kind that are left, then
    what chance chooses. So a run that is long enough has met every fault, and a short one every
    kind, whatever the seed."""
    left = {kind: chance.sample(KINDS[kind], len(KINDS[kind])) for kind in kinds}
    first = [left[kind].pop() for kind in left]
    rest = [make for makes in left.values() for make in makes]
    yield from chance.sample(first, len(first))
    yield from chance.sample(rest, len(rest))
    while True:
        yield chance.choice(KINDS[chance.choice(list(kinds))])


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
        partial(OpenTransaction, is_of_all=True),
        HoldEachInTurn,
    ],
    "neighbours": [
        LateCommits,
        Publish,
        DumpAndRestore,
        *[partial(Stranger, role) for role in ROLES],
    ],
    "fleet": [
        KillWorker,
        FreezeWorker,
        Deploy,
        DeployBesideHolder,
        RollBack,
        Poison,
        KillWhileIsolating,
    ],
}
RESTARTS: list[Callable[[], Fault]] = [
    partial(RestartServer, "fast"),
    partial(RestartServer, "immediate"),
]
