"""Responses of the API, stored by idempotency key."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rota.model.response import StoredResponse
from rota.postgres.plans import Execute, Plan

KEEP_SECONDS = 86_400.0
# After this time, the server of an unanswered request is considered dead.
PATIENCE_SECONDS = 60.0


def claim(key_hash: bytes, request_hash: bytes, claim_id: str) -> Plan[StoredResponse | None]:
    """Claim a key; None: the caller answers the request. Otherwise return the stored response,
    complete or under way."""
    params = {
        "key_hash": key_hash,
        "request_hash": request_hash,
        "claim": claim_id,
        "keep_seconds": KEEP_SECONDS,
        "patience_seconds": PATIENCE_SECONDS,
    }
    if (yield Execute("responses/claim", params)):
        return None
    rows = yield Execute("responses/find", {"key_hash": key_hash})
    if not rows:
        # The key was released in between: a repeated request can claim it.
        return StoredResponse(request_hash)
    row = rows[0]
    return StoredResponse(
        bytes(row["request_hash"]), row["status"], row["headers"] or {}, bytes(row["body"] or b"")
    )


def keep(
    key_hash: bytes, claim: str, *, status: int, headers: Mapping[str, str], body: bytes
) -> Plan[None]:
    yield Execute(
        "responses/keep",
        {
            "key_hash": key_hash,
            "claim": claim,
            "status": status,
            "headers": json.dumps(dict(headers)),
            "body": body,
        },
    )


def release(key_hash: bytes, claim: str) -> Plan[None]:
    """Release the key, because nothing was done."""
    yield Execute("responses/release", {"key_hash": key_hash, "claim": claim})
