"""Whether the payload of a schedule fits its job, asked where the schedule is said.

A job that this process declares is asked by its types. Of another one the database knows the names
and types of the arguments, if code declares it; a SQL function takes any object.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rota.errors import PayloadError
from rota.jobs.registry import Registry
from rota.jobs.schedule_options import ScheduleArguments
from rota.store.plans import Plan
from rota.store.schedules import schedules

# The name of a schedule, its job, and its payload.
Said = tuple[str, str, Mapping[str, Any] | None]


def encoded(registry: Registry | None, job: str, payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """As the job's types store it, if this process declares the job."""
    if registry is None or job not in registry or not isinstance(payload, Mapping):
        return payload
    schema = registry.get(job).schema
    checked: dict[str, Any] = json.loads(schema.encode(schema.bind((), payload)))
    return checked


def declared(
    registry: Registry | None, name: str, job: str, arguments: ScheduleArguments
) -> ScheduleArguments:
    """A schedule of the code, with its payload as the job's types store it. Without one the default
    payload that the code gives the job has to do."""
    if registry is None or job not in registry:
        return arguments
    payload = arguments.get("payload")
    try:
        if payload is None:
            encoded(registry, job, registry.get(job).default_payload or {})
            return arguments
        checked: ScheduleArguments = {**arguments, "payload": encoded(registry, job, payload)}
    except PayloadError as error:
        hint = (
            error.hint or "give it a payload, or the job a default one: @app.job(default_payload=…)"
        )
        raise PayloadError(f'schedule "{name}": {error}', hint=hint) from None
    return checked


def check_stored(registry: Registry | None, said: Sequence[Said]) -> Plan[None]:
    """Those whose job this process does not declare, by what the database knows of the job."""
    others = [one for one in said if registry is None or one[1] not in registry]
    if not others:
        return
    problems = yield from schedules.find_payload_problems([one[1:] for one in others])
    for place, problem in problems.items():
        name, job, _ = others[place]
        raise PayloadError(
            f'schedule "{name}": its payload does not fit job "{job}": {problem}',
            hint=f"`rota jobs show {job}` says what it takes",
        )
