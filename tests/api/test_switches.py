"""Enabling, disabling, pausing and resuming twice over HTTP: the second answer is the first one's,
and a header says that nothing was written."""

from __future__ import annotations

import httpx

V1 = "/api/v1"


async def test_a_replay_says_what_the_first_one_said(api: httpx.AsyncClient) -> None:
    for replayed in (None, "true"):
        answer = await api.post(f"{V1}/queues/mail/pause", headers={"Idempotency-Key": "once"})
        assert answer.headers["rota-changed"] == "true"
        assert answer.headers.get("idempotency-replayed") == replayed
