"""The defaults that docs/reference/python.md names are those of a bare job and a bare schedule."""

from __future__ import annotations

import re
from typing import Any

import pytest

import rota
from rota.model.schedule_fields import SHORT_NAMES
from tests.docs.test_python_reference import section

# Stands for a value that is not written in a cell, or that another setting has.
_ELSEWHERE = re.compile(r"^$|^`\w+\.\w+(…)?`$|^(the|by|first|all|each|as|unchanged)\b")


def defaults(title: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| ", section(title), re.MULTILINE)
    for names, shown in rows:
        options = re.findall(r"`(\w+)`", names)
        values = shown.split(", ") if shown.count(",") == len(options) - 1 else [shown]
        for name, value in zip(options, values * len(options), strict=False):
            if not _ELSEWHERE.match(value):
                found[name] = _value(value)
    return found


def _value(shown: str) -> Any:
    if shown in ("none", "never"):
        return None
    if shown in ("True", "False"):
        return shown == "True"
    return float(shown) if shown.isdigit() else shown.strip("`")


def _same(stored: Any, told: Any) -> bool:
    return stored in ([], {}, "", (), None) if told is None else stored == told


@pytest.fixture
async def stored(app: rota.App) -> dict[str, Any]:
    @app.job
    async def bare() -> None: ...

    await app.schedules.create("s", "bare", every=60)
    return {
        "Declaring: `@app.job`": await app.jobs.get("bare"),
        "Schedules": await app.schedules.get("s"),
    }


# Told by other fields, or part of none.
_JOB_ONLY = {"retry_on", "give_up_on", "payload", "schedules", "limits"}
_JOB_ONLY |= {"upgrade", "on_failure", "aliases"}


async def test_of_jobs(stored: dict[str, Any]) -> None:
    job, told = stored["Declaring: `@app.job`"], defaults("Declaring: `@app.job`")
    assert {"queue", "priority", "enabled", "delay"} <= told.keys()
    names = {"enabled": "is_enabled", "delay": "delay_seconds", "expires_in": "expires_in_seconds"}
    wrong = {
        name: value
        for name, value in told.items()
        if name not in _JOB_ONLY and not _same(getattr(job, names.get(name, name)), value)
    }
    assert wrong == {}


async def test_of_schedules(stored: dict[str, Any]) -> None:
    schedule, told = stored["Schedules"], defaults("Schedules")
    assert {"timezone", "catch_up", "overlap", "grace", "jitter"} <= told.keys()
    wrong = {
        name: value
        for name, value in told.items()
        if not _same(getattr(schedule, SHORT_NAMES.get(name, name)), value)
    }
    assert wrong == {}
