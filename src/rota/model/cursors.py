"""The position at which a page begins, as text that is opaque to callers: its content may
change."""

from __future__ import annotations

import base64
import json
from typing import Any


def write_cursor(kind: str, *place: Any) -> str:
    text = json.dumps([kind, *place], separators=(",", ":"), default=str)
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(kind: str, cursor: str) -> list[Any]:
    """Raise ValueError for a cursor that this list and order have not issued."""
    padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
    try:
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except RecursionError:
        found = None
    if not isinstance(found, list) or len(found) < 2 or found[0] != kind:
        raise ValueError(cursor)
    return found[1:]
