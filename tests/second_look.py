"""Which tests failed, one a line in the file of ROTA_FAILED: script/test runs them again.

A plugin (`-p tests.second_look`); the process that all runners report to writes the file.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

FAILED = "ROTA_FAILED"
_GROUP = re.compile(r"@[^\]@]+$")  # what is added to the name of a test of a group


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = os.environ.get(FAILED)
    if path and report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(_GROUP.sub("", report.nodeid) + "\n")
