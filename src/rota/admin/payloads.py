"""A payload as the database takes it."""

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
    """Checked against the types of a job that this process declares, with their hash; of another
    one only the database's checks are known. None leaves it to the job's default payload."""
    if payload is None:
        return NO_PAYLOAD, None
    if not isinstance(payload, Mapping):
        raise PayloadError(f'job "{job}": payload must be a mapping, not {payload!r}')
    if registry is None or job not in registry:
        return encode_value(payload, "payload").decode(), None
    schema = registry.get(job).schema
    return schema.encode(schema.bind((), payload)).decode(), schema.hash
