"""Answers of the API by idempotency key."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rota.model.answer import Answer
from rota.store.plans import Ask, Plan

KEEP_SECONDS = 86_400.0
# A request that has not been answered after that is taken for one whose server has died.
PATIENCE_SECONDS = 60.0


def claim_answer(key_hash: bytes, request_hash: bytes, claim: str) -> Plan[Answer | None]:
    """None: the caller is the one to answer. Else what there is, answered or under way."""
    params = {
        "key_hash": key_hash,
        "request_hash": request_hash,
        "claim": claim,
        "keep_seconds": KEEP_SECONDS,
        "patience_seconds": PATIENCE_SECONDS,
    }
    if (yield Ask("answers/claim", params)):
        return None
    rows = yield Ask("answers/find", {"key_hash": key_hash})
    if not rows:
        # It was released in between: whoever asks again gets it.
        return Answer(request_hash)
    row = rows[0]
    return Answer(
        bytes(row["request_hash"]), row["status"], row["headers"] or {}, bytes(row["body"] or b"")
    )


def keep_answer(
    key_hash: bytes, claim: str, *, status: int, headers: Mapping[str, str], body: bytes
) -> Plan[None]:
    yield Ask(
        "answers/keep",
        {
            "key_hash": key_hash,
            "claim": claim,
            "status": status,
            "headers": json.dumps(dict(headers)),
            "body": body,
        },
    )


def release_answer(key_hash: bytes, claim: str) -> Plan[None]:
    """Nothing was done: the key is free again."""
    yield Ask("answers/release", {"key_hash": key_hash, "claim": claim})
