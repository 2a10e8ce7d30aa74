"""Reads for `rota doctor`: a row of each subject, with the statement that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from rota.postgres.plans import Execute, Plan


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server and this database. Connections are counted over all databases, like the limit."""

    STATEMENT: ClassVar = "doctor/server"

    version: str
    number: int
    up_seconds: float
    is_fsync: bool
    is_full_page: bool
    is_autovacuum: bool
    synchronous_commit: str
    most_connections: int
    connections: int | None
    own_connections: int
    notify_usage: float
    xid_age: int
    freeze_age: int
    bytes: int
    clock: datetime
    clock_offset: float | None


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Dead rows of the table that has most of them relative to its live ones."""

    STATEMENT: ClassVar = "doctor/dead_rows"

    name: str
    live: int
    dead: int
    vacuum_seconds: float | None


@dataclass(frozen=True, slots=True)
class PartitionsAhead:
    """The table whose last partition ends first."""

    STATEMENT: ClassVar = "doctor/partitions"

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A table without a replica identity, and a publication that covers it."""

    STATEMENT: ClassVar = "doctor/identities"

    name: str
    publication: str


@dataclass(frozen=True, slots=True)
class SequenceBehind:
    """A sequence whose `next_value` is already in use: ids go up to `highest`."""

    STATEMENT: ClassVar = "doctor/sequences"

    sequence: str
    next_value: int
    highest: int


@dataclass(frozen=True, slots=True)
class KeepingRows:
    """A reason why dead rows cannot be removed: `kind` is transaction, prepared, slot or hidden."""

    STATEMENT: ClassVar = "doctor/transactions"

    kind: str
    name: str
    owner: str | None
    program: str | None
    doing: str | None
    seconds: float | None
    bytes: int | None


@dataclass(frozen=True, slots=True)
class RowHolder:
    """A session whose open transaction locks rows that Rota waits for; `examples` names some of
    them."""

    STATEMENT: ClassVar = "doctor/holders"

    pid: int
    owner: str | None
    program: str | None
    doing: str | None
    query: str | None
    seconds: float | None
    rows: int
    examples: list[str]


@dataclass(frozen=True, slots=True)
class CounterAge:
    """The total of a counter, and how many seconds ago it last changed."""

    STATEMENT: ClassVar = "doctor/counters"

    name: str
    loop: str | None
    amount: int
    age: float


@dataclass(frozen=True, slots=True)
class UpkeepState:
    STATEMENT: ClassVar = "doctor/upkeep"

    unfolded_seconds: float | None
    counted_seconds: float | None
    pruned_at: datetime | None
    pruned: str | None
    pruned_seconds: float | None
    installed_seconds: float | None


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Leases of live workers. `lease_left` is of the one that expires first."""

    STATEMENT: ClassVar = "doctor/workers"

    live: int
    slots: int
    lease_left: float | None
    heartbeat_seconds: float | None
    oldest_name: str | None
    lease_seconds: float | None
    versions: list[str]


@dataclass(frozen=True, slots=True)
class Walls:
    """Privileges: the owner of the schema, whether other roles may call functions that run as the
    owner, and the schemas in which every role may create objects."""

    STATEMENT: ClassVar = "doctor/walls"

    owner: str
    is_superuser: bool
    is_granted: bool
    open_schemas: list[str]


def schema_number() -> Plan[int]:
    """Return the number of the last migration; 0 before the first one."""
    (row,) = yield Execute("doctor/schema", {})
    return row["number"] or 0
