"""A stored response of the API."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response under an idempotency key. Without a status, the request is still under way."""

    request_hash: bytes
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
