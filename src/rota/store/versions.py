"""Edits that do not overwrite what somebody else has just changed."""

from __future__ import annotations

from rota.store.plans import Ask, Plan


def expect_version(kind: str, name: str, version: int | None, tenant: str = "") -> Plan[None]:
    """VersionConflict unless it is at this version; None: whatever it is at."""
    if version is not None:
        params = {"kind": kind, "name": name, "version": version, "tenant": tenant}
        yield Ask("versions/expect", params)
