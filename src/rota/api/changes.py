"""Says whether an action changed anything: repeating a completed action succeeds without a
change."""

from __future__ import annotations

from fastapi import Response

HEADER = "Rota-Changed"


def set_changed(response: Response, is_changed: bool) -> None:
    response.headers[HEADER] = "true" if is_changed else "false"


CHANGED = {
    HEADER: {
        "description": "`false` if it was already in that state: nothing was written.",
        "schema": {"type": "string", "enum": ["true", "false"]},
    }
}


def telling(status: int = 200) -> dict[int | str, dict[str, object]]:
    """Return `responses=` of a route that answers with the header."""
    return {status: {"headers": CHANGED}}
