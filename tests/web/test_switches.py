"""Two tabs, one after the other: the second is told that it was so already."""

from __future__ import annotations

from typing import Any

import pytest

import rota
from tests.web.conftest import Browser

SWITCHES = [
    ("/jobs/send", "disable", "Job send was already disabled"),
    ("/schedules/s", "disable", "Schedule s was already disabled"),
    ("/schedules/s", "pause", "Schedule s was already paused"),
    ("/queues/mail", "pause", "Queue mail was already paused"),
    ("/tenants/acme", "pause", "Tenant acme was already paused"),
    ("/jobs/send", "enable", "Job send was already enabled"),
    ("/schedules/s", "enable", "Schedule s was already enabled"),
    ("/schedules/s", "resume", "Schedule s was not paused"),
    ("/queues/mail", "resume", "Queue mail was not paused"),
    ("/tenants/acme", "resume", "Tenant acme was not paused"),
]


@pytest.mark.parametrize(("thing", "verb", "said"), SWITCHES)
async def test_the_second_is_told(
    web: Browser, shop: rota.App, conn: Any, thing: str, verb: str, said: str
) -> None:
    await shop.schedules.create("s", "send", every=3600, payload={"user_id": 1})
    await shop.tenants.set("acme", weight=2)
    await web.get("/queues")
    if verb in ("disable", "pause"):
        await web.post(f"{thing}/{verb}", reason="moving")
    before = conn.execute("SELECT count(*) FROM rota.audit").fetchone()
    await web.get(f"{thing}/{verb}")
    await web.post(f"{thing}/{verb}", reason="moving")
    assert said in web.text
    assert conn.execute("SELECT count(*) FROM rota.audit").fetchone() == before
