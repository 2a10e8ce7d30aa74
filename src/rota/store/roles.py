"""Roles of the database."""

from __future__ import annotations

from rota.store.plans import Ask, Plan


def grant_worker(role: str) -> Plan[None]:
    """What workers, the API and commands need, also after later migrations."""
    yield Ask("roles/grant_worker", {"role": role})
