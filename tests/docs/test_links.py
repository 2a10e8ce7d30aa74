"""Links lead somewhere, files that the docs name exist, and no page is out of reach."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Where a path in the text may start.
PLACES = [
    ROOT,
    *(
        ROOT / "src" / part
        for part in ("", "rota", "rota/postgres", "rota/postgres/sql", "rota/engine")
    ),
]
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"`((?:[\w-]+/)+[\w-]+\.(?:py|sql|md|toml))`")


def links(page: Path) -> list[tuple[str, str]]:
    """Target and anchor of each link that stays in the project."""
    found = _LINK.findall(page.read_text(encoding="utf-8"))
    parts = [link.partition("#") for link in found if "://" not in link]
    return [(target, anchor) for target, _, anchor in parts]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in links(page):
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.name}: there is no {target}"
        assert not anchor or anchor in anchors(file), f"{page.name}: {target} has no #{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: Path) -> None:
    for name in _FILE.findall(page.read_text(encoding="utf-8")):
        is_there = "NNNN" in name or any((place / name).exists() for place in PLACES)
        assert is_there, f"{page.name} names {name}"


def test_loops_in_the_architecture_are_all_there_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    table = text.partition("## Loops of a worker")[2].partition("\n**")[0]
    runtime = ROOT / "src" / "rota" / "engine"
    files = {path.relative_to(runtime).as_posix(): path for path in runtime.rglob("*.py")}
    loops = {name for name, path in files.items() if "(Loop)" in path.read_text()}
    rows = "\n".join(line for line in table.splitlines() if line.startswith("|"))
    named = set(re.findall(r"`([\w/]+\.py)`", rows))
    assert loops <= named
    assert named <= set(files)


def test_every_page_is_linked() -> None:
    linked = {
        (page.parent / target).resolve() for page in PAGES for target, _ in links(page) if target
    }
    decisions = ROOT / "docs" / "decisions"
    pages = {page for page in PAGES if page.parent not in (ROOT, decisions)}
    assert pages <= linked
