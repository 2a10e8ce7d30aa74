"""Files that others wrote are those that the table beside them names, and have their licences."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

import rota.web

VENDORED = [
    Path(rota.web.__file__).parent / "static" / "vendor",
    Path(__file__).parents[1] / "browser" / "vendor",
]
_ROW = re.compile(r"^\| `([^`]+)` \|.*\| `([0-9a-f]{64})` \|$", re.MULTILINE)


@pytest.mark.parametrize("vendor", VENDORED, ids=["dashboard", "tests"])
def test_every_file_is_the_one_that_is_named(vendor: Path) -> None:
    files = [one for one in vendor.rglob("*") if one.suffix in (".js", ".css")]
    found = {
        str(one.relative_to(vendor)): hashlib.sha256(one.read_bytes()).hexdigest() for one in files
    }
    assert found == dict(_ROW.findall((vendor / "README.md").read_text("utf-8")))
    assert all((one.parent / "LICENSE").is_file() for one in files)
