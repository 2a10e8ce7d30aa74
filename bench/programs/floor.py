"""The floor: Rota's own statements, sent by the shortest program that can send them.

Nothing is checked, executed, logged or leased. What Rota takes longer than this is its own cost;
what this takes is Postgres's and the driver's.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import psycopg
import uvloop

from bench.programs.marks import mark, numbers, ready
from rota.jobs.options import NO_OPTIONS
from rota.postgres.migrate import migrate
from rota.postgres.pipeline.ends import Ends
from rota.postgres.statements import Statements

BATCH, BULK, WARM_UP, JOB = 500, 10_000, 200, "noop"
HOUR = 3600.0
LISTED = """INSERT INTO rota.jobs (name) VALUES (%s) ON CONFLICT DO NOTHING"""

get = Statements("rota").get
url = os.environ["BENCH_URL"]


def connect() -> psycopg.Connection[Any]:
    conn = psycopg.connect(url, autocommit=True)
    conn.execute(LISTED, [JOB])
    return conn


def plain(n: int) -> dict[str, Any]:
    names = ("queue", "priority", "triggered_by")
    return dict.fromkeys(names) | {"job": JOB, "payload": f'{{"n":{n}}}', "validated_by": 0}


def one(count: int) -> dict[str, Any]:
    sql, conn, started = get("runs/enqueue_plain"), connect(), 0.0
    for n in range(1 - WARM_UP, count + 1):
        if n == 1:
            started = time.perf_counter()
        conn.execute(sql, plain(n)).fetchall()
    return {"seconds": time.perf_counter() - started}


async def one_async(count: int) -> dict[str, Any]:
    """The same from an event loop: that is a price of the driver, not of Rota."""
    sql, started = get("runs/enqueue_plain"), 0.0
    conn = await psycopg.AsyncConnection.connect(url, autocommit=True)
    for n in range(1 - WARM_UP, count + 1):
        if n == 1:
            started = time.perf_counter()
        await (await conn.execute(sql, plain(n))).fetchall()
    return {"seconds": time.perf_counter() - started}


def bulk(count: int) -> dict[str, Any]:
    sql, conn = get("runs/enqueue_batch"), connect()
    payloads = [f'{{"n":{n}}}' for n in numbers(count)]
    started = time.perf_counter()
    with conn.transaction():
        for at in range(0, count, BULK):
            part = payloads[at : at + BULK]
            row = dict.fromkeys(NO_OPTIONS.parameters) | {
                "job": JOB,
                "triggered_by": None,
                "validated_by": 0,
            }
            conn.execute(sql, row | {"payloads": f"[{','.join(part)}]"}).fetchall()
    return {"seconds": time.perf_counter() - started}


def work() -> None:
    """Claims of 500; the ends of one batch go out with the claim of the next."""
    conn, claimed = connect(), list[Any]()
    hints = [0] * 10
    me = register(conn)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    ready()
    while True:
        with conn.pipeline():
            if claimed:
                conn.execute(get("runs/finish_span"), ends(me, claimed))
            answer = conn.execute(get("runs/claim"), claim(me, hints), binary=True)
        before, claimed = claimed, answer.fetchall()
        for row in claimed:
            hints[row[5]] = max(hints[row[5]], row[1])
        if claimed and not before:
            mark(0)
        if before and len(claimed) < BATCH:
            mark(-1)
        if not claimed:
            time.sleep(0.002)


def register(conn: psycopg.Connection[Any]) -> int:
    row = {"name": "floor", "host": "", "pid": 0, "version": "", "queues": [], "jobs": [JOB]}
    limits = {"concurrency": BATCH, "lease_seconds": HOUR, "intakes": [0]}
    found = conn.execute(get("workers/register"), row | limits).fetchone()
    assert found is not None
    return int(found[0])


def claim(me: int, hints: list[int]) -> dict[str, Any]:
    asked = {"worker": me, "limit": BATCH, "quota": BATCH, "queues": ["default"], "jobs": [JOB]}
    return asked | {"hints": hints, "batch": None, "start_batch": None, "lane": ""}


def ends(me: int, rows: Sequence[Any]) -> dict[str, Any]:
    done = Ends()
    for row in rows:
        done.succeeded(row[0], row[2], 0.0, None, is_plain=True)
    return {"worker": me} | (done.span() or {})


def main(command: str, *words: str) -> None:
    match command:
        case "prepare":
            migrate(url, "rota")
        case "one" if words[-1] == "sync":
            print(json.dumps(one(int(words[0]))))
        case "one":
            connect().close()
            print(json.dumps(uvloop.run(one_async(int(words[0])))))
        case "bulk":
            print(json.dumps(bulk(int(words[0]))))
        case "work":
            work()


if __name__ == "__main__":
    main(*sys.argv[1:])
