"""The beginning of a line on the console: `12:00:07 INFO    rota.worker    …`"""

from __future__ import annotations

import time
from functools import cache

from rota.model.printable import one_line

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50}
INDENT = "    "


def clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


@cache
def beginning(level: str, name: str) -> str:
    return f" {one_line(level):<7} {one_line(name):<14} "
