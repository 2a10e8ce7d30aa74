"""Requests that are sent twice and carried out once."""

from __future__ import annotations

from collections.abc import Mapping

from rota.admin.commands import AsyncCommands, command
from rota.model.answer import Answer
from rota.store import answers
from rota.store.plans import Plan


class Answers(AsyncCommands):
    """For the API alone: callers of Python have the keys of runs."""

    @command
    def claim(self, key_hash: bytes, request_hash: bytes, claim: str) -> Plan[Answer | None]:
        """None: the caller is the one to answer. Else what there is, answered or under way."""
        return answers.claim_answer(key_hash, request_hash, claim)

    @command
    def keep(
        self, key_hash: bytes, claim: str, status: int, headers: Mapping[str, str], body: bytes
    ) -> Plan[None]:
        """What was answered, for those who ask again."""
        return answers.keep_answer(key_hash, claim, status=status, headers=headers, body=body)

    @command
    def release(self, key_hash: bytes, claim: str) -> Plan[None]:
        """Nothing was done: the key is free again."""
        return answers.release_answer(key_hash, claim)
