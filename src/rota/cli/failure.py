"""What went wrong, in the form in which a command says so."""

from __future__ import annotations


class Failure(Exception):
    """Ends a command: `error: …`, `hint: …`, and the exit code (1 failed, 2 wrong use)."""

    def __init__(self, message: str, *, hint: str | None = None, code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.code = code
