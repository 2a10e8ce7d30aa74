"""What the built packages say of themselves, and hold.

python -m tests.packaging.contents dist 0.1.0
"""

from __future__ import annotations

import re
import sys
import tarfile
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[2]
EXTRAS = ["all", "embedded", "otel", "server", "worker"]
_NEAR = re.compile(r"\]\((?![a-z]+://|#)[^)]*\)")


def source_files() -> set[str]:
    """All that belongs into a wheel: modules, SQL, templates, static files."""
    found = (ROOT / "src").rglob("*")
    return {
        str(path.relative_to(ROOT / "src"))
        for path in found
        if path.is_file() and "__pycache__" not in path.parts
    }


def check_metadata(said: Message, version: str) -> list[str]:
    description = str(said.get_payload())
    wanted = {"Name": "rota", "Version": version, "Requires-Python": ">=3.11"}
    wrong = [f"{key} is {said[key]}" for key, value in wanted.items() if said[key] != value]
    if sorted(said.get_all("Provides-Extra") or ()) != EXTRAS:
        wrong.append(f"its extras are {said.get_all('Provides-Extra')}")
    if said["License-Expression"] != "Apache-2.0":
        wrong.append(f"its license is {said['License-Expression']}")
    if said["Description-Content-Type"] != "text/markdown" or "# Rota" not in description:
        wrong.append("it has no description")
    wrong += [f"the description links to {link}" for link in _NEAR.findall(description)]
    return wrong


def check_wheel(path: Path, version: str) -> list[str]:
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        about = wheel.read(f"rota-{version}.dist-info/METADATA").decode()
        points = wheel.read(f"rota-{version}.dist-info/entry_points.txt").decode()
    own = {name for name in names if name.startswith("rota/")}
    others = {PurePosixPath(name).parts[0] for name in names - own}
    wrong = check_metadata(message_from_string(about), version)
    wrong += [f"{name} is missing" for name in sorted(source_files() - own)]
    wrong += [f"{name} does not belong into it" for name in sorted(own - source_files())]
    wrong += [f"{name} does not belong into it" for name in others - {f"rota-{version}.dist-info"}]
    for suffix in (".sql", ".html", ".js", ".css", "py.typed"):
        if not any(name.endswith(suffix) for name in own):
            wrong.append(f"there is no {suffix} in it")
    for point in ("rota = rota.__main__:main", "rota = rota.pytest_plugin"):
        if point not in points:
            wrong.append(f"the entry point {point} is missing")
    return wrong


def check_sdist(path: Path, version: str) -> list[str]:
    with tarfile.open(path) as sdist:
        names = {name.removeprefix(f"rota-{version}/") for name in sdist.getnames()}
    wanted = {f"src/{name}" for name in source_files()}
    wanted |= {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "hatch_build.py"}
    wrong = [f"{name} is missing" for name in sorted(wanted - names)]
    extra = names - wanted - {"PKG-INFO", ".gitignore"}
    return wrong + [f"{name} does not belong into it" for name in sorted(extra)]


def main(directory: str, version: str) -> int:
    place = Path(directory)
    packages = {
        place / f"rota-{version}-py3-none-any.whl": check_wheel,
        place / f"rota-{version}.tar.gz": check_sdist,
    }
    found = {path.name for path in place.iterdir()} - {".gitignore"}
    wrong = [] if found == {path.name for path in packages} else [f"{directory} holds {found}"]
    for path, check in packages.items():
        wrong += [f"{path.name}: {one}" for one in check(path, version)]
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
