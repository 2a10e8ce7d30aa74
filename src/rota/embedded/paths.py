"""The places of an embedded server: its data, its socket and the files beside them."""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rota.embedded.accounts import Account, server_account
from rota.embedded.locks import FileLock
from rota.errors import EmbeddedError

PORT = 5432
_PROJECT_MARKS = ("rota.toml", "pyproject.toml", ".git")
_POINTER = "moved-to"
_OURS = {"start.lock", _POINTER}
# sun_path with its closing zero byte: 108 bytes on Linux, 104 on macOS.
_SOCKET_PATH_BYTES = 107 if sys.platform == "linux" else 103


@dataclass(frozen=True)
class Home:
    """The directory of one server, owned by the account that the server runs as."""

    path: Path
    account: Account

    @property
    def cluster(self) -> Path:
        return self.path / "cluster"

    @property
    def password_file(self) -> Path:
        return self.path / "password"

    @property
    def superuser_password_file(self) -> Path:
        return self.path / "superuser-password"

    @property
    def log_file(self) -> Path:
        return self.path / "server.log"

    @property
    def copied_binaries(self) -> Path:
        """Return the directory of copied binaries, for an account that cannot reach the installed
        ones."""
        return self.path / "binaries"

    @property
    def postmaster_file(self) -> Path:
        return self.cluster / "postmaster.pid"

    def create(self, name: str, text: str) -> None:
        """Create a file that only the account can read; replace an existing one."""
        path = self.path / name
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            self.account.give(descriptor)
            file.write(text)

    def lock(self, name: str) -> FileLock:
        """Return a lock: `start` (starting and stopping), `users`, `running` (the server),
        `watchdog`."""
        return FileLock(self.path / f"{name}.lock", self.account)


def default_data_dir() -> Path:
    """Return `.rota/postgres` in the project around the current directory, or in that directory
    itself."""
    place = _project() / ".rota"
    _refuse_planted(place)
    return place / "postgres"


def _project() -> Path:
    """A directory that everyone may write, such as /tmp, is no project: another user may have made
    what is in it."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if directory != here and directory.stat().st_mode & stat.S_IWOTH:
            break
        if any((directory / mark).exists() for mark in _PROJECT_MARKS):
            return directory
    return here


def _refuse_planted(place: Path) -> None:
    """Refuse a directory of another user, who could put something else in the place of what is in
    it. Root acts as the owner of the data."""
    with suppress(FileNotFoundError):
        owner = place.lstat().st_uid
        if os.geteuid() not in (0, owner) and owner != 0:
            raise EmbeddedError(
                f"{place} belongs to user id {owner}, not to you",
                hint="choose another directory, or configure a database URL",
            )


def open_home(data_dir: Path) -> Home:
    """Create the directory if necessary, and make sure that the server's account can use it.

    As root, a directory whose parents are closed to that account (such as /root) contains only a
    pointer: opening the parents would open them to everyone. The data is then below /var/lib.
    """
    try:
        requested = data_dir.expanduser().resolve()
        account = server_account(requested)
        requested.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_foreign(requested)
        path = requested if account.can_enter(requested.parent) else _substitute(requested)
        own_directory(path, account)
    except OSError as error:
        raise EmbeddedError(
            f"cannot use the data directory {data_dir}: {error.strerror or error}",
            hint="choose a writable directory, or configure a database URL",
        ) from error
    return Home(path, account)


def _refuse_foreign(directory: Path) -> None:
    # Owner and mode of the directory will be changed: it must be empty or ours.
    names = set(os.listdir(directory))
    if not names or names & _OURS:
        return
    what = "is not empty and is not a data directory of Rota"
    if "PG_VERSION" in names:
        major = (directory / "PG_VERSION").read_text().strip()
        what = f"is a PostgreSQL {major} data directory that Rota did not create"
    raise EmbeddedError(f"{directory} {what}", hint="choose a new or empty directory")


def _substitute(requested: Path) -> Path:
    pointer = requested / _POINTER
    if pointer.exists():
        return Path(pointer.read_text().strip())
    path = _substitute_base(requested) / f"rota-embedded-{_digest(requested)}"
    pointer.write_text(f"{path}\n")
    return path


def _substitute_base(requested: Path) -> Path:
    temporary = Path(tempfile.gettempdir()).resolve()
    system = Path("/var/lib").resolve()
    is_temporary = requested.is_relative_to(temporary)
    return system if system.is_dir() and not is_temporary else Path("/tmp").resolve()


def own_directory(path: Path, account: Account) -> None:
    """Create a directory that only the account can use. A directory of another user is refused."""
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    if account.is_other and info.st_uid == 0:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
    elif info.st_uid != account.uid:
        raise EmbeddedError(
            f"{path} belongs to user id {info.st_uid}, but the server runs as {account.name}",
            hint="run as the owner of the directory, or choose another one",
        )
    if stat.S_IMODE(info.st_mode) != 0o700:
        path.chmod(0o700)


def make_socket_dir(home: Home) -> Path:
    """Create a directory with a short path that only the server's account (and root) can enter."""
    path = _socket_base(home.account) / f"rota-{_digest(home.path)}"
    needed = len(os.fsencode(path / f".s.PGSQL.{PORT}"))
    if needed > _SOCKET_PATH_BYTES:
        raise EmbeddedError(
            f"the socket path in {path} is too long: {needed} bytes of {_SOCKET_PATH_BYTES}",
            hint="set TMPDIR to a directory with a shorter path",
        )
    try:
        own_directory(path, home.account)
        for leftover in path.iterdir():
            # Left by a server that crashed: its pid may belong to another process now.
            leftover.unlink()
    except OSError as error:
        raise EmbeddedError(f"cannot create the socket directory {path}: {error}") from error
    return path


def _socket_base(account: Account) -> Path:
    # Not XDG_RUNTIME_DIR: it is removed at logout, and a program that continues would lose its
    # database.
    temporary = Path(tempfile.gettempdir())
    return temporary if account.can_enter(temporary) else Path("/tmp")


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]
