"""Logical replication: what publications need of the tables, and what they do not copy."""

from __future__ import annotations

from rota.model.finding import Finding
from rota.model.formatting import number
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports import doctor

_SHOWN = 5


def check() -> Plan[list[Finding]]:
    tables = yield from rows_of(doctor.Unnamed)
    sequences = yield from rows_of(doctor.SequenceBehind)
    return [identities(tables), behind(sequences)]


def identities(rows: list[doctor.Unnamed]) -> Finding:
    if not rows:
        return Finding("replica_identity", "ok", "Published tables can be changed")
    return Finding(
        "replica_identity",
        "bad",
        "Published tables have no replica identity",
        figure=number(len(rows)),
        limit="0",
        detail=f"Publication {rows[0].publication} covers {_listed([it.name for it in rows])}. The"
        " server refuses to update or delete their rows, which stops limits, retries by hand,"
        " retention and counters.",
        advice="give each table an identity.",
        commands=[f"ALTER TABLE rota.{row.name} REPLICA IDENTITY FULL;" for row in rows[:_SHOWN]],
    )


def behind(rows: list[doctor.SequenceBehind]) -> Finding:
    if not rows:
        return Finding("sequences", "ok", "Sequences are ahead of the rows")
    names = _listed([row.sequence for row in rows])
    return Finding(
        "sequences",
        "bad",
        "Sequences are behind the rows",
        figure=number(len(rows)),
        limit="0",
        detail=f"{names}: the next number of {rows[0].sequence} is {rows[0].next_value}, and rows"
        f" go up to {rows[0].highest}. Logical replication does not copy sequences. Inserts fail,"
        " or new runs get the ids of others.",
        advice="stop the workers, move the sequences, then start the workers.",
        commands=["SELECT * FROM rota.raise_sequences();"],
    )


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
