"""The API is asked for, never brought along; and its edges hold no SQL."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import rota.api

PLACE = Path(rota.api.__file__).parent


def test_importing_rota_brings_no_web_framework() -> None:
    program = "import sys, rota; print([it for it in ('fastapi', 'uvicorn') if it in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_edges_hold_no_sql_and_do_not_reach_into_the_store() -> None:
    for path in PLACE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"from rota\.postgres|import psycopg|\bSELECT |\bUPDATE ", text), path
