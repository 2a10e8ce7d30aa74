"""Sizes and characters that Postgres cannot hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import rota
from rota.testing import run_due
from tests.sql_engine import Engine


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def cyclic() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


ODD: dict[str, Callable[[], Any]] = {
    "a NUL": lambda: {"a": "x\0y"},
    "a NUL in a key": lambda: {"x\0y": 1},
    "a lone surrogate": lambda: "\ud800",
    "not a number": lambda: math.nan,
    "infinity": lambda: [math.inf],
    "a huge integer": lambda: 10**5000,
    "a huge number": lambda: Decimal("1e200000"),
    "deep": lambda: nested(900),
    "too deep": lambda: nested(100_000),
    "cyclic": cyclic,
    "bytes": lambda: b"\xff\x00",
    "an object": object,
    "a set": lambda: {1, 2},
    "keys that are no text": lambda: {1: 2, None: 3},
    "too large": lambda: "x" * 5000,
}


async def test_odd_results_end_their_own_run_only(
    make_app: Callable[..., rota.App], engine: Engine
) -> None:
    app = make_app(runs={"result_bytes": 2048, "error_bytes": 1024})

    @app.job(max_attempts=1)
    async def odd(name: str) -> Any:
        return ODD[name]()

    @app.job
    async def plain(n: int) -> int:
        return n

    runs = await app.enqueue_many([odd.call(name=name) for name in ODD])
    others = await app.enqueue_many([plain.call(n=n) for n in range(20)])
    await run_due(app)
    assert [await run.wait(1) for run in others] == list(range(20))
    states = {name: engine.state(run.id) for name, run in zip(ODD, runs, strict=True)}
    assert set(states.values()) <= {"succeeded", "failed"}
    assert states["too large"] == "failed"
    assert states["an object"] == "failed"
    for run in runs:
        shown = engine.run(run.id)
        assert shown["state"] == "succeeded" or shown["last_error"]


class Dumb(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Labelled(Exception):
    type_name = 5


class Nul(Exception):
    type_name = "x\0y"


RAISED: dict[str, Callable[[], BaseException]] = {
    "a NUL": lambda: ValueError("x\0y"),
    "a lone surrogate": lambda: ValueError("\ud800"),
    "long": lambda: ValueError("ü" * 100_000),
    "without words": Dumb,
    "cancel with a NUL": lambda: rota.Cancel("x\0y"),
    "cancel with a lone surrogate": lambda: rota.Cancel("\ud800"),
    "long cancel": lambda: rota.Cancel("x" * 100_000),
    "retry with a NUL": lambda: rota.Retry(0, "x\0y"),
    "a label that is no text": Labelled,
    "a label with a NUL": Nul,
    "a far retry": lambda: rota.Retry(1e15),
    "a far snooze": lambda: rota.Snooze(1e300),
    "a snooze of a century": lambda: rota.Snooze(100 * 365 * 86400),
}


async def test_odd_errors_end_their_own_run_only(
    make_app: Callable[..., rota.App], engine: Engine
) -> None:
    app = make_app(runs={"error_bytes": 1024})

    @app.job(max_attempts=2, backoff={"kind": "fixed", "base": 0, "jitter": 0})
    async def odd(name: str) -> None:
        raise RAISED[name]()

    @app.job
    async def plain(n: int) -> int:
        return n

    runs = await app.enqueue_many([odd.call(name=name) for name in RAISED])
    others = await app.enqueue_many([plain.call(n=n) for n in range(20)])
    await run_due(app)
    assert [await run.wait(1) for run in others] == list(range(20))
    by_name = {name: engine.run(run.id) for name, run in zip(RAISED, runs, strict=True)}
    far = {name for name, run in by_name.items() if run["state"] == "scheduled"}
    assert far == {"a snooze of a century"}
    assert by_name["a NUL"]["last_error"] == "x␀y"
    assert by_name["cancel with a NUL"]["end_reason"].endswith("x␀y")
    assert len(by_name["long"]["last_error"].encode()) < 1100
    assert len(by_name["long cancel"]["end_reason"].encode()) < 1200


async def test_odd_logs_and_progress_reach_the_database(
    make_app: Callable[..., rota.App], engine: Engine
) -> None:
    app = make_app(logs={"line_bytes": 512})

    @app.job
    async def talk(ctx: rota.Context) -> None:
        ctx.log.info("x\0y", words="a\0b", run="mine", event="mine")
        ctx.log.info("\ud800")
        ctx.log.info("long " + "ü" * 5000)
        ctx.log.info("fields", many=["x" * 1000], thing=object(), nan=math.nan, cycle=cyclic())
        ctx.log.info("last")
        ctx.progress(0.5, "x\0y")
        with pytest.raises(ValueError, match="from 0 to 1"):
            ctx.progress(math.nan)
        with pytest.raises(ValueError, match="from 0 to 1"):
            ctx.progress(50)

    run = await talk.enqueue()
    await run_due(app)
    await run.wait(1)
    lines = engine.rows("SELECT * FROM rota.logs ORDER BY seq")
    assert [line["message"][:4] for line in lines] == ["x␀y", "\\ud8", "long", "fiel", "last"]
    assert len(lines[2]["message"].encode()) < 600
    assert lines[0]["fields"]["words"] == "a␀b"
