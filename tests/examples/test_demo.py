"""`./script/demo`, as somebody with a fresh clone runs it."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rota.testing import eventually_sync

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_demo_produces_work_and_stops_on_ctrl_c(
    database_url: str, conn: psycopg.Connection[Any], tmp_path: Path
) -> None:
    def orders_are_packed() -> None:
        assert demo.poll() is None, output.read_text()
        assert conn.execute("SELECT to_regclass('shop.orders')").fetchone() != (None,)
        query = "SELECT count(*) FROM shop.orders WHERE state = 'packed'"
        assert (conn.execute(query).fetchone() or (0,))[0] >= 3

    output = tmp_path / "output"
    with output.open("w") as file:
        demo = subprocess.Popen(
            [ROOT / "script" / "demo"],
            env=os.environ | {"ROTA_DATABASE_URL": database_url},
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # the terminal of Ctrl-C
        )
    try:
        eventually_sync(orders_are_packed, 60)
        os.killpg(demo.pid, signal.SIGINT)
        assert demo.wait(60) == 0, output.read_text()
    finally:
        if demo.poll() is None:
            os.killpg(demo.pid, signal.SIGKILL)
            demo.wait()
    said = output.read_text()
    assert "worker stopped" in said
    # Whoever starts it wants to look at it: the address comes first.
    lines = said[said.index("dashboard: ") :].splitlines()
    assert lines[0].startswith("dashboard: http://")
    assert lines[lines.index("rota dev") + 1].startswith("  dashboard    http://")
