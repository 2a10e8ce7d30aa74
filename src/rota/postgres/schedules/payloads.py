"""Payloads of schedules and runs, checked by the arguments that the database has of a job."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rota.postgres.plans import Execute, Plan


def find_new_payloads(
    wanted: Mapping[tuple[str, str], tuple[str, Mapping[str, Any] | None]],
    *,
    application: str,
    build: str | None,
) -> Plan[list[tuple[str, str]]]:
    """Return the schedules, by tenant and name, whose job or payload this build declares for the
    first time."""
    params = {
        "tenants": [tenant for tenant, _ in wanted],
        "names": [name for _, name in wanted],
        "jobs": [job for job, _ in wanted.values()],
        "payloads": [None if it is None else json.dumps(it) for _, it in wanted.values()],
        "application": application,
        "build": build,
    }
    rows = yield Execute("schedules/new_payloads", params)
    return [(row["tenant"], row["name"]) for row in rows]


def find_payload_problems(
    wanted: Sequence[tuple[str, Mapping[str, Any] | None]],
) -> Plan[dict[int, str]]:
    """Return the problems of payloads that jobs would refuse, by the index in `wanted`, a list of
    jobs and payloads; None is the default payload."""
    distinct: dict[tuple[str, str | None], int] = {}
    for place, (job, payload) in enumerate(wanted):
        distinct.setdefault((job, None if payload is None else json.dumps(payload)), place)
    params = {
        "jobs": [job for job, _ in distinct],
        "payloads": [payload for _, payload in distinct],
    }
    rows = yield Execute("schedules/payload_problems", params)
    places = list(distinct.values())
    return {places[row["place"] - 1]: row["problem"] for row in rows if row["problem"] is not None}
