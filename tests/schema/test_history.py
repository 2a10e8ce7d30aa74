"""Three statements write the history: of plain successes, of other ends, and of runs that never
started. What a run takes with it is the same in each."""

from __future__ import annotations

import re

import pytest

from tests.schema.topics import files, functions

_INSERT = re.compile(r"INSERT INTO rota\.ended_runs \(([^)]*)\)")
_TABLE = re.compile(r"^CREATE TABLE rota\.ended_runs \((.*?)^\)", re.M | re.S)
# What such runs do not have. The group of an error is worked out by a trigger.
LEAVES_OUT = {
    "finish_span": {
        "key", "key_seconds", "schedule_id", "details", "error_type", "error", "traceback",
        "end_reason", "error_group",
    },
    "finish_runs": {"error_group"},
    "end_waiting_runs": {
        "started_at", "worker", "duration_ms", "attempt_state", "result", "progress", "details",
        "traceback", "error_group",
    },
}  # fmt: skip


def columns() -> set[str]:
    (found,) = [
        hit[1] for path in files() if (hit := _TABLE.search(path.read_text("utf-8"))) is not None
    ]
    return set(re.findall(r"^    ([a-z_]+) +\w", found, re.M))


def test_these_write_it() -> None:
    writing = {function.name for function in functions() if _INSERT.search(function.text)}
    assert writing == set(LEAVES_OUT)


@pytest.mark.parametrize("name", LEAVES_OUT)
def test_every_column_is_written_or_known_to_be_empty(name: str) -> None:
    (text,) = [function.text for function in functions() if function.name == name]
    (written,) = _INSERT.findall(text)
    names = [column.strip() for column in written.split(",")]
    assert columns() - set(names) == LEAVES_OUT[name]
