"""An odd row breaks no page."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.odd_values import write_odd_turn
from tests.odd_world import fill, put_constraints_aside
from tests.web.conftest import Browser

_RUNS = ["/runs", "/runs/1", "/runs/3", "/runs/4"]
_PAGES = {
    "open_runs": [*_RUNS, "/queues", "/queues/mail"],
    "ended_runs": [*_RUNS, "/queues/mail"],
    "past_attempts": _RUNS,
    "logs": _RUNS,
    "jobs": ["/queues", "/queues/mail", *_RUNS],
    "queues": ["/queues", "/queues/mail"],
    "workers": ["/queues", *_RUNS],
}


@pytest.mark.parametrize("table", _PAGES)
async def test_no_odd_value_breaks_a_page(
    conn: psycopg.Connection[Any], web: Browser, table: str
) -> None:
    fill(conn)
    put_constraints_aside(conn)
    broken = []
    for turn in (0, 1, 2):
        write_odd_turn(conn, table, turn)
        for path in _PAGES[table]:
            answer = await web.client.get(path, follow_redirects=True)
            if answer.status_code not in (200, 404):
                broken.append((turn, path, answer.text[-300:]))
    assert not broken
