"""Enabling, disabling, pausing and resuming twice over HTTP: the second answer is the first one's,
and a header says that nothing was written."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

import rota

V1 = "/api/v1"
SWITCHES = [
    ("jobs/send", "disable", "enable"),
    ("schedules/s", "disable", "enable"),
    ("schedules/s", "pause", "resume"),
    ("queues/mail", "pause", "resume"),
    ("tenants/acme", "pause", "resume"),
]


@pytest.mark.parametrize(("thing", "off", "on"), SWITCHES)
async def test_twice_is_once(
    api: httpx.AsyncClient, shop: rota.App, conn: Any, thing: str, off: str, on: str
) -> None:
    await shop.schedules.create("s", "send", every=3600, payload={"user_id": 1})
    before = conn.execute("SELECT count(*) FROM rota.audit").fetchone()[0]
    for verb in (off, on):
        first = await api.post(f"{V1}/{thing}/{verb}")
        second = await api.post(f"{V1}/{thing}/{verb}")
        assert (first.status_code, second.status_code) == (200, 200), second.text
        assert [one.headers["rota-changed"] for one in (first, second)] == ["true", "false"]
        assert _shown(second) == _shown(first)
    (after,) = conn.execute("SELECT count(*) FROM rota.audit").fetchone()
    assert after == before + 2


def _shown(answer: httpx.Response) -> dict[str, Any]:
    """Without what time changes."""
    told: dict[str, Any] = answer.json()
    return {key: value for key, value in told.items() if not key.endswith("_seconds")}


async def test_what_nobody_has_named_is_not_found(api: httpx.AsyncClient) -> None:
    assert (await api.post(f"{V1}/tenants/nobody/resume")).status_code == 404
    assert (await api.post(f"{V1}/queues/nobody/resume")).status_code == 404


async def test_a_replay_says_what_the_first_one_said(api: httpx.AsyncClient) -> None:
    for replayed in (None, "true"):
        answer = await api.post(f"{V1}/queues/mail/pause", headers={"Idempotency-Key": "once"})
        assert answer.headers["rota-changed"] == "true"
        assert answer.headers.get("idempotency-replayed") == replayed
