"""Encodes a payload for the database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rota.errors import PayloadError
from rota.jobs.batch import NO_PAYLOAD
from rota.jobs.encoding import encode_value
from rota.jobs.registry import Registry


def encode(
    registry: Registry | None, job: str, payload: Mapping[str, Any] | None
) -> tuple[str, int | None]:
    """Validate the payload against the types of a job that this process declares, and return it
    with their hash; for another job only the database checks it. None leaves it to the job's
    default payload."""
    if payload is None:
        return NO_PAYLOAD, None
    if not isinstance(payload, Mapping):
        raise PayloadError(f'job "{job}": payload must be a mapping, not {payload!r}')
    if registry is None or job not in registry:
        return encode_value(payload, "payload").decode(), None
    schema = registry.get(job).schema
    return schema.encode(schema.bind((), payload)).decode(), schema.hash
