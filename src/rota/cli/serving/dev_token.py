"""The token of one start of `rota dev`, for the user who started it."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

# Keeps one token over all restarts of a program; a script that starts `rota dev` may set it.
VARIABLE = "ROTA_DEV_TOKEN"


def new() -> str:
    return secrets.token_urlsafe(24)


def take() -> str:
    """Return the token of the environment, which handlers do not inherit, or a new one."""
    return os.environ.pop(VARIABLE, "") or new()


def write(token: str) -> Path:
    """Write the token to a file that only its owner can read, so that no command line contains
    it."""
    from rota.embedded.paths import default_data_dir

    place = default_data_dir().parent
    place.mkdir(mode=0o700, exist_ok=True)
    path = place / "token"
    with suppress(FileNotFoundError):
        path.unlink()
    with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(f"{token}\n")
    return path
