"""A payload as the database takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rota.jobs.registry import Registry


def encode(
    registry: Registry | None, job: str, payload: Mapping[str, Any]
) -> tuple[str, int | None]:
    """Checked against the types of a job that this process declares, with their hash; of another
    one only the database's checks are known."""
    if registry is None or job not in registry:
        return json.dumps(dict(payload), ensure_ascii=False), None
    schema = registry.get(job).schema
    return schema.encode(schema.bind((), payload)).decode(), schema.hash
