"""Whatever a handler says becomes a line that Postgres takes."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import psycopg
import pytest

from rota.engine.logs.log_lines import (
    COPY_BEGIN,
    COPY_END,
    BufferedLine,
    to_copy,
    to_fields,
    to_message,
)
from rota.postgres.statements import Statements

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Odd:
    def __str__(self) -> str:
        raise ValueError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("plain", "plain"),
        ("a\0b", "a␀b"),
        ("\ud800x", "\\ud800x"),
        (b"\xff\xfe".decode("utf-8", "surrogateescape"), "\\udcff\\udcfe"),
        (7, "7"),
        (None, "None"),
        (Odd(), "<message that cannot be shown: ValueError>"),
        ("ü" * 200, "ü" * 128 + "… [cut, 400 bytes]"),
        ("ü" * 300, "ü" * 128 + "… [cut, 300 characters]"),
        ("x" * 257, "x" * 256 + "… [cut, 257 characters]"),
        ("x" * 256, "x" * 256),
    ],
)
def test_messages(message: Any, shown: str) -> None:
    assert to_message(message, 256) == shown


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"a": 1, "b": [True, None, 1.5]}, {"a": 1, "b": [True, None, 1.5]}),
        ({"a": "x\0y"}, {"a": "x␀y"}),
        ({"a": "x\\u0000y"}, {"a": "x\\u0000y"}),
        ({"a": "x\\\0y"}, {"a": "x\\␀y"}),
        ({"a\0": 1}, {"a␀": 1}),
        ({"a": "\ud800", "n": 1}, {"a": "\\ud800", "n": 1}),
        ({"a": 2**70}, {"a": 2**70}),
        ({"a": math.nan}, {"a": None}),
        ({"a": {1, 2}}, {"a": [1, 2]}),
        ({"a": NOW}, {"a": "2026-01-02T03:04:05Z"}),
        ({"a": MappingProxyType({"b": 1})}, {"a": {"b": 1}}),
        ({"a": Odd()}, {"a": "<Odd that cannot be shown: ValueError>"}),
    ],
)
def test_fields(fields: dict[str, Any], shown: Any) -> None:
    assert json.loads(to_fields(fields, 1000)) == shown


def test_a_cycle_and_a_deep_one() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "cycle" in json.loads(to_fields({"cycle": cycle}, 1000))
    assert json.loads(to_fields({"deep": deep}, 1000))


def test_big_fields_are_cut_one_by_one_then_all() -> None:
    got = json.loads(to_fields({"big": "x" * 5000, "list": list(range(5000)), "small": 1}, 1000))
    assert got["small"] == 1
    assert got["big"] == "x" * 250 + "… [cut, 5000 bytes]"
    assert got["list"].startswith("[0,1,2,")
    many = json.loads(to_fields({f"f{n}": n for n in range(1000)}, 1000))
    assert list(many) == ["cut"]
    assert many["cut"].endswith(" bytes]")


def test_rows_for_copy_come_back_as_they_were(conn: psycopg.Connection[Any]) -> None:
    texts = ["a\tb\nc\rd\\e\\N", "\\.", "", "␀ ü \x01 \u2028 \x0b", "\\", 'say "x"']
    lines = [
        BufferedLine(
            n * 10**9, n, 1, 1, n, "info", "job\t\\", "t", text, to_fields({"text": text}, 1000)
        )
        for n, text in enumerate(texts)
    ]
    conn.execute("SELECT rota.ensure_partitions('2026-01-02 00:00+00', '2026-01-02 00:00+00')")
    lines.append(lines[-1]._replace(seq=len(texts), message="no fields", fields=None))
    write = Statements("rota").get("logs/write")
    with conn.cursor() as cursor, cursor.copy(write) as copy:
        copy.write(COPY_BEGIN + to_copy(lines, NOW, 10 * 10**9) + COPY_END)
    rows = conn.execute("SELECT message, fields, job, at FROM rota.logs ORDER BY seq").fetchall()
    assert [row[1] for row in rows[-1:]] == [None]
    rows.pop()
    assert [row[0] for row in rows] == texts
    assert [row[1]["text"] for row in rows] == texts
    assert {row[2] for row in rows} == {"job\t\\"}
    assert (NOW - rows[0][3]).total_seconds() == 10
