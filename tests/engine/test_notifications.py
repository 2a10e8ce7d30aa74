"""What calls cost a worker that is called without end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rota.engine import notifications as module
from rota.engine.notifications import Notifications
from rota.testing import eventually


class Parts:
    """Whatever a call wakes, counted."""

    def __init__(self) -> None:
        self.acts: list[str] = []
        loop = SimpleNamespace(wake=lambda: self.acts.append("wake"))
        loops = SimpleNamespace(called=self.acts.append)
        self.background = SimpleNamespace(shared_loops=loops, sql_jobs=loop, drain=loop)
        self.definitions = loop
        self.identity = SimpleNamespace(worker=7, isolation=loop)

    @property
    def notifications(self) -> Notifications:
        parts: Any = self
        registration: Any = SimpleNamespace(identity=self.identity)
        return Notifications(parts, registration)


@pytest.mark.parametrize(
    "words", ["limits", "due", "tenants", "schedules", "bulk", "suspects", "worker 7"]
)
async def test_a_flood_acts_at_once_and_then_once_more(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_GAP_SECONDS", 0.2)
    parts = Parts()
    notifications = parts.notifications
    for _ in range(1000):
        notifications.called(words, "rota")
    assert len(parts.acts) == 1, "the first one does not wait"
    await eventually(lambda: len(parts.acts) == 2)


async def test_what_nobody_knows_and_what_is_anothers_does_nothing() -> None:
    parts = Parts()
    notifications = parts.notifications
    for words in ("worker 8", "odd", "probe", "jobsx", "tenants x"):
        notifications.called(words, "rota")
    assert parts.acts == []
