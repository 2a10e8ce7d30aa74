"""Durations and times are typed in the same ways in Python, the API, the command line and forms."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

import rota
from tests.cli.conftest import Cli
from tests.web.conftest import Browser

V1 = "/api/v1"
RATE = {"kind": "rate", "cap": 5}
DURATIONS: dict[str, float] = {
    "90": 90, "90s": 90, "1h30m": 5400, "15min": 900, "1.5h": 5400, "PT1H30M": 5400,
}  # fmt: skip
TIMES = {
    "2099-03-08T09:00:00Z": datetime(2099, 3, 8, 9, tzinfo=UTC),
    "2099-03-08T10:00+01:00": datetime(2099, 3, 8, 9, tzinfo=UTC),
    "2099-03-08 09:00Z": datetime(2099, 3, 8, 9, tzinfo=UTC),
}


def period(app: rota.App) -> float | None:
    return app.limits.sync.get("mail").limit.period_seconds


def until(app: rota.App) -> datetime | None:
    return app.queues.sync.get("mail").queue.paused_until


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
async def test_a_duration(
    shop: rota.App, api: httpx.AsyncClient, web: Browser, text: str, seconds: float
) -> None:
    await shop.limits.set("mail", **RATE, period_seconds=text)
    assert period(shop) == seconds
    await shop.limits.set("mail", period_seconds=1)
    answer = await api.put(f"{V1}/limits/mail", json={"period_seconds": text})
    assert (answer.status_code, period(shop)) == (200, seconds)
    await shop.limits.set("mail", period_seconds=1)
    await web.get("/limits/mail/set")
    await web.post("/limits/mail/set", kind="rate", cap="5", period_seconds=text, reason="x")
    assert period(shop) == seconds


@pytest.mark.parametrize(("text", "seconds"), DURATIONS.items())
def test_a_duration_as_a_flag(cli: Cli, shop: rota.App, text: str, seconds: float) -> None:
    cli.done("limits", "set", "mail", "--kind", "rate", "--cap", "5", "--period", text)
    assert period(shop) == seconds


@pytest.mark.parametrize("value", [90, 90.0, timedelta(seconds=90)])
async def test_a_duration_in_python(shop: rota.App, value: Any) -> None:
    await shop.limits.set("mail", **RATE, period_seconds=value)
    assert period(shop) == 90


@pytest.mark.parametrize("value", ["soon", "5x", "-5m", True, [], float("nan")])
async def test_what_is_no_duration(shop: rota.App, value: Any) -> None:
    with pytest.raises(rota.InputError) as caught:
        await shop.limits.set("mail", **RATE, period_seconds=value)
    assert caught.value.field == "period_seconds"


@pytest.mark.parametrize(("text", "at"), TIMES.items())
async def test_a_time(
    shop: rota.App, api: httpx.AsyncClient, web: Browser, text: str, at: datetime
) -> None:
    await shop.queues.pause("mail", until=text)
    assert until(shop) == at
    await shop.queues.resume("mail")
    answer = await api.post(f"{V1}/queues/mail/pause", json={"until": text})
    assert (answer.status_code, until(shop)) == (200, at)
    await shop.queues.resume("mail")
    await web.get("/queues/mail/pause")
    await web.post("/queues/mail/pause", until=text, reason="x")
    assert until(shop) == at


@pytest.mark.parametrize(("text", "at"), TIMES.items())
def test_a_time_as_a_flag(cli: Cli, shop: rota.App, text: str, at: datetime) -> None:
    cli.done("queues", "pause", "mail", "--until", text)
    assert until(shop) == at


@pytest.mark.parametrize("text", ["2h", "120min", "7200", "PT2H"])
async def test_a_time_from_now(shop: rota.App, text: str) -> None:
    await shop.queues.pause("mail", until=text)
    found = until(shop)
    assert found is not None
    assert abs(found - await shop.clock.now() - timedelta(hours=2)) < timedelta(minutes=1)
