"""Loops that nobody waits for let a backlog go first, for a while."""

from __future__ import annotations

import asyncio

import pytest

from rota.engine import loop
from rota.engine.loop import Loop


class Patient(Loop):
    name = "patient"
    is_patient = True

    def __init__(self) -> None:
        super().__init__()
        self.done = asyncio.Event()
        self.looked = asyncio.Event()
        self.is_full = True
        self.has_backlog = self._look

    def _look(self) -> bool:
        self.looked.set()
        return self.is_full

    async def run_once(self) -> float:
        self.done.set()
        return 3600.0


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_LOOK_SECONDS", 0.001)


async def test_a_backlog_goes_first() -> None:
    patient = Patient()
    patient.start()
    await patient.looked.wait()
    assert not patient.done.is_set()
    patient.is_full = False
    await asyncio.wait_for(patient.done.wait(), 30)
    await patient.stop()


async def test_but_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_PATIENT_SECONDS", 0.01)
    patient = Patient()
    patient.start()
    await asyncio.wait_for(patient.done.wait(), 30)
    assert patient.is_full
    await patient.stop()
