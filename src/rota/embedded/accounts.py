"""The account that the server runs as: the current user, or an unprivileged one instead of root."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rota.errors import EmbeddedError

try:
    import pwd
except ImportError as error:  # pragma: no cover - Windows, which lacks flock as well
    raise EmbeddedError(
        "the embedded Postgres needs Linux or macOS",
        hint="configure a database: ROTA_DATABASE_URL or rota.toml",
    ) from error

_UNPRIVILEGED = ("postgres", "nobody")
# Variables that locate programs, libraries and temporary files.
_KEPT = frozenset({"PATH", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT"})


def server_environment() -> dict[str, str]:
    """Return only the variables that the server's programs need to start: secrets of the
    application must not be passed on, and PGDATA, PGPORT, the host's language and zone would change
    the server."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _KEPT or name.startswith("DYLD_")
    }
    return kept | {"LC_ALL": "C"}


@dataclass(frozen=True)
class Account:
    """A user of this machine; `is_other` if it is not the current one."""

    uid: int
    gid: int
    name: str
    is_other: bool

    def run(self, *command: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a command as this account, with the server's environment, and collect its output;
        raise OSError if that is impossible."""
        options.setdefault("env", server_environment())
        if self.is_other:
            options |= {"user": self.uid, "group": self.gid, "extra_groups": []}
        return subprocess.run(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            cwd="/",
            **options,
        )

    def can_enter(self, directory: Path) -> bool:
        """Test with the kernel instead of reading mode bits, which do not include ACLs."""
        if not self.is_other:
            return True
        return self.run("/bin/sh", "-c", 'cd -- "$0"', directory).returncode == 0

    def give(self, descriptor: int) -> None:
        """Hand over a file that root has just created in the account's directory."""
        if self.is_other and os.fstat(descriptor).st_uid == 0:
            os.fchown(descriptor, self.uid, self.gid)


def server_account(directory: Path) -> Account:
    """The account for the server of this directory.

    Root becomes the directory's owner, so that `sudo` does not take a user's data away from them,
    and an unprivileged account where root is the owner or the directory does not exist yet.
    """
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid(), _name(os.geteuid()), is_other=False)
    owner = directory.stat().st_uid if directory.exists() else 0
    entry = _entry(owner) if owner else _unprivileged()
    return Account(entry.pw_uid, entry.pw_gid, entry.pw_name, is_other=True)


def _unprivileged() -> pwd.struct_passwd:
    for name in _UNPRIVILEGED:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise EmbeddedError(
        "PostgreSQL does not run as root, and this machine has no user 'postgres' or 'nobody'",
        hint="add one of these users, or run as a plain user",
    )


def _entry(uid: int) -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedError(
            f"the data directory belongs to user id {uid}, which has no name on this machine",
            hint="PostgreSQL needs a named user: give the directory to one, or choose another",
        ) from None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
