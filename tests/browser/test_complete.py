"""Nothing of the dashboard is left out of these tests. Needs no browser."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

import pytest

import tests.browser
from rota.web import nav
from tests.browser.pages import NOT_PAGES, OUTSIDE, PAGES, route_of, routes


def test_every_page_is_looked_at() -> None:
    """A route that shows a page has its line in pages.py."""
    shown = {one.path for one in routes("GET")} - NOT_PAGES - OUTSIDE

    assert shown == {route_of(path).path for path in PAGES}


def test_every_section_is_looked_at() -> None:
    assert {one.path for one in nav.items() if one is not None} <= set(PAGES)


def _marked() -> Iterator[str]:
    for module in pkgutil.iter_modules(tests.browser.__path__, "tests.browser."):
        for thing in vars(import_module(module.name)).values():
            for mark in getattr(thing, "pytestmark", ()) if callable(thing) else ():
                if isinstance(mark, pytest.Mark) and mark.name == "acts":
                    yield from mark.args


def test_every_action_is_tried() -> None:
    """A route that takes a form has a test that is marked `@acts("/its/{path}")`."""
    assert {one.path for one in routes("POST")} == set(_marked())
