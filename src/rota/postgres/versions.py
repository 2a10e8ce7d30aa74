"""Optimistic locking: edits that do not overwrite concurrent changes."""

from __future__ import annotations

from rota.postgres.plans import Plan, call


def expect_version(kind: str, name: str, version: int | None, tenant: str = "") -> Plan[None]:
    """Raise VersionConflict unless the record has this version; None accepts any."""
    if version is not None:
        yield from call("expect_version", kind=kind, name=name, version=version, tenant=tenant)
