"""The small programs of examples/ do what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED = {
    "quickstart.py": ["Hello, world!"],
    "transactions.py": [
        "12A is taken: no booking, and no run either",
        "[('12A', True)]",
    ],
    "embedded_worker.py": ["[0, 1, 4, 9, 16]"],
}


def test_every_program_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_program(name: str, database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        env=os.environ | {"ROTA_DATABASE_URL": database_url, "ROTA_WORKER_POLL_SECONDS": "0.1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == EXPECTED[name]
