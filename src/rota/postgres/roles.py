"""Privileges of database roles."""

from __future__ import annotations

from rota.postgres.plans import Execute, Plan


def grant_worker(role: str) -> Plan[None]:
    """Grant the privileges that workers, the API and commands need, including those of later
    migrations."""
    yield Execute("roles/grant_worker", {"role": role})
