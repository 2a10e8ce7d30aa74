"""Handlers in a process of their own that log without `ctx.log`."""

from __future__ import annotations

import logging
import sys
import threading

import structlog

import rota
from rota.telemetry.logging import configure
from tests.apps.making import make_app

if "rota.engine.executors.child" not in sys.modules:
    configure("info")
app = make_app()
log = logging.getLogger("tests.capturing")


@app.job(executor="process", capture_logs=True)
def talk_apart(ctx: rota.Context) -> None:
    log.info("by logging", extra={"n": 1})
    structlog.get_logger().warning("by structlog", n=2)
    ctx.log.info("by the context", n=3)
    thread = threading.Thread(target=log.error, args=("by a thread",))
    thread.start()
    thread.join()


@app.job(executor="process", capture_logs=True)
async def talk_apart_later() -> None:
    log.info("in a coroutine")


@app.job(executor="process")
def say_nothing() -> None:
    log.error("not asked for")
