"""Reads for `rota doctor`: one row type and one plan for each subject."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from rota.postgres.plans import Execute, Plan


@dataclass(frozen=True, slots=True)
class ServerState:
    """The server and this database. Connections are counted over all databases, like the limit."""

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

    name: str
    live: int
    dead: int
    vacuum_seconds: float | None


@dataclass(frozen=True, slots=True)
class PartitionsAhead:
    """The table whose last partition ends first."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Unnamed:
    """A table without a replica identity, and a publication that covers it."""

    name: str
    publication: str


@dataclass(frozen=True, slots=True)
class SequenceBehind:
    """A sequence whose `next_value` is already in use: ids go up to `highest`."""

    sequence: str
    next_value: int
    highest: int


@dataclass(frozen=True, slots=True)
class KeepingRows:
    """A reason why dead rows cannot be removed: `kind` is transaction, prepared, slot or hidden."""

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

    name: str
    loop: str | None
    amount: int
    age: float


@dataclass(frozen=True, slots=True)
class UpkeepState:
    unfolded_seconds: float | None
    counted_seconds: float | None
    pruned_at: datetime | None
    pruned: str | None
    pruned_seconds: float | None
    installed_seconds: float | None


@dataclass(frozen=True, slots=True)
class LeaseState:
    """Leases of live workers. `lease_left` is of the one that expires first."""

    live: int
    slots: int
    lease_left: float | None
    heartbeat_seconds: float | None
    oldest_name: str | None
    lease_seconds: float | None
    versions: list[str]


def server_state() -> Plan[ServerState]:
    (row,) = yield Execute("doctor/server", {})
    return ServerState(**row)


def schema_number() -> Plan[int]:
    """Return the number of the last migration; 0 before the first one."""
    (row,) = yield Execute("doctor/schema", {})
    return row["number"] or 0


def dead_rows() -> Plan[DeadRows | None]:
    rows = yield Execute("doctor/dead_rows", {})
    return DeadRows(**rows[0]) if rows else None


def partitions_ahead() -> Plan[PartitionsAhead | None]:
    rows = yield Execute("doctor/partitions", {})
    return PartitionsAhead(**rows[0]) if rows else None


def without_identity() -> Plan[list[Unnamed]]:
    rows = yield Execute("doctor/identities", {})
    return [Unnamed(**row) for row in rows]


def sequences_behind() -> Plan[list[SequenceBehind]]:
    rows = yield Execute("doctor/sequences", {})
    return [SequenceBehind(**row) for row in rows]


def keeping_rows() -> Plan[dict[str, KeepingRows]]:
    """Return at most one reason of each kind."""
    rows = yield Execute("doctor/transactions", {})
    return {row["kind"]: KeepingRows(**row) for row in rows}


def holders() -> Plan[list[RowHolder]]:
    """Return the sessions that lock rows, the oldest first."""
    rows = yield Execute("doctor/holders", {})
    return [RowHolder(**row) for row in rows]


def counter_ages() -> Plan[list[CounterAge]]:
    rows = yield Execute("doctor/counters", {})
    return [CounterAge(**row) for row in rows]


def upkeep_state() -> Plan[UpkeepState]:
    (row,) = yield Execute("doctor/upkeep", {})
    return UpkeepState(**row)


def lease_state() -> Plan[LeaseState]:
    (row,) = yield Execute("doctor/workers", {})
    return LeaseState(**row)


@dataclass(frozen=True, slots=True)
class Walls:
    """Privileges: the owner of the schema, whether other roles may call functions that run as the
    owner, and the schemas in which every role may create objects."""

    owner: str
    is_superuser: bool
    is_granted: bool
    open_schemas: list[str]


def walls() -> Plan[Walls]:
    (row,) = yield Execute("doctor/walls", {})
    return Walls(**row)
