"""Stored responses, so that a request repeated with its idempotency key has no second effect."""

from __future__ import annotations

from collections.abc import Mapping

from rota.model.response import StoredResponse
from rota.operations.commands import AsyncCommands, command
from rota.postgres import responses
from rota.postgres.plans import Plan


class Responses(AsyncCommands):
    """Used by the API only: Python callers have the keys of runs."""

    @command
    def claim(
        self, key_hash: bytes, request_hash: bytes, claim: str
    ) -> Plan[StoredResponse | None]:
        """None: the caller is the one to answer. Else what there is, answered or under way."""
        return responses.claim(key_hash, request_hash, claim)

    @command
    def keep(
        self, key_hash: bytes, claim: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> Plan[None]:
        """What was answered, for those who ask again."""
        return responses.keep(key_hash, claim, status=status, headers=headers, body=body)

    @command
    def release(self, key_hash: bytes, claim: str) -> Plan[None]:
        """Nothing was done: the key is free again."""
        return responses.release(key_hash, claim)
