"""Files that others wrote are those that the table beside them names, and have their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import rota.web

VENDOR = Path(rota.web.__file__).parent / "static" / "vendor"
_ROW = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_every_file_is_the_one_that_is_named() -> None:
    files = [one for one in VENDOR.rglob("*") if one.suffix in (".js", ".css")]
    found = {
        str(one.relative_to(VENDOR)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files
    }
    assert found == dict(_ROW.findall((VENDOR / "README.md").read_text("utf-8")))
    assert all((one.parent / "LICENSE").is_file() for one in files)
