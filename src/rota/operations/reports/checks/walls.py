"""Separation of roles: privileges by which one role can act as another."""

from __future__ import annotations

from rota.model.finding import Finding, graded
from rota.operations.reports.checks.transactions import quoted
from rota.postgres.plans import Plan, rows_of
from rota.postgres.reports.doctor import Walls


def check() -> Plan[list[Finding]]:
    (row,) = yield from rows_of(Walls)
    return [owner(row), schemas(row)]


def owner(row: Walls) -> Finding:
    return graded(
        "owner",
        "warn" if row.is_superuser and row.is_granted else "ok",
        "Owner of the schema",
        "The owner of the schema is a superuser",
        figure=row.owner,
        detail="Functions that granted roles may call run as a superuser.",
        advice="let a role without special privileges own the schema: run `rota migrate` as that "
        "role in a new database, or change the owner of the schema and of everything in it.",
    )


def schemas(row: Walls) -> Finding:
    return graded(
        "open_schemas",
        "warn" if row.open_schemas else "ok",
        "Schemas in which every role may create",
        "Every role may create objects in a schema",
        figure=", ".join(row.open_schemas) or "0",
        detail="A function or operator there can replace one of the server's in other roles' "
        "statements. Rota's functions do not use it; your own statements, SQL jobs, and Rota's "
        "statements behind a pooler may.",
        advice="revoke the privilege (PostgreSQL 15 and newer do not grant it).",
        commands=[
            f"REVOKE CREATE ON SCHEMA {quoted(name)} FROM PUBLIC;" for name in row.open_schemas
        ],
    )
