"""The example project's own tests pass, alone and in parallel, and leave nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import psycopg
import pytest

PROJECT = Path(__file__).parents[2] / "examples" / "tickets"
FILES = [path.read_text() for path in (PROJECT / "tests").glob("test_*.py")]
TESTS = sum(len(re.findall(r"^(?: {4}|async )?def test_", text, re.MULTILINE)) for text in FILES)


def run_tests(*arguments: str, **environment: str) -> str:
    """What pytest said; as somebody who has nothing but Rota would run it."""
    own = ("PYTEST_", "ROTA_TESTS_", "ROTA_DATABASE")
    kept = {name: it for name, it in os.environ.items() if not name.startswith(own)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:django", "-q",
         *arguments],
        cwd=PROJECT, env=kept | environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_they_pass_in_parallel_on_one_embedded_server() -> None:
    run = f"tickets{os.getpid()}"
    said = run_tests("-n", "2", f"--testrunuid={run}")
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) == TESTS + 1  # one has two parameters
    places = (Path(tempfile.gettempdir()), Path("/dev/shm"))
    assert [it for place in places for it in place.glob(f"rota-test-*{run}*")] == []


def test_they_pass_on_a_server_that_is_named(database_url: str) -> None:
    run_tests(ROTA_TEST_DATABASE_URL=database_url)
    with psycopg.connect(database_url) as conn:
        names = "SELECT datname FROM pg_database WHERE datname LIKE 'rota\\_test\\_%'"
        assert conn.execute(names).fetchall() == []


def test_handlers_alone_need_no_server() -> None:
    said = run_tests(
        "tests/test_handlers.py", ROTA_TEST_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"
    )
    assert "3 passed" in said
