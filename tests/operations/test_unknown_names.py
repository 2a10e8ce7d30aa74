"""A name that a command does not know is refused, whatever its value: it would change nothing, and
nobody would know."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import rota
from rota.operations.commands import Command
from tests.faces import faces_of

REQUIRED: dict[str, Any] = {
    "name": "work", "job": "work", "verb": "cancel", "at": datetime(2026, 1, 1, tzinfo=UTC),
    "after": datetime(2026, 1, 1, tzinfo=UTC), "function_name": "public.work", "event": "a.b",
}  # fmt: skip


def open_commands() -> Iterator[tuple[str, str]]:
    """Those that take names of their own: filters, options, settings."""
    for noun, face in faces_of(rota.App(embedded=False)).items():
        for name, found in inspect.getmembers(type(face), lambda it: isinstance(it, Command)):
            if inspect.Parameter.VAR_KEYWORD in {it.kind for it in parameters(found)}:
                yield noun, name


def parameters(command: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(inspect.unwrap(command.plan)).parameters.values())[1:]


@pytest.mark.parametrize(("noun", "name"), list(open_commands()))
async def test_commands(app: rota.App, noun: str, name: str) -> None:
    @app.job(schedules=[rota.every(60)])
    async def work() -> None: ...

    face = faces_of(app)[noun]
    needed = {
        it.name: REQUIRED[it.name]
        for it in parameters(getattr(type(face), name))
        if it.default is it.empty and it.kind is not it.VAR_KEYWORD
    }
    if (noun, name) in (("schedules", "create"), ("schedules", "put")):
        needed["every"] = 60
    for value in (None, 1):
        with pytest.raises(rota.RotaError, match="bogus"):
            await getattr(face, name)(**needed, bogus=value)


def test_there_are_many() -> None:
    assert len(list(open_commands())) > 30


async def test_declarations_and_options(app: rota.App) -> None:
    unknown: dict[str, Any] = {"bogus": None}
    with pytest.raises(rota.JobError, match="unknown job option bogus"):

        @app.job(**unknown)
        async def never() -> None: ...

    @app.job
    async def work() -> None: ...

    with pytest.raises(rota.UnknownOption, match="unknown enqueue option bogus"):
        work.options(**unknown)
    with pytest.raises(rota.JobError, match="unknown schedule option bogus"):
        rota.every(60, **unknown)
    with pytest.raises(rota.TimingError, match="unknown schedule option bogus"):
        app.schedule("s", work, every=60, **unknown)
