"""Checks that the payload of a schedule fits its job, when the schedule is declared or edited.

The payload of a job that this process declares is checked by its types. For other jobs that code
declares, the database has the names and types of the arguments; a SQL function takes any object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import PayloadError
from rota.jobs.definition import JobDefinition
from rota.jobs.registry import Registry
from rota.postgres.hints import described
from rota.postgres.plans import Plan
from rota.postgres.schedules.payloads import find_payload_problems

# The name of a schedule, its job, and its payload.
Said = tuple[str, str, Mapping[str, Any] | None]


def encoded(registry: Registry | None, job: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload as the job's types store it, if this process declares the job."""
    if registry is None or job not in registry or not isinstance(payload, Mapping):
        return payload
    return _encoded(registry.get(job), payload)


def _encoded(job: JobDefinition, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    schema = job.schema
    checked: dict[str, Any] = json.loads(schema.encode(schema.bind((), payload)))
    return checked


def declared(
    job: JobDefinition | None, name: str, settings: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a declared schedule, with its payload as the types of the job store it, if this
    process declares the job. A schedule without a payload uses the job's default payload from the
    code, which must be valid."""
    payload = settings.get("payload")
    if job is None or not (payload is None or isinstance(payload, Mapping)):
        return settings
    try:
        if payload is None:
            _encoded(job, job.default_payload or {})
            return settings
        checked: Mapping[str, Any] = {**settings, "payload": _encoded(job, payload)}
    except PayloadError as error:
        hint = error.advice or (
            "pass a payload, or give the job a default: @app.job(default_payload=…)"
        )
        raise PayloadError(f'schedule "{name}": {error}', hint=hint, field="payload") from None
    return checked


def check_stored(registry: Registry | None, said: Sequence[Said]) -> Plan[None]:
    """Check the schedules whose job this process does not declare, by the arguments in the
    database."""
    others = [schedule for schedule in said if registry is None or schedule[1] not in registry]
    if not others:
        return
    problems = yield from find_payload_problems([schedule[1:] for schedule in others])
    for place, problem in problems.items():
        name, job, _ = others[place]
        raise PayloadError(
            f'schedule "{name}": its payload does not fit job "{job}": {problem}',
            hint=described(job),
            field="payload",
        )
