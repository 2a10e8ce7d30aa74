"""Bodies for the process executor, which needs functions of a module."""

from __future__ import annotations

import os
import signal
import time

from pydantic import BaseModel, field_validator

import rota


def own_pid(n: int) -> list[int]:
    return [n, os.getpid()]


def tell(ctx: rota.Context) -> dict[str, object]:
    ctx.log.info("from the child", pid=os.getpid())
    ctx.progress(0.25, "quarter")
    return {"run": ctx.run_id, "attempt": ctx.attempt, "queue": ctx.queue, "key": ctx.key}


def fail(words: str) -> None:
    raise LookupError(words)


def leave() -> None:
    raise SystemExit(3)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def snooze_once(ctx: rota.Context) -> str:
    if ctx.attempt == 1:
        raise rota.Snooze(0)
    return "rested"


def last_for_ever() -> None:
    while True:
        time.sleep(0.05)


def first(n: int) -> str:
    return f"first {n}"


def with_required(n: int, mode: str) -> str:
    return f"required {n} {mode}"


class Mood(BaseModel):
    good: bool

    @field_validator("good")
    @classmethod
    def is_good(cls, value: bool) -> bool:
        if not value:
            raise ValueError("not today")
        return value


def moody(mood: Mood) -> None: ...
