"""File locks that the kernel releases when a process dies, by whatever signal.

They are `flock` locks: they belong to the *open file*, so two objects in one process do not disturb
each other, and a lock can be handed to another process by inheritance. The files must be on a local
file system.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from rota.embedded.accounts import Account
from rota.errors import EmbeddedError

_open_locks: set[FileLock] = set()


class FileLock:
    """An open lock file; closed on exec and in forked children, which therefore hold no share."""

    def __init__(self, path: Path, account: Account) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            self.descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise EmbeddedError(f"cannot open the lock file {path}: {error.strerror}") from error
        self.path = path
        account.give(self.descriptor)
        _open_locks.add(self)

    @property
    def is_open(self) -> bool:
        return self.descriptor >= 0

    def share(self) -> None:
        """Wait for the lock and hold it together with other processes."""
        fcntl.flock(self.descriptor, fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock exclusively; return False at once if that is impossible."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def exclusive(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not self.try_exclusive():
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"another process has held {self.path} for more than {timeout:g} s",
                    hint="it starts or stops the same server; see server.log in that directory",
                )
            time.sleep(0.01)

    def close(self) -> None:
        """Release the lock, unless another process has inherited it."""
        descriptor, self.descriptor = self.descriptor, -1
        _open_locks.discard(self)
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_all() -> None:
    # A forked child shares the open file: left open, it would keep the server running on behalf of
    # its parent long after the parent has ended.
    for lock in list(_open_locks):
        lock.close()


os.register_at_fork(after_in_child=_close_all)
