"""A class name means one thing: a second class of a name is noticed."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import rota

ROOT = Path(rota.__file__).parent
# Reviewed. One thing in two places: what `app` has and what it answers, a type of the model or of
# timings and its body in a request, what a transaction tells and how it goes over the wire.
SAME_THING = {
    "Attention", "Clock", "ErrorPage", "Overview", "Stats", "Timing",
    "Why",
}  # fmt: skip
# What pages, commands and requests call their own parts, which nobody else imports.
OF_FACES = {
    "Bar", "Choice", "Failure", "Field", "Group", "Health", "Kind", "Page", "Part",
    "Row", "Section", "Segment", "Session", "Setting", "Shown", "Tab",
}  # fmt: skip


def repeated(sources: dict[str, str]) -> dict[str, list[str]]:
    """Names of classes that more than one module defines, without private ones."""
    found = defaultdict(set)
    for place, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(place)
    return {name: sorted(places) for name, places in found.items() if len(places) > 1}


def test_no_two_classes_have_a_name_by_accident() -> None:
    sources = {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in ROOT.rglob("*.py")
    }
    known = SAME_THING | OF_FACES
    found = repeated(sources)
    assert {name: found[name] for name in found.keys() - known} == {}
    assert known - found.keys() == set(), "reviewed, and there no more"


def test_the_check_finds_a_name_in_two_modules() -> None:
    twice = {"a.py": "class Line: ...\nclass _Own: ...", "b.py": "class Line: ...\nclass _Own: ..."}
    assert repeated(twice) == {"Line": ["a.py", "b.py"]}
