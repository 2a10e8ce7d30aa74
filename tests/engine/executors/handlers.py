"""Bodies that the tests of the process executor run in children."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, NoReturn

from rota.errors import Cancel, Retry, Snooze
from rota.jobs.context import Context

left_over: list[asyncio.Task[None]] = []


def add(a: int, b: int) -> int:
    return a + b


async def add_later(a: int, b: int) -> dict[str, int]:
    await asyncio.sleep(0)
    return {"sum": a + b}


def nothing() -> None:
    return None


def who() -> int:
    return os.getpid()


_kept: list[bytearray] = []


def leak(megabytes: int) -> int:
    _kept.append(bytearray(os.urandom(1)) * (megabytes * 2**20))
    return os.getpid()


def echo(text: str) -> str:
    return text


def unstorable() -> object:
    return object()


class Holder:
    @staticmethod
    def nested() -> str:
        return "nested"


class Stamp:
    """As a decorated job looks to a child: a definition with a function and a schema."""

    class Schema:
        context_parameter = "ctx"

        def decode(self, raw: bytes, is_validated: bool) -> dict[str, Any]:
            return {"text": raw.decode(), "is_validated": is_validated}

    class Definition:
        def __init__(self) -> None:
            self.schema = Stamp.Schema()

        @staticmethod
        def function(ctx: Context, text: str, is_validated: bool) -> list[Any]:
            return [ctx.run_id, text, is_validated]

    def __init__(self) -> None:
        self.definition = Stamp.Definition()


stamp = Stamp()


def talk(ctx: Context, count: int) -> dict[str, Any]:
    for number in range(count):
        ctx.log.info("line", number=number)
        ctx.progress(number / count, f"step {number}")
    ctx.log.bind(user=7).error("odd", big=1 << 80, thing=object, surrogate="\ud800")
    return {
        "job": ctx.job,
        "run": ctx.run_id,
        "attempt": ctx.attempt,
        "tenant": ctx.tenant,
        "queued_at": ctx.queued_at.isoformat(),
        "deadline": ctx.deadline and ctx.deadline.isoformat(),
        "is_cancelled": ctx.is_cancelled,
    }


def say_pid(ctx: Context) -> None:
    ctx.log.info("started", pid=os.getpid())


class Refused(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stubborn(Exception):
    def __init__(self, first: int, second: int) -> None:
        super().__init__("two arguments in, one out")


class Unpicklable(Exception):
    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = threading.Lock()


def fail(kind: str) -> NoReturn:
    raise {
        "value": ValueError("wrong value"),
        "refused": Refused(42),
        "stubborn": Stubborn(1, 2),
        "unpicklable": Unpicklable(),
        "retry": Retry(5, "busy"),
        "snooze": Snooze(30),
        "cancel": Cancel("no longer wanted"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "cancelled": asyncio.CancelledError(),
        "surrogate": ValueError("\ud800"),
    }[kind]


async def fail_later(kind: str) -> None:
    await asyncio.sleep(0)
    fail(kind)


async def exit_beside() -> None:
    async def leave() -> None:
        raise SystemExit(1)

    left_over.append(asyncio.create_task(leave()))
    await asyncio.sleep(60)


def recurse() -> int:
    return recurse() + 1


def die(code: int) -> None:
    os._exit(code)


def kill(number: int) -> None:
    os.kill(os.getpid(), number)
    time.sleep(60)


def speak_and_die(ctx: Context) -> None:
    ctx.log.info("last words")
    os._exit(0)


def close_everything() -> None:
    os.closerange(3, 256)
    time.sleep(60)


def wait_for_flag(ctx: Context) -> str:
    say_pid(ctx)
    while not ctx.is_cancelled:
        time.sleep(0.01)
    return "stopped by itself"


def sleep(ctx: Context, path: str = "") -> None:
    say_pid(ctx)
    try:
        time.sleep(60)
    finally:
        if path:
            Path(path).write_text("cleaned up")


def refuse_to_stop(ctx: Context) -> None:
    say_pid(ctx)
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


async def sleep_later(ctx: Context, path: str) -> None:
    say_pid(ctx)
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        await asyncio.to_thread(Path(path).write_text, "cancelled")
        raise


def start_grandchild(ctx: Context) -> None:
    grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    ctx.log.info("started", pid=grandchild.pid)
    grandchild.wait()


def fork_and_die(ctx: Context) -> None:
    """The fork keeps the channel open, so only the exit itself tells of the death."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    ctx.log.info("forked", pid=pid)
    os.kill(os.getpid(), signal.SIGKILL)


def meet(ctx: Context, directory: str, count: int) -> int:
    """Returns when `count` of its kind run at once."""
    Path(directory, str(os.getpid())).touch()
    while len(os.listdir(directory)) < count:
        time.sleep(0.005)
    return os.getpid()


def shout(text: str) -> None:
    print(text)
    print(text, file=sys.stderr)


def write_row(ctx: Context, name: str, fail: bool = False) -> dict[str, str]:
    with ctx.transaction_sync() as conn:
        conn.execute("INSERT INTO effects VALUES (%s)", [name])
    if fail:
        raise ValueError("after the block")
    with ctx.transaction_sync() as conn:
        conn.execute("INSERT INTO effects VALUES (%s)", [f"{name} again"])
    return {"wrote": name}


async def write_row_later(ctx: Context, name: str, fail: bool = False) -> dict[str, str]:
    async with ctx.transaction() as conn:
        await conn.execute("INSERT INTO effects VALUES (%s)", [name])
    if fail:
        raise ValueError("after the block")
    async with ctx.transaction() as conn:
        await conn.execute("INSERT INTO effects VALUES (%s)", [f"{name} again"])
    return {"wrote": name}


def spoil_session(ctx: Context) -> list[Any]:
    """Leaves all kinds of things in its session; answers which one it was."""
    with ctx.transaction_sync() as conn:
        row = conn.execute(
            "SELECT pg_backend_pid(), to_regclass('pg_temp.leftover'), current_setting('work_mem')"
        ).fetchone()
        assert row is not None
        conn.execute("CREATE TEMP TABLE leftover (n int)")
        conn.execute("SET work_mem = '123MB'")
    return [*row[:1], row[1] is None and row[2] != "123MB"]


def write_row_by_orm(ctx: Context, name: str, url: str) -> dict[str, str]:
    """On a connection of SQLAlchemy's, made in the child."""
    import sqlalchemy

    engine = sqlalchemy.create_engine(url)
    with ctx.transaction_sync(engine) as conn:
        conn.execute(sqlalchemy.text("INSERT INTO effects VALUES (:name)"), {"name": name})
    return {"wrote": name}


def current_traceparent() -> str | None:
    """The trace that this attempt belongs to, as a child would send it on."""
    from rota.telemetry import otel

    return (otel.carrier() or {}).get("traceparent")
